/* See posix.h. Copyright 2026 the Scoregate authors. Licensed under the Apache License, Version 2.0. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE /* flock */
#include "posix.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SILENT_S = 45, CONNECT_S = 10, PATH_ROOM = SG_FOLDER_SIZE + SG_ENTRY_SIZE + 16 };

static size_t take_field(char *line, size_t size, size_t count, void *call) {
  char text[600], *value;
  size_t length = size * count;
  int status;
  if (length >= sizeof text) return length;
  memcpy(text, line, length);
  while (length && (text[length - 1] == '\r' || text[length - 1] == '\n')) length--;
  text[length] = 0;
  if (sscanf(text, "HTTP/%*s %d", &status) == 1) {
    sg_received_status(call, status);
  } else if ((value = strchr(text, ':')) != NULL) {
    *value++ = 0;
    sg_received_field(call, text, value + strspn(value, " \t"));
  }
  return size * count;
}

static size_t take_body(char *data, size_t size, size_t count, void *call) {
  return sg_received_body(call, data, size * count) ? size * count : 0;
}

static struct curl_slist *header_list(const sg_call *call) {
  struct curl_slist *list = NULL;
  size_t i;
  for (i = 0; i < call->header_count; i++) {
    char line[4096];
    snprintf(line, sizeof line, "%s: %s", call->headers[i].name, call->headers[i].value);
    list = curl_slist_append(list, line);
  }
  return curl_slist_append(list, "Expect:"); /* a body of a megabyte would wait a second for a 100 */
}

static void send_by_curl(void *context, sg_call *call) {
  CURL *curl = ((sg_posix *)context)->curl;
  struct curl_slist *headers = header_list(call);
  char why[CURL_ERROR_SIZE] = "";
  CURLcode code;
  curl_easy_reset(curl); /* keeps the connection */
  curl_easy_setopt(curl, CURLOPT_URL, call->url);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_field);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, call);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
  if (call->timeout_ms) {
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
  } else {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
  }
  if (call->body) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_size);
  } else if (strcmp(call->method, "GET") != 0) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
  }
  code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code == CURLE_OK) {
    sg_received_end(call);
  } else {
    const int was_sent = code != CURLE_COULDNT_RESOLVE_HOST && code != CURLE_COULDNT_CONNECT;
    sg_received_nothing(call, was_sent, why[0] ? why : curl_easy_strerror(code));
  }
}

static int random_bytes(void *context, void *to, size_t size) {
  const int file = open("/dev/urandom", O_RDONLY);
  ssize_t got;
  (void)context;
  if (file < 0) return 0;
  got = read(file, to, size);
  close(file);
  return got == (ssize_t)size;
}

static int64_t now_ms(void *context) {
  struct timespec now;
  (void)context;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(void *context, uint32_t wait_ms) {
  struct timespec wait;
  (void)context;
  wait.tv_sec = wait_ms / 1000;
  wait.tv_nsec = (long)(wait_ms % 1000) * 1000000;
  while (nanosleep(&wait, &wait) != 0 && errno == EINTR) {
  }
}

int sg_posix_open(sg_posix *posix) {
  posix->curl = curl_easy_init();
  return posix->curl != NULL;
}

void sg_posix_close(sg_posix *posix) { curl_easy_cleanup(posix->curl); }

sg_platform sg_posix_platform(sg_posix *posix) {
  sg_platform platform;
  platform.context = posix;
  platform.random_bytes = random_bytes;
  platform.now_ms = now_ms;
  platform.send = send_by_curl;
  platform.sleep_ms = sleep_ms;
  return platform;
}

/* ---- The folder ---- */

static const char *path_of(const sg_folder *folder, const char *name, const char *ending, char path[PATH_ROOM]) {
  snprintf(path, PATH_ROOM, "%s/%s%s", folder->path, name, ending);
  return path;
}

static int is_entry(const char *name) {
  const size_t size = strlen(name);
  return size < SG_ENTRY_SIZE && size > 5 && strcmp(name + size - 5, ".json") == 0;
}

static int next_name(void *context, const char *after, char name[SG_ENTRY_SIZE]) {
  DIR *open_folder = opendir(((sg_folder *)context)->path);
  struct dirent *file;
  char found[SG_ENTRY_SIZE] = "";
  if (!open_folder) return 0;
  while ((file = readdir(open_folder)) != NULL) {
    if (is_entry(file->d_name) && strcmp(file->d_name, after) > 0 && (!found[0] || strcmp(file->d_name, found) < 0)) {
      strcpy(found, file->d_name);
    }
  }
  closedir(open_folder);
  strcpy(name, found);
  return found[0] != 0;
}

/* Makes what was renamed or removed in a folder survive a loss of power. */
static int sync_folder(const sg_folder *folder) {
  const int file = open(folder->path, O_RDONLY);
  int is_done;
  if (file < 0) return 0;
  is_done = fsync(file) == 0;
  close(file);
  return is_done;
}

static int write_all(int file, const char *data, size_t size) {
  while (size) {
    const ssize_t written = write(file, data, size);
    if (written < 0 && errno != EINTR) return 0;
    if (written > 0) {
      data += written;
      size -= (size_t)written;
    }
  }
  return fsync(file) == 0;
}

static int write_entry(void *context, const char *name, const void *data, size_t size) {
  const sg_folder *folder = context;
  char whole[PATH_ROOM], part[PATH_ROOM];
  const int file = open(path_of(folder, name, ".part", part), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int is_done;
  if (file < 0) return 0;
  is_done = write_all(file, data, size);
  is_done = close(file) == 0 && is_done && rename(part, path_of(folder, name, "", whole)) == 0;
  if (!is_done) unlink(part);
  return is_done && sync_folder(folder);
}

static int read_entry(void *context, const char *name, void *to, size_t room, size_t *size) {
  char path[PATH_ROOM];
  const int file = open(path_of(context, name, "", path), O_RDONLY);
  struct stat facts;
  size_t got = 0;
  ssize_t part = 1;
  if (file < 0) return 0;
  *size = fstat(file, &facts) == 0 ? (size_t)facts.st_size : 0;
  while (*size <= room && got < *size && (part = read(file, (char *)to + got, *size - got)) > 0) got += (size_t)part;
  close(file);
  return *size <= room && got == *size;
}

static int remove_entry(void *context, const char *name) {
  char path[PATH_ROOM];
  return (unlink(path_of(context, name, "", path)) == 0 || errno == ENOENT) && sync_folder(context);
}

static int set_aside(void *context, const char *name) {
  char path[PATH_ROOM], aside[PATH_ROOM];
  return rename(path_of(context, name, "", path), path_of(context, name, ".damaged", aside)) == 0 &&
         sync_folder(context);
}

static int lock_folder(void *context) {
  sg_folder *folder = context;
  char path[PATH_ROOM];
  const int file = open(path_of(folder, "lock", "", path), O_RDWR | O_CREAT, 0600);
  if (file < 0) return 0;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) {
    folder->lock = file;
    return 1;
  }
  close(file); /* and not the lock of a flush that goes on */
  return 0;
}

static void unlock_folder(void *context) { close(((sg_folder *)context)->lock); }

int sg_folder_open(sg_folder *folder, const char *path) {
  folder->lock = -1;
  if (strlen(path) >= sizeof folder->path) return 0;
  strcpy(folder->path, path);
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

sg_store sg_folder_store(sg_folder *folder) {
  sg_store store;
  store.context = folder;
  store.next = next_name;
  store.write = write_entry;
  store.read = read_entry;
  store.remove = remove_entry;
  store.set_aside = set_aside;
  store.lock = lock_folder;
  store.unlock = unlock_folder;
  return store;
}
