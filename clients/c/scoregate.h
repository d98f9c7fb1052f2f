/*
 * scoregate.h: a client of a Scoregate gateway, for C99 and C++11, in one header.
 *
 * In one source file of your game, and only there:
 *
 *     #define SG_IMPLEMENTATION
 *     #include "scoregate.h"
 *
 * Everywhere else include it without the macro. README.md beside this file has a first program.
 *
 * It allocates nothing: all memory is the caller's, and what does not fit is SG_NO_ROOM. It opens no connection,
 * starts no thread and reads no clock: a call says what to send or how long to wait, and is told what came back
 * (sg_step). sg_perform does that in a loop, over callbacks of yours, for programs that may block.
 * Nothing here is global; a client and its calls belong to one thread at a time.
 *
 * Copyright 2026 the Scoregate authors. Licensed under the Apache License, Version 2.0.
 */
#ifndef SCOREGATE_H
#define SCOREGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SG_VERSION "0.1.0"

/* Sizes in bytes, with the zero at the end. */
#define SG_ID_SIZE 72       /* a player, a submission */
#define SG_BOARD_SIZE 120   /* a board */
#define SG_NAME_SIZE 100    /* a display name */
#define SG_TICKET_SIZE 1032 /* the ticket of a run */
#define SG_TOKEN_SIZE 2048  /* a player's token */
#define SG_URL_SIZE 512     /* the address of a gateway */
#define SG_TIME_SIZE 40     /* a time in RFC 3339 */
#define SG_STATE_SIZE 40    /* a state, a reason, the name of a problem */
#define SG_DETAIL_SIZE 400  /* what a problem says for people */
#define SG_FIELD_SIZE 200   /* a short field of an answer */
#define SG_DIGEST_SIZE 80   /* "sha256:" and 64 hexadecimal digits */
#define SG_ENTRY_SIZE 40    /* the name of an entry of the queue */

#define SG_CALL_ROOM 32768 /* enough memory for a call without a recording whose answer is a page of 100 entries */

typedef enum sg_error {
  SG_FINE = 0,
  SG_NO_ROOM,     /* the memory that the caller gave is too small */
  SG_INVALID,     /* an argument, or a recording that cannot be */
  SG_NO_ANSWER,   /* no attempt reached the gateway; the detail says why */
  SG_REFUSED,     /* the gateway, or something before it, refused: status, reason and detail say more */
  SG_UNREADABLE,  /* an answer that is none of a gateway's, such as the page of a hotel's network */
  SG_TIMEOUT,     /* the time that the caller gave is over */
  SG_FULL,        /* the queue has SG_QUEUE_MOST entries */
  SG_STORE_FAILED /* a callback of the store, or of randomness, failed */
} sg_error;

/* ---- Bytes ------------------------------------------------------------------------------------------------- */

/* A text being written into the caller's memory. It always ends in a zero, which `size` does not count. */
typedef struct sg_buffer {
  char *data;
  size_t room;
  size_t size;
  int is_short; /* something did not fit */
} sg_buffer;

sg_buffer sg_buffer_of(void *memory, size_t room);

typedef struct sg_sha256 {
  uint32_t state[8];
  uint64_t size;
  unsigned char block[64];
} sg_sha256;

/* SHA-256 (FIPS 180-4). */
void sg_sha256_begin(sg_sha256 *hash);
void sg_sha256_add(sg_sha256 *hash, const void *data, size_t size);
void sg_sha256_end(sg_sha256 *hash, unsigned char digest[32]);

/* HMAC-SHA256 (RFC 2104). */
void sg_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, unsigned char mac[32]);

/* Base64 with padding (RFC 4648, section 4). */
void sg_put_base64(sg_buffer *to, const void *data, size_t size);

/* Writes the bytes of a canonical base64 text, and returns 1; 0 if it is none, or does not fit. */
int sg_from_base64(const char *text, size_t text_size, void *to, size_t room, size_t *size);

/* ---- JSON: a reader that copies nothing -------------------------------------------------------------------- */

/* The text of a value, in an answer that was read whole and is valid. */
typedef struct sg_json {
  const char *at;
  const char *end;
} sg_json;

/* Returns 1 if a text is one JSON value in UTF-8, nested at most 32 deep. */
int sg_json_read(const char *text, size_t size, sg_json *value);

/* Returns 1 and the member of an object. */
int sg_json_member(sg_json object, const char *name, sg_json *value);

/* Returns 1 and the item after `item` of an array; begin with an `item` of zeros. */
int sg_json_next(sg_json array, sg_json *item);

/* Copies the text of a string and returns 1; 0 if it is no string, has a zero in it, or does not fit. */
int sg_json_text(sg_json value, char *to, size_t room);

/* Returns 1 and a number without fraction or exponent that fits. */
int sg_json_integer(sg_json value, int64_t *number);

/* Returns 1 if a value is this string, byte for byte. */
int sg_json_is(sg_json value, const char *text);

/* Returns 1 if a value is `true`. */
int sg_json_is_true(sg_json value);

/* Returns 1 if a value is `null`. */
int sg_json_is_null(sg_json value);

/* ---- The recording of a run (docs/reference/recording.md) ---------------------------------------------------- */

/* A stretch of ticks with one input. */
typedef struct sg_stretch {
  uint32_t length;
  uint32_t word;
} sg_stretch;

typedef struct sg_recorder {
  sg_stretch *stretches;
  size_t stretch_room, stretch_count;
  uint64_t *checkpoints;
  size_t checkpoint_room, checkpoint_count;
  uint32_t ticks, checkpoint_ticks;
  sg_error error; /* the first one; later calls change nothing */
} sg_recorder;

/* Begins a recording in the caller's arrays. A stretch is used for each change of the input, a checkpoint for every
 * `checkpoint_ticks` ticks (0: none). */
void sg_recorder_begin(sg_recorder *recorder, sg_stretch *stretches, size_t stretch_room, uint64_t *checkpoints,
                       size_t checkpoint_room, uint32_t checkpoint_ticks);

/* Records the input of the next tick. */
sg_error sg_recorder_tick(sg_recorder *recorder, uint32_t word);

/* Records the next `length` ticks with one input. No checkpoint may be due before the last of them. */
sg_error sg_recorder_ticks(sg_recorder *recorder, uint32_t length, uint32_t word);

/* Returns 1 if the state has to be hashed now, before the next tick. */
int sg_recorder_is_due(const sg_recorder *recorder);

/* Records the hash of the game's state. */
sg_error sg_recorder_checkpoint(sg_recorder *recorder, uint64_t hash);

/* Writes the recording. sg_recording_room says how much room is enough. */
sg_error sg_recorder_end(sg_recorder *recorder, sg_buffer *recording);
size_t sg_recording_room(const sg_recorder *recorder);

/* Writes "sha256:" and the digest of a recording. */
void sg_recording_digest(const void *recording, size_t size, char digest[SG_DIGEST_SIZE]);

/* ---- What a run claims ---------------------------------------------------------------------------------------- */

typedef struct sg_stat {
  const char *name;
  int64_t value;
} sg_stat;

typedef struct sg_claim {
  int64_t score;
  uint32_t ticks;
  const sg_stat *stats;
  size_t stat_count;
  const void *recording; /* NULL on a board that replays nothing */
  size_t recording_size;
  int is_commit;      /* 1: send the digest alone, on a board that has `reveal_s`, and keep the recording */
  const char *digest; /* of a commit whose recording is not in memory (sg_recording_digest); or NULL */
} sg_claim;

/* Writes the body that is signed and sent. Its bytes must never change between two attempts. */
sg_error sg_claim_body(const sg_claim *claim, sg_buffer *body);

/* ---- Signatures (docs/reference/signatures.md) ------------------------------------------------------------------ */

typedef struct sg_header {
  const char *name;
  const char *value;
} sg_header;

/* A request to sign. `query` is without its question mark, `alg` may be NULL; times are Unix seconds. */
typedef struct sg_signing {
  const char *method, *authority, *path, *query, *content_type;
  const void *body;
  size_t body_size;
  int64_t created, expires;
  const char *nonce, *keyid, *tag, *alg;
} sg_signing;

/* Writes the four header fields of a request that is signed by HMAC-SHA256; their values lie in `memory`. */
sg_error sg_sign(const sg_signing *request, const void *key, size_t key_size, sg_buffer *memory,
                 sg_header headers[4]);

/* Writes the text that sg_sign signs (RFC 9421, section 2.5), to compare with what the gateway says. */
sg_error sg_signature_base(const sg_signing *request, sg_buffer *base);

/* ---- A client and its calls -------------------------------------------------------------------------------------- */

struct sg_call;

/* What a client needs of the machine. `random_bytes` and `now_ms` (Unix time) always; the others for sg_perform. */
typedef struct sg_platform {
  void *context;
  int (*random_bytes)(void *context, void *to, size_t size); /* 1: done. They must not be predictable */
  int64_t (*now_ms)(void *context);
  void (*send)(void *context, struct sg_call *call); /* sends what the call says and calls sg_received_… */
  void (*sleep_ms)(void *context, uint32_t wait_ms);
} sg_platform;

/* A client of one gateway, for one player. */
typedef struct sg_client {
  sg_platform platform;
  char token[SG_TOKEN_SIZE]; /* set it to go on as an earlier player; sg_created_player sets it */
  int attempts;              /* of one call: 6 */
  int64_t clock_offset_s;    /* how far the gateway's clock is ahead, once it has said so */
  char scheme[8], authority[SG_URL_SIZE], prefix[SG_URL_SIZE];
} sg_client;

/* Begins a client. `base_url` is the gateway's address without "/v1". SG_INVALID if it is none. */
sg_error sg_client_begin(sg_client *client, const char *base_url, sg_platform platform);

typedef enum sg_action {
  SG_SEND, /* send method, url, headers and body; then tell what came back, and step again */
  SG_WAIT, /* wait for wait_ms, or for less; then step again */
  SG_OUTCOME, /* of sg_flush_step alone: the outcome of one entry */
  SG_DONE  /* error says how it went */
} sg_action;

/* Receives an event of a board's feed. Return 0 to end the feed. */
typedef int (*sg_on_event)(void *context, const char *event, const char *id, const char *data, size_t size);

/* One request to the gateway, over as many attempts as it takes. */
typedef struct sg_call {
  /* What to send. `timeout_ms` is for one attempt; 0 means that the answer is a stream, which is lost after
   * 45 silent seconds. Follow no redirect, and send no cookie. */
  const char *method, *url;
  sg_header headers[6];
  size_t header_count;
  const void *body;
  size_t body_size;
  uint32_t timeout_ms;
  uint32_t wait_ms;
  /* How it went. */
  sg_error error;
  int status;                   /* of HTTP; 0 without an answer */
  char reason[SG_STATE_SIZE];   /* the stable name of the problem, such as "run-expired"; "" without one */
  char detail[SG_DETAIL_SIZE];  /* for people */
  int64_t retry_after_s;        /* -1 if it was not said */
  sg_json answer;               /* the JSON of an answer, for as long as the memory is the call's */
  const void *content;          /* the bytes of an answer */
  size_t content_size;
  /* The rest is the call's own. */
  sg_client *client;
  char *memory;
  size_t room, kept, taken, received;
  const char *content_type, *list, *member;
  unsigned char key[32];
  char keyid[SG_TICKET_SIZE], nonce[28], bearer[SG_TOKEN_SIZE + 8], digest[SG_DIGEST_SIZE];
  char received_type[40];
  int64_t deadline_ms;
  int phase, kind, attempt, polls, is_signed, is_repeatable, was_sent, has_set_clock, is_cut, is_over;
  sg_on_event on_event;
  void *event_context;
  size_t line, data;
  char event[32], id[64], last_id[64];
  int has_id, has_data, is_dropped;
} sg_call;

/* Gives a call its memory. It may be used for one request after another. */
void sg_call_begin(sg_call *call, void *memory, size_t room);

/* Says what to do next. Repeat until SG_DONE. */
sg_action sg_step(sg_call *call);

/* Tell a call what came back: the status, each header field, the body in pieces, the end. */
void sg_received_status(sg_call *call, int status);
void sg_received_field(sg_call *call, const char *name, const char *value);
int sg_received_body(sg_call *call, const void *data, size_t size); /* 0: no more is wanted, close the connection */
void sg_received_end(sg_call *call);

/* Tell a call that no whole answer came. `was_sent` is 0 only if no byte of the request can have been sent. */
void sg_received_nothing(sg_call *call, int was_sent, const char *why);

/* Steps until it is done, over the callbacks `send` and `sleep_ms`. Returns the call's error. */
sg_error sg_perform(sg_call *call);

/* ---- Calls. Each begins one; step or perform it, then read the answer. ---------------------------------------- */

typedef struct sg_player {
  char player[SG_ID_SIZE], name[SG_NAME_SIZE], token[SG_TOKEN_SIZE];
} sg_player;

/* An open run. Play with `seed`, hash the state every `checkpoint_ticks` ticks, submit before `expires_at`.
 * `parameters` and `asset` of the board are members of the answer itself. */
typedef struct sg_run {
  char run[SG_ID_SIZE], board[SG_BOARD_SIZE], player[SG_ID_SIZE], ticket[SG_TICKET_SIZE];
  unsigned char key[32];
  uint64_t seed;
  uint32_t ticks_per_second, checkpoint_ticks;
  char expires_at[SG_TIME_SIZE];
} sg_run;

typedef struct sg_submission {
  char submission[SG_ID_SIZE], board[SG_BOARD_SIZE], state[SG_STATE_SIZE], reason[SG_STATE_SIZE];
  int64_t score, rank; /* rank is 0 while the score does not count */
  int is_verified;
  char reveal_by[SG_TIME_SIZE]; /* "" while the recording is not asked for */
} sg_submission;

/* What to read of a board. Zeros mean: all time, from the beginning, the gateway's own number of entries. */
typedef struct sg_page {
  const char *window, *cursor, *ranks, *players, *segment; /* players: ids with commas between them */
  uint32_t offset, limit;
  int friends;
} sg_page;

/* Which boards of a family to read. `order` is "name", "newest" or "played"; `filters` are up to four fields of the
 * boards' metadata, with the values to find. */
typedef struct sg_family_page {
  const char *order, *cursor;
  uint32_t limit;
  const sg_header *filters;
  size_t filter_count;
} sg_family_page;

void sg_create_player(sg_call *call, sg_client *client, const char *name);
sg_error sg_created_player(const sg_call *call, sg_player *player); /* the client acts as this player from now on */

/* `name_signature` is NULL unless the run may open a board whose name the studio signs. */
void sg_open_run(sg_call *call, sg_client *client, const char *board, const char *build, const char *name_signature);
sg_error sg_opened_run(const sg_call *call, sg_run *run);

/* Submits a run. It is durable when the call is fine; sg_submission_of reads the receipt. */
void sg_submit(sg_call *call, sg_client *client, const sg_run *run, const sg_claim *claim);
sg_error sg_submission_of(sg_json document, sg_submission *submission);

void sg_read_submission(sg_call *call, sg_client *client, const char *submission);

/* Reads the submission until it is neither received nor pending. It asks at once when a step comes early: call
 * sg_step when the board's feed has an event. SG_TIMEOUT after `timeout_ms`. */
void sg_wait_until_settled(sg_call *call, sg_client *client, const char *submission, uint32_t timeout_ms);

void sg_reveals(sg_call *call, sg_client *client);
void sg_reveal(sg_call *call, sg_client *client, const char *submission, const void *recording, size_t size);
void sg_answer_question(sg_call *call, sg_client *client, const char *submission, const char *text);
void sg_appeal(sg_call *call, sg_client *client, const char *submission, const char *text);

void sg_boards(sg_call *call, sg_client *client, const sg_page *page);
void sg_board(sg_call *call, sg_client *client, const char *board);
void sg_entries(sg_call *call, sg_client *client, const char *board, const sg_page *page);
void sg_entry(sg_call *call, sg_client *client, const char *board, const char *player, const sg_page *page);
void sg_around(sg_call *call, sg_client *client, const char *board, const char *player, uint32_t radius,
               const sg_page *page);

void sg_friends(sg_call *call, sg_client *client);
void sg_follow(sg_call *call, sg_client *client, const char *player);
void sg_unfollow(sg_call *call, sg_client *client, const char *player);
void sg_memberships(sg_call *call, sg_client *client, const char *board, const char *player);
void sg_set_membership(sg_call *call, sg_client *client, const char *board, const char *segment, const char *group);

void sg_families(sg_call *call, sg_client *client, const char *cursor);
void sg_family_boards(sg_call *call, sg_client *client, const char *family, const sg_family_page *page);
void sg_standings(sg_call *call, sg_client *client, const char *family, const char *player, const sg_page *page);
/* `boards` are names with commas between them. */
void sg_entries_on(sg_call *call, sg_client *client, const char *player, const char *boards, const char *window);

/* Downloads the asset of a board, compared with its digest: `content` has it. */
void sg_asset(sg_call *call, sg_client *client, const char *board, const char *digest);

/* Follows a board until `on_event` returns 0. It connects again by itself, after the last event. */
void sg_watch(sg_call *call, sg_client *client, const char *board, const char *window, const char *after,
              sg_on_event on_event, void *context);

/* ---- The queue: runs that are sent later, and not lost ---------------------------------------------------------- */

#define SG_QUEUE_MOST 100                     /* runs that wait to be sent; recordings that are only kept fill no queue */
#define SG_QUEUE_KEPT_S (7 * 24 * 3600)       /* how long a run waits to be sent */
#define SG_RECORDING_KEPT_S (60 * 24 * 3600)  /* how long a committed run's recording is kept */

/* Where entries are kept: files in a folder, or whatever survives a restart on the platform. An entry has the key of
 * its run, so nobody else may read them. Every callback but `next` returns 1 when it is done, and 0 if it failed. */
typedef struct sg_store {
  void *context;
  /* Finds the first name after `after` in the order of bytes: 1 found, 0 none. */
  int (*next)(void *context, const char *after, char name[SG_ENTRY_SIZE]);
  /* Writes an entry whole or not at all, and returns once it survives a loss of power. It may replace one. */
  int (*write)(void *context, const char *name, const void *data, size_t size);
  /* Reads an entry. `size` is its size, also if that is more than `room`: then it returns 0. */
  int (*read)(void *context, const char *name, void *to, size_t room, size_t *size);
  int (*remove)(void *context, const char *name);
  int (*set_aside)(void *context, const char *name); /* keeps a damaged entry where `next` does not find it */
  int (*lock)(void *context); /* 1: nobody else sends now. NULL where no two processes share the store */
  void (*unlock)(void *context);
} sg_store;

/* Writes a run into the queue, and returns once it is durable. `memory` is only used meanwhile. */
sg_error sg_submit_later(sg_client *client, const sg_store *store, const sg_run *run, const sg_claim *claim,
                         void *memory, size_t room);

/* Returns how many entries there are, with those that are only kept for their recordings. */
int sg_waiting(const sg_store *store);

typedef enum sg_result {
  SG_ACCEPTED,  /* the gateway has it: it is on the way to the board */
  SG_DECLINED,  /* the gateway refused it for good; call.reason says why */
  SG_KEPT,      /* it is sent again by the next flush */
  SG_EXPIRED,   /* it waited for too long, and was dropped */
  SG_DAMAGED,   /* it could not be read, and was set aside */
  SG_HELD,      /* a committed run that the gateway has; its recording is kept, in case it is asked for */
  SG_REVEALED,  /* the same, and its recording was asked for and sent */
  SG_SETTLED    /* the same, and nobody will ask for the recording any more: the entry is gone */
} sg_result;

/* Sends the entries of a queue, oldest first. */
typedef struct sg_flush {
  sg_call call;                 /* of the entry: step says when to send and wait; has the receipt or the problem */
  char name[SG_ENTRY_SIZE];     /* of the entry */
  sg_result result;
  sg_error error;               /* SG_STORE_FAILED if the store could not be locked or read */
  char submission[SG_ID_SIZE];  /* of the entry, once the gateway has said it */
  /* The rest is its own. */
  sg_client *client;
  const sg_store *store;
  char *memory;
  size_t room, recording_size;
  int phase, is_offline, is_locked;
  const char *recording;
  char board[SG_BOARD_SIZE], ticket[SG_TICKET_SIZE];
  int64_t written_at;
} sg_flush;

void sg_flush_begin(sg_flush *flush, sg_client *client, const sg_store *store, void *memory, size_t room);

/* Says what to do next, with `flush->call`. After SG_OUTCOME the next step goes on with the next entry. */
sg_action sg_flush_step(sg_flush *flush);

/* Steps to the next outcome over the callbacks of the platform: 1 if there is one, 0 at the end. */
int sg_flush_next(sg_flush *flush);

#ifdef __cplusplus
}
#endif
#endif /* SCOREGATE_H */

#ifdef SG_IMPLEMENTATION
#ifndef SG_IMPLEMENTED
#define SG_IMPLEMENTED

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SG__COMPONENTS "(\"@method\" \"@authority\" \"@path\" \"@query\" \"content-type\" \"content-digest\")"
#define SG__PROBLEMS "https://scoregate.dev/problems/"
#define SG__JSON_TYPE "application/json"
#define SG__OCTETS "application/octet-stream"
#define SG__SIGNED_FOR_S 300 /* the longest that a gateway allows */
#define SG__MOST_DEPTH 32
#define SG__LATEST_S 253402300799 /* the end of the year 9999 */
#define SG__FIRST_WAIT_MS 500
#define SG__LONGEST_WAIT_MS 30000
#define SG__LONGEST_POLL_MS 5000
#define SG__MOST_RETRY_AFTER_S 60
#define SG__ATTEMPT_MS 15000
#define SG__DOWNLOAD_MS 120000

/* What a call expects of an answer. */
enum { SG__DOCUMENT, SG__NOTHING, SG__CONTENT, SG__FEED, SG__SETTLED };
/* Where a call is, and a flush. */
enum { SG__READY, SG__SENT, SG__ANSWERED, SG__WAITING, SG__OVER };
enum { SG__BEGUN, SG__NEXT, SG__SUBMITTING, SG__CHECKING, SG__REVEALING, SG__TOLD, SG__ENDED };

/* ---- Bytes ---- */

sg_buffer sg_buffer_of(void *memory, size_t room) {
  sg_buffer buffer;
  buffer.data = (char *)memory;
  buffer.room = room;
  buffer.size = 0;
  buffer.is_short = memory == NULL || room == 0;
  if (!buffer.is_short) buffer.data[0] = 0;
  return buffer;
}

static void sg__put(sg_buffer *to, const void *data, size_t size) {
  if (to->is_short || size >= to->room - to->size) {
    to->is_short = 1;
    return;
  }
  if (size) memcpy(to->data + to->size, data, size);
  to->size += size;
  to->data[to->size] = 0;
}

static void sg__put_text(sg_buffer *to, const char *text) { sg__put(to, text, strlen(text)); }

static void sg__put_byte(sg_buffer *to, unsigned byte) {
  const unsigned char one = (unsigned char)byte;
  sg__put(to, &one, 1);
}

static void sg__put_integer(sg_buffer *to, int64_t number) {
  char digits[24];
  snprintf(digits, sizeof digits, "%lld", (long long)number);
  sg__put_text(to, digits);
}

static void sg__put_hex(sg_buffer *to, const unsigned char *data, size_t size) {
  static const char digits[] = "0123456789abcdef";
  size_t i;
  for (i = 0; i < size; i++) {
    sg__put_byte(to, (unsigned char)digits[data[i] >> 4]);
    sg__put_byte(to, (unsigned char)digits[data[i] & 15]);
  }
}

/* Ends a text, so that another can follow it in the same buffer. Returns where it began. */
static const char *sg__close(sg_buffer *to, size_t began) {
  sg__put_byte(to, 0);
  return to->is_short ? "" : to->data + began;
}

static int sg__copy(char *to, size_t room, const char *text) {
  const size_t size = strlen(text);
  if (size >= room) return 0;
  memcpy(to, text, size + 1);
  return 1;
}

static const uint32_t sg__rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t sg__rotated(uint32_t word, int by) { return word >> by | word << (32 - by); }

static void sg__sha256_block(uint32_t state[8], const unsigned char *block) {
  uint32_t w[64], s[8], a, b;
  int i;
  for (i = 0; i < 16; i++) {
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
           block[4 * i + 3];
  }
  for (i = 16; i < 64; i++) {
    a = sg__rotated(w[i - 15], 7) ^ sg__rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
    b = sg__rotated(w[i - 2], 17) ^ sg__rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  memcpy(s, state, sizeof s);
  for (i = 0; i < 64; i++) {
    a = s[7] + (sg__rotated(s[4], 6) ^ sg__rotated(s[4], 11) ^ sg__rotated(s[4], 25)) +
        ((s[4] & s[5]) ^ (~s[4] & s[6])) + sg__rounds[i] + w[i];
    b = (sg__rotated(s[0], 2) ^ sg__rotated(s[0], 13) ^ sg__rotated(s[0], 22)) +
        ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += a;
    s[0] = a + b;
  }
  for (i = 0; i < 8; i++) state[i] += s[i];
}

void sg_sha256_begin(sg_sha256 *hash) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, start, sizeof start);
  hash->size = 0;
}

void sg_sha256_add(sg_sha256 *hash, const void *data, size_t size) {
  const unsigned char *from = (const unsigned char *)data;
  size_t held = (size_t)(hash->size % 64);
  hash->size += size;
  while (size) {
    size_t part = 64 - held < size ? 64 - held : size;
    memcpy(hash->block + held, from, part);
    from += part;
    size -= part;
    held = (held + part) % 64;
    if (held == 0) sg__sha256_block(hash->state, hash->block);
  }
}

void sg_sha256_end(sg_sha256 *hash, unsigned char digest[32]) {
  static const unsigned char padding[64] = {0x80};
  const uint64_t bits = hash->size * 8;
  const size_t held = (size_t)(hash->size % 64);
  unsigned char length[8];
  int i;
  for (i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  sg_sha256_add(hash, padding, held < 56 ? 56 - held : 120 - held);
  sg_sha256_add(hash, length, 8);
  for (i = 0; i < 32; i++) digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void sg__sha256_of(const void *data, size_t size, unsigned char digest[32]) {
  sg_sha256 hash;
  sg_sha256_begin(&hash);
  sg_sha256_add(&hash, data, size);
  sg_sha256_end(&hash, digest);
}

typedef struct sg__hmac {
  sg_sha256 inner, outer;
} sg__hmac;

static void sg__hmac_begin(sg__hmac *mac, const void *key, size_t size) {
  unsigned char block[64] = {0};
  int i;
  if (size > 64) {
    sg__sha256_of(key, size, block);
  } else if (size) {
    memcpy(block, key, size);
  }
  for (i = 0; i < 64; i++) block[i] ^= 0x36;
  sg_sha256_begin(&mac->inner);
  sg_sha256_add(&mac->inner, block, 64);
  for (i = 0; i < 64; i++) block[i] ^= 0x36 ^ 0x5c;
  sg_sha256_begin(&mac->outer);
  sg_sha256_add(&mac->outer, block, 64);
}

static void sg__hmac_end(sg__hmac *mac, unsigned char digest[32]) {
  unsigned char inner[32];
  sg_sha256_end(&mac->inner, inner);
  sg_sha256_add(&mac->outer, inner, 32);
  sg_sha256_end(&mac->outer, digest);
}

void sg_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, unsigned char mac[32]) {
  sg__hmac state;
  sg__hmac_begin(&state, key, key_size);
  sg_sha256_add(&state.inner, data, size);
  sg__hmac_end(&state, mac);
}

static const char sg__alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void sg_put_base64(sg_buffer *to, const void *data, size_t size) {
  const unsigned char *from = (const unsigned char *)data;
  size_t i;
  for (i = 0; i < size; i += 3) {
    const size_t left = size - i;
    const uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                          (left > 2 ? (uint32_t)from[i + 2] : 0);
    char four[4];
    four[0] = sg__alphabet[bits >> 18];
    four[1] = sg__alphabet[bits >> 12 & 63];
    four[2] = left > 1 ? sg__alphabet[bits >> 6 & 63] : '=';
    four[3] = left > 2 ? sg__alphabet[bits & 63] : '=';
    sg__put(to, four, 4);
  }
}

static int sg__base64_value(char letter) {
  const char *found = letter ? strchr(sg__alphabet, letter) : NULL;
  return found ? (int)(found - sg__alphabet) : -1;
}

/* Writing in place is allowed: what is written never passes what is read. */
int sg_from_base64(const char *text, size_t text_size, void *to, size_t room, size_t *size) {
  unsigned char *out = (unsigned char *)to;
  size_t padding = 0, i, written = 0;
  uint32_t bits = 0;
  if (text_size % 4) return 0;
  while (padding < 2 && padding < text_size && text[text_size - 1 - padding] == '=') padding++;
  if (text_size / 4 * 3 - padding > room) return 0;
  for (i = 0; i < text_size - padding; i++) {
    const int value = sg__base64_value(text[i]);
    if (value < 0) return 0;
    bits = bits << 6 | (uint32_t)value;
    if (i % 4) out[written++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    if (i % 4) bits &= (1u << (6 - 2 * (i % 4))) - 1;
  }
  if (padding && bits) return 0;
  *size = written;
  return 1;
}

/* ---- JSON ---- */

static void sg__json_space(const char **at, const char *end) {
  while (*at < end && (**at == ' ' || **at == '\t' || **at == '\n' || **at == '\r')) (*at)++;
}

static int sg__hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

static int sg__unit(const char *at, const char *end, uint32_t *unit) {
  int i;
  *unit = 0;
  if (end - at < 4) return 0;
  for (i = 0; i < 4; i++) {
    const int value = sg__hex_value(at[i]);
    if (value < 0) return 0;
    *unit = *unit << 4 | (uint32_t)value;
  }
  return 1;
}

/* Returns the length of the UTF-8 sequence at a place, 0 if it is none (RFC 3629). */
static size_t sg__utf8_length(const char *text, const char *end) {
  const unsigned char *at = (const unsigned char *)text;
  const size_t length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
  size_t i;
  if (length == 0 || (size_t)(end - text) < length) return 0;
  for (i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
  }
  if (at[0] == 0xe0 && at[1] < 0xa0) return 0;
  if (at[0] == 0xed && at[1] > 0x9f) return 0;
  if (at[0] == 0xf0 && at[1] < 0x90) return 0;
  return at[0] == 0xf4 && at[1] > 0x8f ? 0 : length;
}

static int sg__json_string(const char **at, const char *end) {
  if (*at >= end || **at != '"') return 0;
  for ((*at)++; *at < end && **at != '"';) {
    size_t length = 1;
    uint32_t unit;
    if ((unsigned char)**at < 0x20) return 0;
    if (**at == '\\') {
      if (++*at >= end || **at == 0 || !strchr("\"\\/bfnrtu", **at)) return 0;
      if (**at == 'u') {
        if (!sg__unit(*at + 1, end, &unit)) return 0;
        length = 5;
      }
    } else {
      length = sg__utf8_length(*at, end);
      if (length == 0) return 0;
    }
    *at += length;
  }
  if (*at >= end) return 0;
  (*at)++;
  return 1;
}

static int sg__json_digits(const char **at, const char *end) {
  const char *began = *at;
  while (*at < end && **at >= '0' && **at <= '9') (*at)++;
  return *at > began;
}

static int sg__json_number(const char **at, const char *end) {
  const char *began;
  if (*at < end && **at == '-') (*at)++;
  began = *at;
  if (!sg__json_digits(at, end) || (*began == '0' && *at - began > 1)) return 0;
  if (*at < end && **at == '.') {
    (*at)++;
    if (!sg__json_digits(at, end)) return 0;
  }
  if (*at < end && (**at == 'e' || **at == 'E')) {
    (*at)++;
    if (*at < end && (**at == '+' || **at == '-')) (*at)++;
    if (!sg__json_digits(at, end)) return 0;
  }
  return 1;
}

static int sg__json_word(const char **at, const char *end, const char *word) {
  const size_t size = strlen(word);
  if ((size_t)(end - *at) < size || memcmp(*at, word, size) != 0) return 0;
  *at += size;
  return 1;
}

/* Moves past a value. Returns 0 if there is none. */
static int sg__json_value(const char **at, const char *end, int depth) {
  char closing;
  sg__json_space(at, end);
  if (*at >= end || depth > SG__MOST_DEPTH) return 0;
  if (**at == '"') return sg__json_string(at, end);
  if (**at == 't') return sg__json_word(at, end, "true");
  if (**at == 'f') return sg__json_word(at, end, "false");
  if (**at == 'n') return sg__json_word(at, end, "null");
  if (**at != '{' && **at != '[') return sg__json_number(at, end);
  closing = **at == '{' ? '}' : ']';
  (*at)++;
  sg__json_space(at, end);
  if (*at < end && **at == closing) {
    (*at)++;
    return 1;
  }
  for (;;) {
    sg__json_space(at, end);
    if (closing == '}') {
      if (!sg__json_string(at, end)) return 0;
      sg__json_space(at, end);
      if (*at >= end || *(*at)++ != ':') return 0;
    }
    if (!sg__json_value(at, end, depth + 1)) return 0;
    sg__json_space(at, end);
    if (*at >= end) return 0;
    if (**at == closing) {
      (*at)++;
      return 1;
    }
    if (*(*at)++ != ',') return 0;
  }
}

int sg_json_read(const char *text, size_t size, sg_json *value) {
  const char *at = text, *end = text + size;
  sg__json_space(&at, end);
  value->at = at;
  if (!sg__json_value(&at, end, 1)) return 0;
  value->end = at;
  sg__json_space(&at, end);
  return at == end;
}

static int sg__json_is_a(sg_json value, char first) { return value.at && value.at < value.end && *value.at == first; }

int sg_json_member(sg_json object, const char *name, sg_json *value) {
  const size_t size = strlen(name);
  const char *at = object.at;
  if (!sg__json_is_a(object, '{')) return 0;
  at++;
  for (;;) {
    const char *key;
    int is_it;
    sg__json_space(&at, object.end);
    key = at + 1;
    if (!sg__json_string(&at, object.end)) return 0;
    is_it = (size_t)(at - 1 - key) == size && memcmp(key, name, size) == 0;
    sg__json_space(&at, object.end);
    at++;
    sg__json_space(&at, object.end);
    value->at = at;
    if (!sg__json_value(&at, object.end, 1)) return 0;
    value->end = at;
    if (is_it) return 1;
    sg__json_space(&at, object.end);
    if (at >= object.end || *at++ != ',') return 0;
  }
}

int sg_json_next(sg_json array, sg_json *item) {
  const char *at = item->at ? item->end : array.at;
  if (!sg__json_is_a(array, '[')) return 0;
  if (item->at) {
    sg__json_space(&at, array.end);
    if (at >= array.end || *at != ',') return 0;
  }
  at++;
  sg__json_space(&at, array.end);
  item->at = at;
  if (at >= array.end || *at == ']' || !sg__json_value(&at, array.end, 1)) return 0;
  item->end = at;
  return 1;
}

static size_t sg__put_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    to[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    to[0] = (char)(0xc0 | code >> 6);
    to[1] = (char)(0x80 | (code & 63));
    return 2;
  }
  if (code < 0x10000) {
    to[0] = (char)(0xe0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 63));
    to[2] = (char)(0x80 | (code & 63));
    return 3;
  }
  to[0] = (char)(0xf0 | code >> 18);
  to[1] = (char)(0x80 | (code >> 12 & 63));
  to[2] = (char)(0x80 | (code >> 6 & 63));
  to[3] = (char)(0x80 | (code & 63));
  return 4;
}

/* Decodes a string; it may do so in place, since an escape is longer than what it stands for. */
static int sg__json_decode(sg_json value, char *to, size_t room, size_t *size) {
  const char *at = value.at, *end = value.end;
  size_t written = 0;
  if (!sg__json_is_a(value, '"')) return 0;
  for (at++, end--; at < end;) {
    static const char names[] = "bfnrt", meant[] = "\b\f\n\r\t";
    char decoded[4];
    size_t length = 1;
    decoded[0] = *at++;
    if (decoded[0] == '\\') {
      const char escape = *at++;
      const char *found = strchr(names, escape);
      decoded[0] = found ? meant[found - names] : escape;
      if (escape == 'u') {
        uint32_t code, low;
        if (!sg__unit(at, end, &code)) return 0;
        at += 4;
        if (code >= 0xdc00 && code <= 0xdfff) return 0;
        if (code >= 0xd800 && code <= 0xdbff) {
          if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || !sg__unit(at + 2, end, &low)) return 0;
          if (low < 0xdc00 || low > 0xdfff) return 0;
          code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
          at += 6;
        }
        length = sg__put_utf8(decoded, code);
      }
    }
    if (length > room - written) return 0;
    memcpy(to + written, decoded, length);
    written += length;
  }
  *size = written;
  return 1;
}

int sg_json_text(sg_json value, char *to, size_t room) {
  size_t size;
  if (room == 0) return 0;
  to[0] = 0;
  if (!sg__json_decode(value, to, room - 1, &size) || memchr(to, 0, size)) {
    to[0] = 0;
    return 0;
  }
  to[size] = 0;
  return 1;
}

static int sg__digits(const char *at, const char *end, uint64_t most, uint64_t *number) {
  *number = 0;
  if (at >= end) return 0;
  for (; at < end; at++) {
    const uint64_t digit = (uint64_t)(*at - '0');
    if (*at < '0' || *at > '9' || *number > (most - digit) / 10) return 0;
    *number = *number * 10 + digit;
  }
  return 1;
}

int sg_json_integer(sg_json value, int64_t *number) {
  const int is_negative = sg__json_is_a(value, '-');
  uint64_t size;
  if (!value.at || !sg__digits(value.at + is_negative, value.end, INT64_MAX, &size)) return 0;
  *number = is_negative ? -(int64_t)size : (int64_t)size;
  return 1;
}

int sg_json_is(sg_json value, const char *text) {
  const size_t size = strlen(text);
  return sg__json_is_a(value, '"') && (size_t)(value.end - value.at) == size + 2 &&
         memcmp(value.at + 1, text, size) == 0;
}

int sg_json_is_true(sg_json value) { return sg__json_is_a(value, 't'); }

int sg_json_is_null(sg_json value) { return sg__json_is_a(value, 'n'); }

static void sg__put_json_string(sg_buffer *to, const char *text, size_t size) {
  size_t i;
  sg__put_byte(to, '"');
  for (i = 0; i < size; i++) {
    static const char meant[] = "\b\f\n\r\t", names[] = "bfnrt";
    const unsigned char byte = (unsigned char)text[i];
    const char *found = byte ? strchr(meant, byte) : NULL;
    char escape[8];
    if (byte == '"' || byte == '\\') {
      sg__put_byte(to, '\\');
      sg__put_byte(to, byte);
    } else if (found) {
      sg__put_byte(to, '\\');
      sg__put_byte(to, (unsigned char)names[found - meant]);
    } else if (byte < 0x20) {
      snprintf(escape, sizeof escape, "\\u%04x", byte);
      sg__put_text(to, escape);
    } else {
      sg__put_byte(to, byte);
    }
  }
  sg__put_byte(to, '"');
}

static void sg__put_member(sg_buffer *to, const char *name, const char *text) {
  sg__put_text(to, to->size && to->data[to->size - 1] != '{' ? ",\"" : "\"");
  sg__put_text(to, name);
  sg__put_text(to, "\":");
  sg__put_json_string(to, text, strlen(text));
}

/* ---- The recording ---- */

void sg_recorder_begin(sg_recorder *recorder, sg_stretch *stretches, size_t stretch_room, uint64_t *checkpoints,
                       size_t checkpoint_room, uint32_t checkpoint_ticks) {
  memset(recorder, 0, sizeof *recorder);
  recorder->stretches = stretches;
  recorder->stretch_room = stretch_room;
  recorder->checkpoints = checkpoints;
  recorder->checkpoint_room = checkpoint_room;
  recorder->checkpoint_ticks = checkpoint_ticks;
}

static size_t sg__checkpoints_due(const sg_recorder *recorder) {
  return recorder->checkpoint_ticks ? recorder->ticks / recorder->checkpoint_ticks : 0;
}

int sg_recorder_is_due(const sg_recorder *recorder) {
  return !recorder->error && recorder->checkpoint_count < sg__checkpoints_due(recorder);
}

sg_error sg_recorder_ticks(sg_recorder *recorder, uint32_t length, uint32_t word) {
  const uint32_t every = recorder->checkpoint_ticks;
  sg_stretch *last = recorder->stretch_count ? recorder->stretches + recorder->stretch_count - 1 : NULL;
  if (recorder->error) return recorder->error;
  if (length == 0 || length > UINT32_MAX - recorder->ticks || sg_recorder_is_due(recorder) ||
      (every && recorder->ticks % every + (uint64_t)length > every)) {
    return recorder->error = SG_INVALID;
  }
  if (last && last->word == word) {
    last->length += length;
  } else if (recorder->stretch_count == recorder->stretch_room) {
    return recorder->error = SG_NO_ROOM;
  } else {
    last = recorder->stretches + recorder->stretch_count++;
    last->length = length;
    last->word = word;
  }
  recorder->ticks += length;
  return SG_FINE;
}

sg_error sg_recorder_tick(sg_recorder *recorder, uint32_t word) { return sg_recorder_ticks(recorder, 1, word); }

sg_error sg_recorder_checkpoint(sg_recorder *recorder, uint64_t hash) {
  if (recorder->error) return recorder->error;
  if (!sg_recorder_is_due(recorder)) return recorder->error = SG_INVALID;
  if (recorder->checkpoint_count == recorder->checkpoint_room) return recorder->error = SG_NO_ROOM;
  recorder->checkpoints[recorder->checkpoint_count++] = hash;
  return SG_FINE;
}

static void sg__put_varint(sg_buffer *to, uint32_t number) {
  for (; number > 127; number >>= 7) sg__put_byte(to, (number & 127) | 128);
  sg__put_byte(to, number);
}

size_t sg_recording_room(const sg_recorder *recorder) {
  return 4 + 3 * 5 + 10 * recorder->stretch_count + 8 * recorder->checkpoint_count + 1;
}

sg_error sg_recorder_end(sg_recorder *recorder, sg_buffer *recording) {
  size_t i;
  int shift;
  if (recorder->error) return recorder->error;
  if (recorder->ticks == 0 || sg_recorder_is_due(recorder)) return SG_INVALID;
  sg__put_text(recording, "SGR1");
  sg__put_varint(recording, recorder->ticks);
  sg__put_varint(recording, recorder->checkpoint_ticks);
  sg__put_varint(recording, (uint32_t)recorder->stretch_count);
  for (i = 0; i < recorder->stretch_count; i++) {
    sg__put_varint(recording, recorder->stretches[i].length);
    sg__put_varint(recording, recorder->stretches[i].word);
  }
  for (i = 0; i < recorder->checkpoint_count; i++) {
    for (shift = 0; shift < 64; shift += 8) sg__put_byte(recording, recorder->checkpoints[i] >> shift & 255);
  }
  return recording->is_short ? SG_NO_ROOM : SG_FINE;
}

void sg_recording_digest(const void *recording, size_t size, char digest[SG_DIGEST_SIZE]) {
  unsigned char hash[32];
  sg_buffer text = sg_buffer_of(digest, SG_DIGEST_SIZE);
  sg__sha256_of(recording, size, hash);
  sg__put_text(&text, "sha256:");
  sg__put_hex(&text, hash, 32);
}

/* ---- The claim ---- */

sg_error sg_claim_body(const sg_claim *claim, sg_buffer *body) {
  size_t i;
  if (claim->is_commit && !claim->recording && !claim->digest) return SG_INVALID;
  sg__put_text(body, "{\"score\":");
  sg__put_integer(body, claim->score);
  sg__put_text(body, ",\"ticks\":");
  sg__put_integer(body, claim->ticks);
  sg__put_text(body, ",\"stats\":{");
  for (i = 0; i < claim->stat_count; i++) {
    if (i) sg__put_byte(body, ',');
    sg__put_json_string(body, claim->stats[i].name, strlen(claim->stats[i].name));
    sg__put_byte(body, ':');
    sg__put_integer(body, claim->stats[i].value);
  }
  sg__put_byte(body, '}');
  if (claim->is_commit) {
    char digest[SG_DIGEST_SIZE];
    if (!claim->digest) sg_recording_digest(claim->recording, claim->recording_size, digest);
    sg__put_member(body, "recording_digest", claim->digest ? claim->digest : digest);
    sg__put_text(body, ",\"recording_bytes\":");
    sg__put_integer(body, (int64_t)claim->recording_size);
  } else if (claim->recording) {
    sg__put_text(body, ",\"recording\":\"");
    sg_put_base64(body, claim->recording, claim->recording_size);
    sg__put_byte(body, '"');
  }
  sg__put_byte(body, '}');
  return body->is_short ? SG_NO_ROOM : SG_FINE;
}

/* ---- Signatures ---- */

static void sg__put_content_digest(sg_buffer *to, const void *body, size_t size) {
  unsigned char hash[32];
  sg__sha256_of(body, size, hash);
  sg__put_text(to, "sha-256=:");
  sg_put_base64(to, hash, 32);
  sg__put_byte(to, ':');
}

static void sg__put_parameters(sg_buffer *to, const sg_signing *request) {
  sg__put_text(to, SG__COMPONENTS ";created=");
  sg__put_integer(to, request->created);
  sg__put_text(to, ";expires=");
  sg__put_integer(to, request->expires);
  sg__put_text(to, ";nonce=\"");
  sg__put_text(to, request->nonce);
  sg__put_text(to, "\";keyid=\"");
  sg__put_text(to, request->keyid);
  if (request->alg) {
    sg__put_text(to, "\";alg=\"");
    sg__put_text(to, request->alg);
  }
  sg__put_text(to, "\";tag=\"");
  sg__put_text(to, request->tag);
  sg__put_byte(to, '"');
}

typedef void (*sg__sink)(void *to, const char *text);

static void sg__into_buffer(void *to, const char *text) { sg__put_text((sg_buffer *)to, text); }

static void sg__into_hash(void *to, const char *text) { sg_sha256_add((sg_sha256 *)to, text, strlen(text)); }

static void sg__base(const sg_signing *request, const char *digest, const char *parameters, sg__sink put, void *to) {
  const char *lines[7][2];
  int i;
  lines[0][0] = "\"@method\": ", lines[0][1] = request->method;
  lines[1][0] = "\n\"@authority\": ", lines[1][1] = request->authority;
  lines[2][0] = "\n\"@path\": ", lines[2][1] = request->path;
  lines[3][0] = "\n\"@query\": ?", lines[3][1] = request->query ? request->query : "";
  lines[4][0] = "\n\"content-type\": ", lines[4][1] = request->content_type;
  lines[5][0] = "\n\"content-digest\": ", lines[5][1] = digest;
  lines[6][0] = "\n\"@signature-params\": ", lines[6][1] = parameters;
  for (i = 0; i < 7; i++) {
    put(to, lines[i][0]);
    put(to, lines[i][1]);
  }
}

sg_error sg_signature_base(const sg_signing *request, sg_buffer *base) {
  char digest[64], parameters[2 * SG_TICKET_SIZE];
  sg_buffer of_body = sg_buffer_of(digest, sizeof digest), of_signature = sg_buffer_of(parameters, sizeof parameters);
  sg__put_content_digest(&of_body, request->body, request->body_size);
  sg__put_parameters(&of_signature, request);
  if (of_signature.is_short) return SG_INVALID;
  sg__base(request, digest, parameters, sg__into_buffer, base);
  return base->is_short ? SG_NO_ROOM : SG_FINE;
}

sg_error sg_sign(const sg_signing *request, const void *key, size_t key_size, sg_buffer *memory,
                 sg_header headers[4]) {
  unsigned char mac[32];
  sg__hmac state;
  size_t began = memory->size;
  headers[0].name = "Content-Type";
  headers[0].value = request->content_type;
  headers[1].name = "Content-Digest";
  sg__put_content_digest(memory, request->body, request->body_size);
  headers[1].value = sg__close(memory, began);
  began = memory->size;
  headers[2].name = "Signature-Input";
  sg__put_text(memory, "sg=");
  sg__put_parameters(memory, request);
  headers[2].value = sg__close(memory, began);
  if (memory->is_short) return SG_NO_ROOM;
  sg__hmac_begin(&state, key, key_size);
  sg__base(request, headers[1].value, headers[2].value + 3, sg__into_hash, &state.inner);
  sg__hmac_end(&state, mac);
  began = memory->size;
  headers[3].name = "Signature";
  sg__put_text(memory, "sg=:");
  sg_put_base64(memory, mac, 32);
  sg__put_byte(memory, ':');
  headers[3].value = sg__close(memory, began);
  return memory->is_short ? SG_NO_ROOM : SG_FINE;
}

/* ---- A client and its calls ---- */

sg_error sg_client_begin(sg_client *client, const char *base_url, sg_platform platform) {
  const char *host = strstr(base_url, "://"), *path;
  size_t i, size;
  memset(client, 0, sizeof *client);
  client->platform = platform;
  client->attempts = 6;
  if (!host || !platform.random_bytes || !platform.now_ms) return SG_INVALID;
  size = (size_t)(host - base_url);
  host += 3;
  path = host + strcspn(host, "/?#");
  if (size >= sizeof client->scheme || (size_t)(path - host) >= sizeof client->authority || path == host ||
      strpbrk(path, "?#") || memchr(host, '@', (size_t)(path - host)) ||
      !sg__copy(client->prefix, sizeof client->prefix, path)) {
    return SG_INVALID;
  }
  memcpy(client->scheme, base_url, size);
  memcpy(client->authority, host, (size_t)(path - host));
  for (i = 0; client->scheme[i]; i++) client->scheme[i] |= 32;
  for (i = 0; client->authority[i]; i++) {
    if (client->authority[i] >= 'A' && client->authority[i] <= 'Z') client->authority[i] |= 32;
  }
  size = strlen(client->authority);
  if (strcmp(client->scheme, "https") == 0) {
    if (size > 4 && strcmp(client->authority + size - 4, ":443") == 0) client->authority[size - 4] = 0;
  } else if (strcmp(client->scheme, "http") == 0) {
    if (size > 3 && strcmp(client->authority + size - 3, ":80") == 0) client->authority[size - 3] = 0;
  } else {
    return SG_INVALID;
  }
  for (size = strlen(client->prefix); size && client->prefix[size - 1] == '/'; size--) client->prefix[size - 1] = 0;
  return SG_FINE;
}

void sg_call_begin(sg_call *call, void *memory, size_t room) {
  memset(call, 0, sizeof *call);
  call->memory = (char *)memory;
  call->room = room;
  call->phase = SG__OVER;
  call->error = SG_INVALID;
}

static void sg__fail(sg_call *call, sg_error error, const char *detail) {
  call->error = error;
  call->phase = SG__OVER;
  if (detail) snprintf(call->detail, sizeof call->detail, "%s", detail);
}

static sg_buffer sg__rest_of(const sg_call *call, size_t from) {
  return sg_buffer_of(call->memory + from, call->room > from ? call->room - from : 0);
}

/* Characters that a segment of a path, and a value of a query, keep (RFC 3986, section 2.3). */
static int sg__is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

static void sg__put_escaped(sg_buffer *to, const char *text) {
  static const char digits[] = "0123456789ABCDEF";
  for (; *text; text++) {
    const unsigned char byte = (unsigned char)*text;
    if (sg__is_unreserved(*text)) {
      sg__put_byte(to, byte);
    } else {
      sg__put_byte(to, '%');
      sg__put_byte(to, (unsigned char)digits[byte >> 4]);
      sg__put_byte(to, (unsigned char)digits[byte & 15]);
    }
  }
}

/* Begins a call: its path is made of a template, in which each {} stands for the next of `parts`. */
static sg_buffer sg__begin(sg_call *call, sg_client *client, const char *method, const char *template_of_path,
                           const char *first, const char *second) {
  void *memory = call->memory;
  const size_t room = call->room;
  const char *parts[2];
  sg_buffer path;
  int part = 0;
  parts[0] = first;
  parts[1] = second;
  sg_call_begin(call, memory, room);
  call->client = client;
  call->method = method;
  call->error = SG_FINE;
  call->phase = SG__READY;
  call->retry_after_s = -1;
  call->is_repeatable = 1;
  call->timeout_ms = SG__ATTEMPT_MS;
  path = sg__rest_of(call, 0);
  sg__put_text(&path, client->scheme);
  sg__put_text(&path, "://");
  sg__put_text(&path, client->authority);
  sg__put_text(&path, client->prefix);
  for (; *template_of_path; template_of_path++) {
    if (template_of_path[0] != '{') {
      sg__put_byte(&path, (unsigned char)*template_of_path);
    } else {
      sg__put_escaped(&path, parts[part++]);
      template_of_path++;
    }
  }
  if ((first && !*first) || (second && !*second)) sg__fail(call, SG_INVALID, "an empty name");
  return path;
}

static void sg__put_query(sg_buffer *url, const char *name, const char *value) {
  if (!value) return;
  sg__put_byte(url, memchr(url->data, '?', url->size) ? '&' : '?');
  sg__put_text(url, name);
  sg__put_byte(url, '=');
  sg__put_escaped(url, value);
}

static void sg__put_query_number(sg_buffer *url, const char *name, uint32_t number) {
  char digits[16];
  if (!number) return;
  snprintf(digits, sizeof digits, "%lu", (unsigned long)number);
  sg__put_query(url, name, digits);
}

/* Ends the address of a call; what follows in its memory is the body, then an attempt, then the answer. */
static void sg__end_url(sg_call *call, sg_buffer *url) {
  call->url = sg__close(url, 0);
  call->kept = url->size;
  if (url->is_short) sg__fail(call, SG_NO_ROOM, "the address does not fit the call's memory");
}

static void sg__end_body(sg_call *call, sg_buffer *body, const char *content_type) {
  call->content_type = content_type;
  call->body = body->data;
  call->body_size = body->size;
  call->kept += body->size + 1;
  if (body->is_short && call->phase != SG__OVER) sg__fail(call, SG_NO_ROOM, "the body does not fit the call's memory");
}

static void sg__put_header(sg_call *call, const char *name, const char *value) {
  call->headers[call->header_count].name = name;
  call->headers[call->header_count++].value = value;
}

static int sg__new_nonce(sg_call *call) {
  unsigned char bytes[18];
  sg_buffer text = sg_buffer_of(call->nonce, sizeof call->nonce);
  size_t i;
  if (!call->client->platform.random_bytes(call->client->platform.context, bytes, sizeof bytes)) return 0;
  sg_put_base64(&text, bytes, sizeof bytes);
  for (i = 0; i < text.size; i++) {
    if (call->nonce[i] == '+') call->nonce[i] = '-';
    if (call->nonce[i] == '/') call->nonce[i] = '_';
  }
  return 1;
}

static int64_t sg__now_ms(const sg_client *client) { return client->platform.now_ms(client->platform.context); }

/* Signs anew for each attempt: the gateway compares the body alone, and an old signature might have expired. */
static sg_error sg__sign_attempt(sg_call *call, sg_buffer *memory) {
  const sg_client *client = call->client;
  char query[2] = "";
  sg_signing request;
  if (!sg__new_nonce(call)) return SG_STORE_FAILED;
  request.method = call->method;
  request.authority = client->authority;
  request.path = strstr(call->url, "://") + 3 + strlen(client->authority);
  request.query = query;
  request.content_type = call->content_type;
  request.body = call->body;
  request.body_size = call->body_size;
  request.created = sg__now_ms(client) / 1000 + client->clock_offset_s;
  request.expires = request.created + SG__SIGNED_FOR_S;
  request.nonce = call->nonce;
  request.keyid = call->keyid;
  request.tag = "scoregate-run";
  request.alg = "hmac-sha256";
  call->header_count = 4;
  return sg_sign(&request, call->key, sizeof call->key, memory, call->headers);
}

static sg_action sg__send(sg_call *call) {
  sg_buffer memory = sg__rest_of(call, call->kept);
  call->header_count = 0;
  if (call->is_signed) {
    const sg_error error = sg__sign_attempt(call, &memory);
    if (error) {
      sg__fail(call, error, error == SG_NO_ROOM ? "the signature does not fit the call's memory" : "no randomness");
      return SG_DONE;
    }
  } else {
    if (call->client->token[0]) {
      snprintf(call->bearer, sizeof call->bearer, "Bearer %s", call->client->token);
      sg__put_header(call, "Authorization", call->bearer);
    }
    if (call->content_type) sg__put_header(call, "Content-Type", call->content_type);
    if (call->kind == SG__FEED && call->last_id[0]) sg__put_header(call, "Last-Event-ID", call->last_id);
  }
  call->taken = call->kept + memory.size;
  call->status = 0;
  call->received = 0;
  call->received_type[0] = 0;
  call->reason[0] = call->detail[0] = 0;
  call->retry_after_s = -1;
  call->is_cut = 0;
  call->was_sent = 1;
  call->line = call->data = 0;
  call->event[0] = call->id[0] = 0;
  call->has_id = call->has_data = call->is_dropped = 0;
  call->attempt++;
  call->phase = SG__SENT;
  return SG_SEND;
}

static int64_t sg__days(int64_t year, int64_t month, int64_t day) {
  const int64_t y = month > 2 ? year : year - 1, era = y / 400, of_era = y - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Reads a Retry-After: seconds, or a date such as "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 10.2.3). */
static int64_t sg__retry_after(const char *value, int64_t now_s) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  int day, year, hour, minute, second;
  char month[4];
  const char *found;
  uint64_t seconds;
  int64_t at;
  if (sg__digits(value, value + strlen(value), 1000000000, &seconds)) return (int64_t)seconds;
  if (sscanf(value, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &day, month, &year, &hour, &minute, &second) != 6) return -1;
  found = strstr(months, month);
  if (!found || (found - months) % 3) return -1;
  at = sg__days(year, (found - months) / 3 + 1, day) * 86400 + hour * 3600 + minute * 60 + second;
  return at > now_s ? at - now_s : 0;
}

static int sg__is_named(const char *name, const char *lower) {
  for (; *name && *lower; name++, lower++) {
    const char c = *name >= 'A' && *name <= 'Z' ? (char)(*name | 32) : *name;
    if (c != *lower) return 0;
  }
  return *name == *lower;
}

void sg_received_status(sg_call *call, int status) { call->status = status; }

void sg_received_field(sg_call *call, const char *name, const char *value) {
  if (sg__is_named(name, "content-type")) {
    snprintf(call->received_type, sizeof call->received_type, "%s", value);
  } else if (sg__is_named(name, "retry-after")) {
    call->retry_after_s = sg__retry_after(value, sg__now_ms(call->client) / 1000);
  }
}

static int sg__feed(sg_call *call, const char *data, size_t size);

int sg_received_body(sg_call *call, const void *data, size_t size) {
  if (call->phase != SG__SENT) return 0;
  if (call->kind == SG__FEED && call->status == 200) return sg__feed(call, (const char *)data, size);
  if (size >= call->room - call->taken - call->received) {
    call->is_cut = 1;
    return 0;
  }
  if (size) memcpy(call->memory + call->taken + call->received, data, size);
  call->received += size;
  return 1;
}

void sg_received_end(sg_call *call) {
  if (call->phase == SG__SENT) call->phase = SG__ANSWERED;
}

void sg_received_nothing(sg_call *call, int was_sent, const char *why) {
  if (call->phase != SG__SENT) return;
  call->phase = SG__ANSWERED;
  if (call->is_cut || call->is_over) return; /* the transport was told to stop */
  call->status = 0;
  call->was_sent = was_sent;
  snprintf(call->detail, sizeof call->detail, "the gateway cannot be reached: %s", why ? why : "no answer");
}

static int sg__begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Reads a problem document, if the answer is one of a gateway. */
static void sg__read_problem(sg_call *call, int64_t *server_time) {
  char type[160];
  sg_json problem, value;
  if (!sg__begins(call->received_type, "application/problem+json") ||
      !sg_json_read(call->memory + call->taken, call->received, &problem) ||
      !sg_json_member(problem, "type", &value) || !sg_json_text(value, type, sizeof type) ||
      !sg__begins(type, SG__PROBLEMS) || !sg__copy(call->reason, sizeof call->reason, type + strlen(SG__PROBLEMS))) {
    return;
  }
  call->answer = problem;
  if (!sg_json_member(problem, "detail", &value) || !sg_json_text(value, call->detail, sizeof call->detail)) {
    if (sg_json_member(problem, "title", &value)) (void)sg_json_text(value, call->detail, sizeof call->detail);
  }
  if (!sg_json_member(problem, "server_time", &value) || !sg_json_integer(value, server_time) || *server_time < 0 ||
      *server_time > SG__LATEST_S) {
    *server_time = 0;
  }
}

static uint32_t sg__jittered(sg_call *call, uint32_t most_ms) {
  uint32_t chance = 0;
  (void)call->client->platform.random_bytes(call->client->platform.context, &chance, sizeof chance);
  return most_ms / 2 + chance % (most_ms / 2 + 1);
}

static sg_action sg__wait(sg_call *call, uint32_t wait_ms) {
  call->wait_ms = wait_ms;
  call->phase = SG__WAITING;
  return SG_WAIT;
}

static int sg__is_busy(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

static sg_action sg__again(sg_call *call, sg_error error) {
  const int is_safe = call->is_repeatable || !call->was_sent || call->status == 429 || call->status == 503;
  uint32_t most_ms = SG__FIRST_WAIT_MS;
  int i;
  if (!is_safe || call->attempt >= call->client->attempts || call->retry_after_s > SG__MOST_RETRY_AFTER_S) {
    sg__fail(call, error, NULL);
    return SG_DONE;
  }
  if (call->retry_after_s >= 0) return sg__wait(call, (uint32_t)call->retry_after_s * 1000);
  for (i = 1; i < call->attempt && most_ms < SG__LONGEST_WAIT_MS; i++) most_ms *= 2;
  return sg__wait(call, sg__jittered(call, most_ms < SG__LONGEST_WAIT_MS ? most_ms : SG__LONGEST_WAIT_MS));
}

static sg_action sg__done(sg_call *call) {
  call->phase = SG__OVER;
  call->error = SG_FINE;
  return SG_DONE;
}

static sg_action sg__unreadable(sg_call *call, const char *why) {
  sg__fail(call, SG_UNREADABLE, why);
  return SG_DONE;
}

static sg_action sg__poll_again(sg_call *call) {
  uint32_t wait_ms = SG__FIRST_WAIT_MS;
  const int64_t left_ms = call->deadline_ms - sg__now_ms(call->client);
  int i;
  for (i = 0; i < call->polls && wait_ms < SG__LONGEST_POLL_MS; i++) wait_ms = wait_ms * 3 / 2;
  call->polls++;
  call->attempt = 0;
  if (wait_ms > SG__LONGEST_POLL_MS) wait_ms = SG__LONGEST_POLL_MS;
  if (left_ms < (int64_t)wait_ms) wait_ms = left_ms > 0 ? (uint32_t)left_ms : 0;
  return sg__wait(call, wait_ms);
}

static sg_action sg__take_content(sg_call *call) {
  char digest[SG_DIGEST_SIZE];
  sg_recording_digest(call->content, call->content_size, digest);
  if (strcmp(digest, call->digest) == 0) return sg__done(call);
  snprintf(call->detail, sizeof call->detail, "the file did not arrive whole");
  return sg__again(call, SG_UNREADABLE);
}

/* Returns 1 if a document has the string `member`, which every answer of this kind has. */
static int sg__has(sg_json document, const char *member) {
  sg_json value;
  return sg_json_member(document, member, &value) && sg__json_is_a(value, '"');
}

/* Returns 1 if a document is what the call asked for: an object with a member, or a list of objects with it. */
static int sg__is_expected(const sg_call *call) {
  sg_json list, item = {0, 0};
  if (!sg__json_is_a(call->answer, '{')) return 0;
  if (!call->list) return !call->member || sg__has(call->answer, call->member);
  if (!sg_json_member(call->answer, call->list, &list) || !sg__json_is_a(list, '[')) return 0;
  while (sg_json_next(list, &item)) {
    if (!sg__has(item, call->member)) return 0;
  }
  return 1;
}

/* Judges an answer of 200 to 299. */
static sg_action sg__take(sg_call *call) {
  sg_json state;
  call->content = call->memory + call->taken;
  call->content_size = call->received;
  if (call->kind == SG__CONTENT) return sg__take_content(call);
  if (call->kind == SG__NOTHING && call->received == 0) return sg__done(call);
  if (!sg_json_read(call->memory + call->taken, call->received, &call->answer) || !sg__is_expected(call)) {
    memset(&call->answer, 0, sizeof call->answer);
    return sg__unreadable(call, "the answer is not a gateway's");
  }
  if (call->kind == SG__SETTLED && sg_json_member(call->answer, "state", &state) &&
      (sg_json_is(state, "received") || sg_json_is(state, "pending"))) {
    return sg__poll_again(call);
  }
  return sg__done(call);
}

static sg_action sg__take_feed(sg_call *call) {
  if (call->is_over) return sg__done(call);
  if (!sg__begins(call->received_type, "text/event-stream")) return sg__unreadable(call, "the answer is no feed");
  if (call->has_id) call->attempt = 1;
  return sg__again(call, SG_NO_ANSWER);
}

static sg_action sg__judge(sg_call *call) {
  int64_t server_time = 0;
  if (call->is_cut) {
    sg__fail(call, SG_NO_ROOM, "the answer does not fit the call's memory");
    return SG_DONE;
  }
  if (call->kind == SG__FEED && (call->is_over || call->status == 200)) return sg__take_feed(call);
  if (call->status == 0) return sg__again(call, SG_NO_ANSWER);
  if (call->status >= 200 && call->status < 300) return sg__take(call);
  sg__read_problem(call, &server_time);
  if (call->is_signed && server_time && !call->has_set_clock && strcmp(call->reason, "signature-expired") == 0) {
    call->has_set_clock = 1;
    call->client->clock_offset_s = server_time - sg__now_ms(call->client) / 1000;
    return sg__wait(call, 0);
  }
  if (sg__is_busy(call->status)) return sg__again(call, SG_REFUSED);
  if (!call->reason[0]) snprintf(call->detail, sizeof call->detail, "HTTP status %d", call->status);
  sg__fail(call, SG_REFUSED, NULL);
  return SG_DONE;
}

sg_action sg_step(sg_call *call) {
  if (call->phase == SG__SENT) sg_received_nothing(call, 1, NULL);
  if (call->phase == SG__ANSWERED) {
    const sg_action action = sg__judge(call);
    if (action != SG_WAIT || call->wait_ms) return action;
  }
  if (call->phase == SG__WAITING) call->phase = SG__READY;
  if (call->phase == SG__READY && call->deadline_ms && sg__now_ms(call->client) >= call->deadline_ms) {
    call->status = 0;
    sg__fail(call, SG_TIMEOUT, "it is not settled yet");
  }
  return call->phase == SG__READY ? sg__send(call) : SG_DONE;
}

sg_error sg_perform(sg_call *call) {
  sg_platform *platform = call->client ? &call->client->platform : NULL;
  sg_action action;
  while ((action = sg_step(call)) != SG_DONE) {
    if (action == SG_SEND) {
      platform->send(platform->context, call);
    } else {
      platform->sleep_ms(platform->context, call->wait_ms);
    }
  }
  return call->error;
}

/* ---- The feed (Server-Sent Events, HTML 9.2) ---- */

/* Takes a line that is whole: the data of its event lie before it. */
static int sg__feed_line(sg_call *call, char *line, size_t size) {
  const char *colon = (const char *)memchr(line, ':', size);
  size_t name = colon ? (size_t)(colon - line) : size;
  const char *value = colon ? colon + 1 : line + size;
  size_t length = (size_t)(line + size - value);
  if (size == 0) {
    int goes_on = 1;
    if (call->has_id) sg__copy(call->last_id, sizeof call->last_id, call->id);
    if (call->event[0] && !call->is_dropped) {
      const char *id = call->has_id ? call->id : NULL;
      call->attempt = 1;
      goes_on = call->on_event(call->event_context, call->event, id, line - call->data, call->data);
    }
    call->data = 0;
    call->event[0] = 0;
    call->has_id = call->has_data = call->is_dropped = 0;
    return goes_on;
  }
  if (length && *value == ' ') {
    value++;
    length--;
  }
  if (name == 5 && memcmp(line, "event", 5) == 0 && length < sizeof call->event) {
    memcpy(call->event, value, length);
    call->event[length] = 0;
  } else if (name == 2 && memcmp(line, "id", 2) == 0 && length < sizeof call->id) {
    memcpy(call->id, value, length);
    call->id[length] = 0;
    call->has_id = 1;
  } else if (name == 4 && memcmp(line, "data", 4) == 0) {
    memmove(line + call->has_data, value, length); /* further lines follow a line feed */
    if (call->has_data) *line = '\n';
    call->data += length + (size_t)call->has_data;
    call->has_data = 1;
  }
  return 1;
}

static int sg__feed(sg_call *call, const char *data, size_t size) {
  char *memory = call->memory + call->taken;
  const size_t room = call->room - call->taken;
  size_t i;
  for (i = 0; i < size; i++) {
    const size_t end = call->data + call->line;
    if (data[i] == '\n') {
      size_t line = call->line;
      call->line = 0;
      if (line && memory[end - 1] == '\r') line--;
      if (!sg__feed_line(call, memory + call->data, line)) {
        call->is_over = 1;
        return 0;
      }
    } else if (end + 1 < room) {
      memory[end] = data[i];
      call->line++;
    } else {
      call->is_dropped = 1;
      call->line = 0;
    }
  }
  return 1;
}

/* ---- Calls ---- */

/* Says what the answer must have: a string, or a list of objects that have it. */
static void sg__expect(sg_call *call, const char *list, const char *member) {
  call->list = list;
  call->member = member;
}

/* Begins a call without a body. */
static void sg__get(sg_call *call, sg_client *client, const char *method, const char *path, const char *first,
                    const char *second) {
  sg_buffer url = sg__begin(call, client, method, path, first, second);
  sg__end_url(call, &url);
}

/* Begins a call whose body is an object; sg__end_body ends it. */
static sg_buffer sg__post(sg_call *call, sg_client *client, const char *method, const char *path, const char *first,
                          const char *second) {
  sg_buffer body;
  sg__get(call, client, method, path, first, second);
  body = sg__rest_of(call, call->kept);
  sg__put_byte(&body, '{');
  return body;
}

static void sg__end_object(sg_call *call, sg_buffer *body) {
  sg__put_byte(body, '}');
  sg__end_body(call, body, SG__JSON_TYPE);
}

void sg_create_player(sg_call *call, sg_client *client, const char *name) {
  sg_buffer body = sg__post(call, client, "POST", "/v1/players", NULL, NULL);
  if (name) sg__put_member(&body, "name", name);
  sg__end_object(call, &body);
  call->is_repeatable = 0;
  sg__expect(call, NULL, "player");
}

static int sg__field(sg_json document, const char *name, char *to, size_t room) {
  sg_json value;
  return sg_json_member(document, name, &value) && sg_json_text(value, to, room);
}

static int sg__number(sg_json document, const char *name, int64_t *number) {
  sg_json value;
  return sg_json_member(document, name, &value) && sg_json_integer(value, number);
}

sg_error sg_created_player(const sg_call *call, sg_player *player) {
  if (call->error) return call->error;
  if (!sg__field(call->answer, "player", player->player, sizeof player->player) ||
      !sg__field(call->answer, "name", player->name, sizeof player->name) ||
      !sg__field(call->answer, "token", player->token, sizeof player->token)) {
    return SG_UNREADABLE;
  }
  sg__copy(call->client->token, sizeof call->client->token, player->token);
  return SG_FINE;
}

void sg_open_run(sg_call *call, sg_client *client, const char *board, const char *build, const char *name_signature) {
  sg_buffer body = sg__post(call, client, "POST", "/v1/boards/{}/runs", board, NULL);
  sg__put_member(&body, "build", build);
  if (name_signature) sg__put_member(&body, "name_signature", name_signature);
  sg__end_object(call, &body);
  call->is_repeatable = 0;
  sg__expect(call, NULL, "run");
}

static int sg__key(sg_json document, unsigned char key[32]) {
  char text[48];
  size_t size;
  return sg__field(document, "key", text, sizeof text) && sg_from_base64(text, strlen(text), key, 32, &size) &&
         size == 32;
}

static int sg__is_header_text(const char *text) {
  for (; *text; text++) {
    if (*text < '!' || *text > '~' || *text == '"' || *text == '\\') return 0;
  }
  return 1;
}

sg_error sg_opened_run(const sg_call *call, sg_run *run) {
  const sg_json answer = call->answer;
  char seed[24];
  int64_t checkpoint_ticks, ticks_per_second;
  if (call->error) return call->error;
  memset(run, 0, sizeof *run);
  if (!sg__field(answer, "run", run->run, sizeof run->run) ||
      !sg__field(answer, "board", run->board, sizeof run->board) ||
      !sg__field(answer, "player", run->player, sizeof run->player) ||
      !sg__field(answer, "ticket", run->ticket, sizeof run->ticket) || !sg__is_header_text(run->ticket) ||
      !sg__key(answer, run->key) || !sg__field(answer, "seed", seed, sizeof seed) ||
      !sg__digits(seed, seed + strlen(seed), UINT64_MAX, &run->seed) ||
      !sg__number(answer, "checkpoint_ticks", &checkpoint_ticks) || checkpoint_ticks < 0 ||
      checkpoint_ticks > UINT32_MAX || !sg__number(answer, "ticks_per_second", &ticks_per_second) ||
      ticks_per_second < 0 || ticks_per_second > UINT32_MAX ||
      !sg__field(answer, "expires_at", run->expires_at, sizeof run->expires_at)) {
    return SG_UNREADABLE;
  }
  run->checkpoint_ticks = (uint32_t)checkpoint_ticks;
  run->ticks_per_second = (uint32_t)ticks_per_second;
  return SG_FINE;
}

static void sg__sign_with(sg_call *call, const char *ticket, const unsigned char key[32]) {
  call->is_signed = 1;
  memcpy(call->key, key, 32);
  if (!sg__copy(call->keyid, sizeof call->keyid, ticket) || !sg__is_header_text(ticket)) {
    sg__fail(call, SG_INVALID, "the ticket is none");
  }
}

void sg_submit(sg_call *call, sg_client *client, const sg_run *run, const sg_claim *claim) {
  sg_buffer body;
  sg__get(call, client, "POST", "/v1/boards/{}/scores", run->board, NULL);
  body = sg__rest_of(call, call->kept);
  if (sg_claim_body(claim, &body) == SG_INVALID) sg__fail(call, SG_INVALID, "a commit needs its recording");
  sg__end_body(call, &body, SG__JSON_TYPE);
  sg__sign_with(call, run->ticket, run->key);
  sg__expect(call, NULL, "submission");
}

sg_error sg_submission_of(sg_json document, sg_submission *submission) {
  sg_json value;
  memset(submission, 0, sizeof *submission);
  if (!sg__field(document, "submission", submission->submission, sizeof submission->submission) ||
      !sg__field(document, "state", submission->state, sizeof submission->state)) {
    return SG_UNREADABLE;
  }
  (void)sg__field(document, "board", submission->board, sizeof submission->board);
  (void)sg__field(document, "reason", submission->reason, sizeof submission->reason);
  (void)sg__field(document, "reveal_by", submission->reveal_by, sizeof submission->reveal_by);
  (void)sg__number(document, "score", &submission->score);
  (void)sg__number(document, "rank", &submission->rank);
  submission->is_verified = sg_json_member(document, "verified", &value) && sg_json_is_true(value);
  return SG_FINE;
}

void sg_read_submission(sg_call *call, sg_client *client, const char *submission) {
  sg__get(call, client, "GET", "/v1/submissions/{}", submission, NULL);
  sg__expect(call, NULL, "submission");
}

void sg_wait_until_settled(sg_call *call, sg_client *client, const char *submission, uint32_t timeout_ms) {
  sg_read_submission(call, client, submission);
  call->kind = SG__SETTLED;
  call->deadline_ms = sg__now_ms(client) + timeout_ms;
}

void sg_reveals(sg_call *call, sg_client *client) {
  sg__get(call, client, "GET", "/v1/reveals", NULL, NULL);
  sg__expect(call, "reveals", "submission");
}

void sg_reveal(sg_call *call, sg_client *client, const char *submission, const void *recording, size_t size) {
  sg__get(call, client, "PUT", "/v1/submissions/{}/recording", submission, NULL);
  call->content_type = SG__OCTETS;
  call->body = recording;
  call->body_size = size;
  call->kind = SG__NOTHING;
}

static void sg__say(sg_call *call, sg_client *client, const char *path, const char *submission, const char *text) {
  sg_buffer body = sg__post(call, client, "POST", path, submission, NULL);
  sg__put_member(&body, "text", text);
  sg__end_object(call, &body);
  call->kind = SG__NOTHING;
}

void sg_answer_question(sg_call *call, sg_client *client, const char *submission, const char *text) {
  sg__say(call, client, "/v1/submissions/{}/answer", submission, text);
}

void sg_appeal(sg_call *call, sg_client *client, const char *submission, const char *text) {
  sg__say(call, client, "/v1/submissions/{}/appeal", submission, text);
}

static void sg__put_page(sg_buffer *url, const sg_page *page) {
  if (!page) return;
  sg__put_query(url, "window", page->window);
  sg__put_query_number(url, "offset", page->offset);
  sg__put_query_number(url, "limit", page->limit);
  sg__put_query(url, "cursor", page->cursor);
  sg__put_query(url, "ranks", page->ranks);
  sg__put_query(url, "friends", page->friends ? "true" : NULL);
  sg__put_query(url, "players", page->players);
  sg__put_query(url, "segment", page->segment);
}

void sg_boards(sg_call *call, sg_client *client, const sg_page *page) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/boards", NULL, NULL);
  sg__put_page(&url, page);
  sg__end_url(call, &url);
  sg__expect(call, "boards", "board");
}

void sg_board(sg_call *call, sg_client *client, const char *board) {
  sg__get(call, client, "GET", "/v1/boards/{}", board, NULL);
  sg__expect(call, NULL, "board");
}

void sg_entries(sg_call *call, sg_client *client, const char *board, const sg_page *page) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/boards/{}/entries", board, NULL);
  sg__put_page(&url, page);
  sg__end_url(call, &url);
  sg__expect(call, "entries", "player");
}

void sg_entry(sg_call *call, sg_client *client, const char *board, const char *player, const sg_page *page) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/boards/{}/entries/{}", board, player);
  sg__put_page(&url, page);
  sg__end_url(call, &url);
  sg__expect(call, NULL, "player");
}

void sg_around(sg_call *call, sg_client *client, const char *board, const char *player, uint32_t radius,
               const sg_page *page) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/boards/{}/entries/{}/around", board, player);
  sg__put_query_number(&url, "radius", radius);
  sg__put_page(&url, page);
  sg__end_url(call, &url);
  sg__expect(call, "entries", "player");
}

void sg_friends(sg_call *call, sg_client *client) {
  sg__get(call, client, "GET", "/v1/friends", NULL, NULL);
  sg__expect(call, "friends", "player");
}

void sg_follow(sg_call *call, sg_client *client, const char *player) {
  sg__get(call, client, "PUT", "/v1/friends/{}", player, NULL);
  call->kind = SG__NOTHING;
}

void sg_unfollow(sg_call *call, sg_client *client, const char *player) {
  sg__get(call, client, "DELETE", "/v1/friends/{}", player, NULL);
  call->kind = SG__NOTHING;
}

void sg_memberships(sg_call *call, sg_client *client, const char *board, const char *player) {
  sg__get(call, client, "GET", "/v1/boards/{}/players/{}/memberships", board, player);
  sg__expect(call, NULL, "player");
}

void sg_set_membership(sg_call *call, sg_client *client, const char *board, const char *segment, const char *group) {
  sg_buffer body = sg__post(call, client, "PUT", "/v1/boards/{}/memberships/{}", board, segment);
  if (group) {
    sg__put_member(&body, "value", group);
  } else {
    sg__put_text(&body, "\"value\":null");
  }
  sg__end_object(call, &body);
  sg__expect(call, NULL, "player");
}

void sg_families(sg_call *call, sg_client *client, const char *cursor) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/families", NULL, NULL);
  sg__put_query(&url, "cursor", cursor);
  sg__end_url(call, &url);
  sg__expect(call, "families", "family");
}

void sg_family_boards(sg_call *call, sg_client *client, const char *family, const sg_family_page *page) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/families/{}/boards", family, NULL);
  size_t i;
  if (page) {
    sg__put_query(&url, "order", page->order);
    sg__put_query_number(&url, "limit", page->limit);
    sg__put_query(&url, "cursor", page->cursor);
  }
  for (i = 0; page && i < page->filter_count; i++) {
    char name[80];
    snprintf(name, sizeof name, "metadata.%.64s", page->filters[i].name);
    sg__put_query(&url, name, page->filters[i].value);
  }
  sg__end_url(call, &url);
  sg__expect(call, "boards", "board");
}

void sg_standings(sg_call *call, sg_client *client, const char *family, const char *player, const sg_page *page) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/families/{}/players/{}/standings", family, player);
  sg__put_page(&url, page);
  sg__end_url(call, &url);
  sg__expect(call, "standings", "board");
}

void sg_entries_on(sg_call *call, sg_client *client, const char *player, const char *boards, const char *window) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/players/{}/entries", player, NULL);
  sg__put_query(&url, "boards", boards);
  sg__put_query(&url, "window", window);
  sg__end_url(call, &url);
  sg__expect(call, "entries", "board");
}

void sg_asset(sg_call *call, sg_client *client, const char *board, const char *digest) {
  const char *name = sg__begins(digest, "sha256:") ? digest + 7 : digest;
  sg__get(call, client, "GET", "/v1/boards/{}/assets/{}", board, name);
  call->kind = SG__CONTENT;
  call->timeout_ms = SG__DOWNLOAD_MS;
  snprintf(call->digest, sizeof call->digest, "sha256:%.64s", name);
}

void sg_watch(sg_call *call, sg_client *client, const char *board, const char *window, const char *after,
              sg_on_event on_event, void *context) {
  sg_buffer url = sg__begin(call, client, "GET", "/v1/boards/{}/live", board, NULL);
  sg__put_query(&url, "window", window);
  sg__end_url(call, &url);
  call->kind = SG__FEED;
  call->timeout_ms = 0;
  call->on_event = on_event;
  call->event_context = context;
  if (after && !sg__copy(call->last_id, sizeof call->last_id, after)) sg__fail(call, SG_INVALID, "the id is none");
}

/* ---- The queue ---- */

/* Moves to the next name. */
static int sg__next_name(const sg_store *store, char name[SG_ENTRY_SIZE]) {
  char after[SG_ENTRY_SIZE];
  memcpy(after, name, SG_ENTRY_SIZE);
  return store->next(store->context, after, name);
}

int sg_waiting(const sg_store *store) {
  char name[SG_ENTRY_SIZE] = "";
  int count = 0;
  while (sg__next_name(store, name)) count++;
  return count;
}

/* Returns 1 if an entry is of this run with this very body. */
static int sg__is_same(const sg_store *store, const char *name, const char *ticket, const sg_buffer *body,
                       sg_buffer *memory) {
  char theirs[SG_TICKET_SIZE];
  sg_json entry, value;
  size_t size;
  if (!store->read(store->context, name, memory->data, memory->room, &size) ||
      !sg_json_read(memory->data, size, &entry) || !sg__field(entry, "ticket", theirs, sizeof theirs) ||
      strcmp(theirs, ticket) != 0 || !sg_json_member(entry, "body", &value) ||
      !sg__json_decode(value, memory->data, memory->room, &size)) {
    return 0;
  }
  return size == body->size && memcmp(memory->data, body->data, size) == 0;
}

/* Returns how many entries are still to be sent. One that does not fit the memory is taken for such. */
static int sg__unsent(const sg_store *store, sg_buffer *memory) {
  char name[SG_ENTRY_SIZE] = "", submission[SG_ID_SIZE];
  sg_json entry;
  size_t size;
  int count = 0;
  while (sg__next_name(store, name)) {
    if (!store->read(store->context, name, memory->data, memory->room, &size) ||
        !sg_json_read(memory->data, size, &entry) || !sg__field(entry, "submission", submission, sizeof submission)) {
      count++;
    }
  }
  return count;
}

/* Finds a name for a new entry: SG_FINE with "" if the very same run waits already. */
static sg_error sg__new_name(const sg_store *store, int64_t now_ms, const char *ticket, const sg_buffer *body,
                             sg_buffer *memory, char name[SG_ENTRY_SIZE]) {
  char other[SG_ENTRY_SIZE] = "", mark[12];
  unsigned char hash[32];
  sg_buffer hex = sg_buffer_of(mark, sizeof mark);
  int count = 0, is_taken = 1;
  sg__sha256_of(ticket, strlen(ticket), hash);
  sg__put_hex(&hex, hash, 4);
  if (now_ms < 0) now_ms = 0;
  for (; is_taken; now_ms++) {
    snprintf(name, SG_ENTRY_SIZE, "%013lld-%s.json", (long long)now_ms % 10000000000000, mark);
    is_taken = count = 0;
    for (other[0] = 0; sg__next_name(store, other); count++) {
      if (strcmp(other, name) == 0) is_taken = 1;
      if (strstr(other, mark) && sg__is_same(store, other, ticket, body, memory)) {
        name[0] = 0;
        return SG_FINE;
      }
    }
    if (count >= SG_QUEUE_MOST && sg__unsent(store, memory) >= SG_QUEUE_MOST) return SG_FULL;
  }
  return SG_FINE;
}

sg_error sg_submit_later(sg_client *client, const sg_store *store, const sg_run *run, const sg_claim *claim,
                         void *memory, size_t room) {
  sg_buffer body = sg_buffer_of(memory, room), entry;
  const int64_t now_ms = sg__now_ms(client);
  char name[SG_ENTRY_SIZE], key[48];
  sg_buffer key_text = sg_buffer_of(key, sizeof key);
  sg_error error = claim->is_commit && !claim->recording ? SG_INVALID : sg_claim_body(claim, &body);
  if (error) return error;
  entry = sg_buffer_of(body.data + body.size + 1, room - body.size - 1);
  error = sg__new_name(store, now_ms, run->ticket, &body, &entry, name);
  if (error || !name[0]) return error;
  entry.size = 0;
  sg_put_base64(&key_text, run->key, 32);
  sg__put_text(&entry, "{\"version\":1");
  sg__put_member(&entry, "board", run->board);
  sg__put_member(&entry, "ticket", run->ticket);
  sg__put_member(&entry, "key", key);
  sg__put_text(&entry, ",\"body\":");
  sg__put_json_string(&entry, body.data, body.size);
  sg__put_text(&entry, ",\"written_at\":");
  sg__put_integer(&entry, now_ms / 1000);
  if (claim->is_commit) {
    sg__put_text(&entry, ",\"recording\":\"");
    sg_put_base64(&entry, claim->recording, claim->recording_size);
    sg__put_byte(&entry, '"');
  }
  sg__put_byte(&entry, '}');
  if (entry.is_short) return SG_NO_ROOM;
  return store->write(store->context, name, entry.data, entry.size) ? SG_FINE : SG_STORE_FAILED;
}

void sg_flush_begin(sg_flush *flush, sg_client *client, const sg_store *store, void *memory, size_t room) {
  memset(flush, 0, sizeof *flush);
  flush->client = client;
  flush->store = store;
  flush->memory = (char *)memory;
  flush->room = room;
  sg_call_begin(&flush->call, memory, room);
}

static sg_action sg__tell(sg_flush *flush, sg_result result) {
  flush->result = result;
  flush->phase = SG__TOLD;
  return SG_OUTCOME;
}

static sg_action sg__tell_error(sg_flush *flush, sg_error error, const char *detail) {
  sg__fail(&flush->call, error, detail);
  return sg__tell(flush, SG_KEPT);
}

/* Removes the entry, and says so only if it is really gone: a kept entry is sent again, which is safe. */
static sg_action sg__drop(sg_flush *flush, sg_result result) {
  if (flush->store->remove(flush->store->context, flush->name)) return sg__tell(flush, result);
  return sg__tell_error(flush, SG_STORE_FAILED, "the entry cannot be removed");
}

static sg_action sg__set_aside(sg_flush *flush) {
  if (flush->store->set_aside(flush->store->context, flush->name)) return sg__tell(flush, SG_DAMAGED);
  return sg__tell_error(flush, SG_STORE_FAILED, "the entry is damaged, and cannot be set aside");
}

static sg_action sg__end_flush(sg_flush *flush, sg_error error) {
  if (flush->is_locked && flush->store->unlock) flush->store->unlock(flush->store->context);
  flush->is_locked = 0;
  flush->phase = SG__ENDED;
  if (error) flush->error = error;
  return SG_DONE;
}

/* Reads the entry's parts. The body and the recording are decoded where they stand. */
static int sg__parse_entry(sg_flush *flush, sg_json entry, unsigned char key[32], char **body, size_t *body_size) {
  sg_json value;
  int64_t version;
  flush->submission[0] = 0;
  flush->recording = NULL;
  *body = NULL;
  if (!sg__number(entry, "version", &version) || version != 1 ||
      !sg__field(entry, "board", flush->board, sizeof flush->board) ||
      !sg__field(entry, "ticket", flush->ticket, sizeof flush->ticket) ||
      !sg__number(entry, "written_at", &flush->written_at)) {
    return 0;
  }
  (void)sg__field(entry, "submission", flush->submission, sizeof flush->submission);
  if (sg_json_member(entry, "recording", &value) && sg__json_is_a(value, '"')) {
    flush->recording = value.at + 1;
    flush->recording_size = (size_t)(value.end - value.at) - 2;
  }
  if (flush->submission[0]) return flush->recording != NULL;
  if (!sg__key(entry, key) || !sg_json_member(entry, "body", &value)) return 0;
  *body = (char *)value.at;
  return sg__json_decode(value, *body, (size_t)(value.end - value.at), body_size);
}

static sg_action sg__load(sg_flush *flush) {
  const sg_store *store = flush->store;
  const int64_t now_s = sg__now_ms(flush->client) / 1000;
  unsigned char key[32];
  size_t size = 0, body_size = 0;
  char *body;
  sg_json entry;
  sg_call *call = &flush->call;
  if (!store->read(store->context, flush->name, flush->memory, flush->room, &size)) {
    return sg__tell_error(flush, size > flush->room ? SG_NO_ROOM : SG_STORE_FAILED, "the entry cannot be read");
  }
  if (!sg_json_read(flush->memory, size, &entry) || !sg__parse_entry(flush, entry, key, &body, &body_size)) {
    return sg__set_aside(flush);
  }
  if (now_s - flush->written_at > (flush->submission[0] ? SG_RECORDING_KEPT_S : SG_QUEUE_KEPT_S)) {
    return sg__drop(flush, SG_EXPIRED);
  }
  if (flush->is_offline) return sg__tell_error(flush, SG_NO_ANSWER, "the gateway did not answer before, or was busy");
  sg_call_begin(call, flush->memory + size, flush->room - size);
  if (flush->submission[0]) {
    sg_read_submission(call, flush->client, flush->submission);
    flush->phase = SG__CHECKING;
    return sg_flush_step(flush);
  }
  sg__get(call, flush->client, "POST", "/v1/boards/{}/scores", flush->board, NULL);
  call->content_type = SG__JSON_TYPE;
  call->body = body;
  call->body_size = body_size;
  sg__expect(call, NULL, "submission");
  sg__sign_with(call, flush->ticket, key);
  flush->phase = SG__SUBMITTING;
  return sg_flush_step(flush);
}

/* Returns 1 if a refusal is the gateway's last word. A proxy's, a hotel's and a busy gateway's is not. */
static int sg__is_final(const sg_call *call) {
  const int status = call->status;
  return call->error == SG_REFUSED && call->reason[0] && status >= 400 && status < 500 && status != 401 &&
         status != 408 && status != 421 && status != 425 && status != 429;
}

static sg_action sg__keep(sg_flush *flush) {
  const int status = flush->call.status;
  flush->is_offline = flush->call.error == SG_NO_ANSWER || status == 429 || status == 503;
  return sg__tell(flush, SG_KEPT);
}

/* A committed run is on its way: from now on its entry is the recording, until nobody can ask for it. */
static sg_action sg__keep_recording(sg_flush *flush) {
  sg_buffer entry = sg_buffer_of(flush->call.memory, flush->call.room);
  sg__put_text(&entry, "{\"version\":1");
  sg__put_member(&entry, "board", flush->board);
  sg__put_member(&entry, "ticket", flush->ticket);
  sg__put_member(&entry, "submission", flush->submission);
  sg__put_text(&entry, ",\"written_at\":");
  sg__put_integer(&entry, flush->written_at);
  sg__put_text(&entry, ",\"recording\":\"");
  sg__put(&entry, flush->recording, flush->recording_size);
  sg__put_text(&entry, "\"}");
  if (entry.is_short) return sg__tell_error(flush, SG_NO_ROOM, "the entry does not fit the memory");
  memset(&flush->call.answer, 0, sizeof flush->call.answer);
  if (!flush->store->write(flush->store->context, flush->name, entry.data, entry.size)) {
    return sg__tell_error(flush, SG_STORE_FAILED, "the entry cannot be written");
  }
  return sg__tell(flush, SG_ACCEPTED);
}

static sg_action sg__submitted(sg_flush *flush) {
  sg_call *call = &flush->call;
  if (sg__is_final(call)) return sg__drop(flush, SG_DECLINED);
  if (call->error) return sg__keep(flush);
  if (!sg__field(call->answer, "submission", flush->submission, sizeof flush->submission)) {
    call->error = SG_UNREADABLE;
    return sg__keep(flush);
  }
  return flush->recording ? sg__keep_recording(flush) : sg__drop(flush, SG_ACCEPTED);
}

static sg_action sg__checked(sg_flush *flush) {
  sg_call *call = &flush->call;
  sg_submission now;
  size_t size;
  if (sg__is_final(call)) return sg__tell(flush, SG_HELD); /* another player's, who may come back */
  if (call->error) return sg__keep(flush);
  if (sg_submission_of(call->answer, &now)) {
    call->error = SG_UNREADABLE;
    return sg__keep(flush);
  }
  if (now.reveal_by[0]) {
    /* In place, over the base64 that was read. */
    if (!sg_from_base64(flush->recording, flush->recording_size, (char *)flush->recording, flush->recording_size,
                        &size)) {
      return sg__set_aside(flush);
    }
    sg_reveal(call, flush->client, flush->submission, flush->recording, size);
    flush->phase = SG__REVEALING;
    return sg_flush_step(flush);
  }
  if (now.is_verified || strcmp(now.state, "rejected") == 0 || strcmp(now.state, "revoked") == 0 ||
      strcmp(now.state, "superseded") == 0) {
    return sg__drop(flush, SG_SETTLED);
  }
  return sg__tell(flush, SG_HELD);
}

sg_action sg_flush_step(sg_flush *flush) {
  const sg_store *store = flush->store;
  if (flush->phase == SG__ENDED) return SG_DONE;
  if (flush->phase == SG__BEGUN) {
    if (store->lock && !store->lock(store->context)) return sg__end_flush(flush, SG_STORE_FAILED);
    flush->is_locked = 1;
    flush->phase = SG__TOLD;
  }
  if (flush->phase == SG__TOLD) {
    if (!sg__next_name(store, flush->name)) return sg__end_flush(flush, SG_FINE);
    return sg__load(flush);
  }
  {
    const sg_action action = sg_step(&flush->call);
    if (action != SG_DONE) return action;
  }
  if (flush->phase == SG__SUBMITTING) return sg__submitted(flush);
  if (flush->phase == SG__CHECKING) return sg__checked(flush);
  if (flush->call.error) return sg__is_final(&flush->call) ? sg__drop(flush, SG_SETTLED) : sg__keep(flush);
  return sg__tell(flush, SG_REVEALED); /* kept until it is verified */
}

int sg_flush_next(sg_flush *flush) {
  const sg_platform *platform = &flush->client->platform;
  for (;;) {
    const sg_action action = sg_flush_step(flush);
    if (action == SG_SEND) platform->send(platform->context, &flush->call);
    if (action == SG_WAIT) platform->sleep_ms(platform->context, flush->call.wait_ms);
    if (action == SG_OUTCOME || action == SG_DONE) return action == SG_OUTCOME;
  }
}

#ifdef __cplusplus
}
#endif
#endif /* SG_IMPLEMENTED */
#endif /* SG_IMPLEMENTATION */
