/*
 * posix.h: what a client needs of a machine with POSIX and libcurl: connections, a clock, randomness, and a folder for
 * the queue. Copy it into a program for a desktop or a server, or read it to write your own for another platform.
 *
 * Copyright 2026 the Scoregate authors. Licensed under the Apache License, Version 2.0.
 */
#ifndef SCOREGATE_POSIX_H
#define SCOREGATE_POSIX_H

#include "../scoregate.h"

#define SG_FOLDER_SIZE 512

/* A connection that is kept between calls. */
typedef struct sg_posix {
  void *curl;
} sg_posix;

/* Opens it; 0 if libcurl cannot. Close it with sg_posix_close. */
int sg_posix_open(sg_posix *posix);
void sg_posix_close(sg_posix *posix);
sg_platform sg_posix_platform(sg_posix *posix);

/* A folder of entries, which nobody else may read. */
typedef struct sg_folder {
  char path[SG_FOLDER_SIZE];
  int lock;
} sg_folder;

/* Makes the folder if it is not there; 0 if it cannot. */
int sg_folder_open(sg_folder *folder, const char *path);
sg_store sg_folder_store(sg_folder *folder);

#endif /* SCOREGATE_POSIX_H */
