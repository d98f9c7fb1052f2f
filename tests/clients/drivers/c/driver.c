/* The driver of the C client: a request a line on standard input, an answer a line on standard output. */
#define _POSIX_C_SOURCE 200809L
#include "../../../../clients/c/examples/posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 24, RUNS = 256, STRETCHES = 1 << 20, STATS = 64, TEXT = 4096 };

typedef struct Machine {
  sg_posix posix;
  sg_platform inner;
  int64_t offset_ms, fixed_ms;
  unsigned char nonce[32];
  size_t nonce_size;
} Machine;

static char memory[ROOM], scratch[ROOM], recording[ROOM], out[ROOM];
static sg_stretch stretches[STRETCHES];
static uint64_t checkpoints[STRETCHES];
static Machine machine;
static sg_folder folder;
static sg_client client;
static sg_call call;
static sg_run runs[RUNS];
static size_t run_count;
static sg_json asked;
static sg_stat stats[STATS];
static char stat_names[STATS][64];

/* ---- The machine, with a clock and a chance that the harness may fix ---- */

static int random_bytes(void *context, void *to, size_t size) {
  Machine *own = context;
  if (own->nonce_size != size) return own->inner.random_bytes(&own->posix, to, size);
  memcpy(to, own->nonce, size);
  return 1;
}

static int64_t now_ms(void *context) {
  Machine *own = context;
  return own->fixed_ms ? own->fixed_ms : own->inner.now_ms(&own->posix) + own->offset_ms;
}

static void send_call(void *context, sg_call *sent) {
  Machine *own = context;
  own->inner.send(&own->posix, sent);
}

static void sleep_ms(void *context, uint32_t wait_ms) {
  Machine *own = context;
  own->inner.sleep_ms(&own->posix, wait_ms);
}

/* ---- What was asked ---- */

static int argument(const char *name, sg_json *value) { return sg_json_member(asked, name, value) && !sg_json_is_null(*value); }

/* The text of an argument, or NULL. A list becomes a text with commas; a number stays as it is written. */
static const char *text(const char *name) {
  static char texts[16][TEXT];
  static int next;
  char *to = texts[next++ % 16];
  sg_json value, item = {0};
  if (!argument(name, &value)) return NULL;
  if (sg_json_text(value, to, TEXT)) return to;
  to[0] = 0;
  while (sg_json_next(value, &item)) {
    char each[256];
    if (!sg_json_text(item, each, sizeof each)) abort();
    if (to[0]) strcat(to, ",");
    strcat(to, each);
  }
  return to;
}

static int64_t number(const char *name, int64_t otherwise) {
  sg_json value;
  int64_t found;
  return argument(name, &value) && sg_json_integer(value, &found) ? found : otherwise;
}

static int is_true(const char *name) {
  sg_json value;
  return argument(name, &value) && sg_json_is_true(value);
}

/* The bytes of an argument in base64. */
static size_t bytes(const char *name, char *to) {
  sg_json value;
  size_t size;
  if (!argument(name, &value) || !sg_from_base64(value.at + 1, (size_t)(value.end - value.at) - 2, to, ROOM, &size)) abort();
  return size;
}

static const sg_page *page(void) {
  static sg_page asked_for;
  asked_for.window = text("window");
  asked_for.cursor = text("cursor");
  asked_for.ranks = text("ranks");
  asked_for.players = text("players");
  asked_for.segment = text("segment");
  asked_for.offset = (uint32_t)number("offset", 0);
  asked_for.limit = (uint32_t)number("limit", 0);
  asked_for.friends = is_true("friends");
  return &asked_for;
}

static const sg_run *run_of(void) {
  const char *ticket = text("ticket");
  size_t i;
  for (i = 0; i < RUNS; i++) {
    if (ticket && strcmp(runs[i].ticket, ticket) == 0) return runs + i;
  }
  abort();
}

static sg_claim claim_of(void) {
  sg_claim claim;
  sg_json list, pair = {0}, value;
  memset(&claim, 0, sizeof claim);
  claim.score = number("score", 0);
  claim.ticks = (uint32_t)number("ticks", 0);
  claim.stats = stats;
  if (argument("stats", &list)) {
    while (sg_json_next(list, &pair)) {
      sg_json part = {0};
      if (claim.stat_count == STATS || !sg_json_next(pair, &part)) abort();
      if (!sg_json_text(part, stat_names[claim.stat_count], sizeof *stat_names)) abort();
      stats[claim.stat_count].name = stat_names[claim.stat_count];
      if (!sg_json_next(pair, &part) || !sg_json_integer(part, &stats[claim.stat_count].value)) abort();
      claim.stat_count++;
    }
  }
  if (argument("recording", &value)) {
    claim.recording_size = bytes("recording", recording);
    claim.recording = recording;
  }
  return claim;
}

/* ---- What is answered ---- */

static void put(const char *text_to_put) { fputs(text_to_put, stdout); }

static void put_text(const char *value) {
  for (putchar('"'); *value; value++) {
    if ((unsigned char)*value < 0x20 || *value == '"' || *value == '\\') {
      printf("\\u%04x", (unsigned char)*value);
    } else {
      putchar(*value);
    }
  }
  putchar('"');
}

/* A value of the gateway, on one line. */
static void put_json(sg_json value) {
  const char *at;
  for (at = value.at; at < value.end; at++) putchar(*at == '\n' || *at == '\r' ? ' ' : *at);
}

static void put_error(int status, const char *reason, const char *detail, int64_t retry_after_s) {
  printf("{\"error\":{\"status\":%d,\"reason\":", status);
  put_text(reason);
  put(",\"detail\":");
  put_text(detail);
  put(",\"retry_after_s\":");
  if (retry_after_s < 0) {
    put("null}}\n");
  } else {
    printf("%lld}}\n", (long long)retry_after_s);
  }
}

static void put_base64(const char *name, const void *data, size_t size) {
  sg_buffer buffer = sg_buffer_of(out, ROOM);
  sg_put_base64(&buffer, data, size);
  printf("{\"ok\":{\"%s\":\"%s\"}}\n", name, out);
}

/* Performs the call, and answers with what came back; 1 if it went well. */
static int is_fine(void) {
  if (sg_perform(&call) == SG_FINE) return 1;
  put_error(call.status, call.reason, call.detail, call.retry_after_s);
  return 0;
}

static void answer_call(void) {
  if (!is_fine()) return;
  put("{\"ok\":");
  if (call.answer.at) {
    put_json(call.answer);
  } else {
    put("{}");
  }
  put("}\n");
}

static void unreadable(void) { put_error(call.status, "", "the answer is not a gateway's", -1); }

/* ---- Commands ---- */

static void do_sign(void) {
  sg_signing request;
  sg_header headers[4];
  sg_buffer buffer = sg_buffer_of(out, ROOM), base = sg_buffer_of(memory, ROOM);
  char key[64];
  sg_json value;
  size_t size, i;
  const char *coded = text("key");
  if (argument("algorithm", &value) && sg_json_is(value, "ed25519")) {
    put_error(0, "unsupported", "only servers sign by Ed25519", -1);
    return;
  }
  if (!sg_from_base64(coded, strlen(coded), key, sizeof key, &size)) abort();
  request.method = text("method");
  request.authority = text("authority");
  request.path = text("path");
  request.query = text("query");
  request.content_type = text("content_type");
  request.body = scratch;
  request.body_size = bytes("body", scratch);
  request.created = number("created", 0);
  request.expires = number("expires", 0);
  request.nonce = text("nonce");
  request.keyid = text("keyid");
  request.tag = text("tag");
  request.alg = text("alg");
  if (sg_sign(&request, key, size, &buffer, headers) || sg_signature_base(&request, &base)) abort();
  put("{\"ok\":{\"headers\":{");
  for (i = 0; i < 4; i++) {
    if (i) putchar(',');
    put_text(headers[i].name);
    putchar(':');
    put_text(headers[i].value);
  }
  put("},\"base\":");
  put_text(memory);
  put("}}\n");
}

static void do_content_digest(void) {
  unsigned char hash[32];
  sg_sha256 state;
  sg_buffer buffer = sg_buffer_of(out, ROOM);
  const size_t size = bytes("body", scratch);
  sg_sha256_begin(&state);
  sg_sha256_add(&state, scratch, size / 2); /* in two pieces, as a stream comes */
  sg_sha256_add(&state, scratch + size / 2, size - size / 2);
  sg_sha256_end(&state, hash);
  sg_put_base64(&buffer, hash, 32);
  printf("{\"ok\":{\"content_digest\":\"sha-256=:%s:\"}}\n", out);
}

static int wide(sg_json value, int64_t *found) { return sg_json_integer(value, found) && *found >= 0 && *found <= UINT32_MAX; }

/* Records a stretch tick by tick, or as far as the next checkpoint at once. */
static int record(sg_recorder *recorder, int64_t length, int64_t word, sg_json hashes, sg_json *hash, int by_tick) {
  while (length > 0) {
    const uint32_t every = recorder->checkpoint_ticks;
    int64_t part = every ? every - recorder->ticks % every : length;
    if (by_tick) part = 1;
    if (part > length) part = length;
    if (sg_recorder_ticks(recorder, (uint32_t)part, (uint32_t)word)) return 0;
    length -= part;
    if (sg_recorder_is_due(recorder)) {
      char digits[24];
      if (!sg_json_next(hashes, hash) || !sg_json_text(*hash, digits, sizeof digits) || strlen(digits) > 16) return 0;
      if (sg_recorder_checkpoint(recorder, strtoull(digits, NULL, 16))) return 0;
    }
  }
  return 1;
}

static void do_record(int by_tick) {
  sg_recorder recorder;
  sg_buffer buffer = sg_buffer_of(scratch, ROOM);
  sg_json inputs, hashes, pair = {0}, hash = {0};
  int64_t every = number("checkpoint_ticks", -1);
  int is_valid = argument("inputs", &inputs) && argument("checkpoints", &hashes) && every >= 0 && every <= UINT32_MAX;
  sg_recorder_begin(&recorder, stretches, STRETCHES, checkpoints, STRETCHES, (uint32_t)every);
  while (is_valid && sg_json_next(inputs, &pair)) {
    sg_json part = {0};
    int64_t length, word;
    is_valid = sg_json_next(pair, &part) && wide(part, &length) && sg_json_next(pair, &part) && wide(part, &word) &&
               length > 0 && record(&recorder, length, word, hashes, &hash, by_tick);
  }
  if (!is_valid || sg_json_next(hashes, &hash) || sg_recorder_end(&recorder, &buffer)) {
    put_error(0, "invalid", "no recording", -1);
  } else {
    put_base64("recording", buffer.data, buffer.size);
  }
}

static void do_claim(void) {
  sg_claim claim = claim_of();
  sg_buffer buffer = sg_buffer_of(scratch, ROOM);
  claim.is_commit = is_true("committed");
  if (sg_claim_body(&claim, &buffer)) {
    put_error(0, "invalid", "no claim", -1);
  } else {
    put_base64("body", buffer.data, buffer.size);
  }
}

static void do_open(void) {
  sg_platform platform;
  const char *token = text("token"), *nonce = text("nonce"), *queue = text("queue");
  char coded[40];
  size_t i;
  machine.offset_ms = number("clock_offset_s", 0) * 1000;
  machine.fixed_ms = number("now_s", 0) * 1000;
  machine.nonce_size = 0;
  if (nonce) {
    snprintf(coded, sizeof coded, "%s", nonce);
    for (i = 0; coded[i]; i++) coded[i] = coded[i] == '-' ? '+' : coded[i] == '_' ? '/' : coded[i];
    if (!sg_from_base64(coded, i, machine.nonce, sizeof machine.nonce, &machine.nonce_size)) abort();
  }
  platform.context = &machine;
  platform.random_bytes = random_bytes;
  platform.now_ms = now_ms;
  platform.send = send_call;
  platform.sleep_ms = sleep_ms;
  if (sg_client_begin(&client, text("base_url"), platform)) {
    put_error(0, "invalid", "no address", -1);
    return;
  }
  if (token) snprintf(client.token, sizeof client.token, "%s", token);
  client.attempts = (int)number("attempts", client.attempts);
  if (queue && !sg_folder_open(&folder, queue)) abort();
  put("{\"ok\":{}}\n");
}

static void do_create_player(void) {
  sg_player player;
  sg_create_player(&call, &client, text("name"));
  if (!is_fine()) return;
  if (sg_created_player(&call, &player)) {
    unreadable();
  } else {
    put("{\"ok\":");
    put_json(call.answer);
    put("}\n");
  }
}

static void do_open_run(void) {
  sg_run run;
  sg_open_run(&call, &client, text("board"), text("build"), text("name_signature"));
  if (!is_fine()) return;
  if (sg_opened_run(&call, &run)) {
    unreadable();
    return;
  }
  runs[run_count++ % RUNS] = run;
  put("{\"ok\":");
  put_json(call.answer);
  put("}\n");
}

static void do_submit(int is_commit) {
  sg_claim claim = claim_of();
  sg_submission receipt;
  claim.is_commit = is_commit;
  sg_submit(&call, &client, run_of(), &claim);
  if (!is_fine()) return;
  if (sg_submission_of(call.answer, &receipt)) {
    unreadable();
    return;
  }
  put("{\"ok\":");
  put_json(call.answer);
  put("}\n");
}

static void do_submit_later(void) {
  const sg_store store = sg_folder_store(&folder);
  sg_claim claim = claim_of();
  sg_error error;
  claim.is_commit = is_true("committed");
  error = sg_submit_later(&client, &store, run_of(), &claim, memory, ROOM);
  if (error == SG_FINE) {
    put("{\"ok\":{}}\n");
  } else if (error == SG_FULL) {
    put_error(0, "queue-full", "the queue is full", -1);
  } else {
    put_error(0, "", "the run could not be kept", -1);
  }
}

static void put_outcome(const sg_flush *flush) {
  static const char *const names[] = {"accepted", "refused", "kept", "expired", "damaged"};
  const sg_call *of = &flush->call;
  put("{\"ticket\":");
  if (flush->result == SG_DAMAGED) {
    put("null");
  } else {
    put_text(flush->ticket);
  }
  printf(",\"outcome\":\"%s\"", names[flush->result]);
  if (flush->result == SG_ACCEPTED) {
    put(",\"receipt\":{\"submission\":");
    put_text(flush->submission);
    put(",\"state\":\"pending\"}");
  } else if (flush->result == SG_DECLINED || flush->result == SG_KEPT) {
    printf(",\"problem\":{\"status\":%d,\"reason\":", of->status);
    put_text(of->reason);
    put(",\"detail\":");
    put_text(of->detail);
    put("}");
  }
  put("}");
}

static void do_flush(void) {
  const sg_store store = sg_folder_store(&folder);
  sg_flush flush;
  char revealed[TEXT] = "";
  const char *between = "";
  sg_flush_begin(&flush, &client, &store, memory, ROOM);
  put("{\"ok\":{\"outcomes\":[");
  while (sg_flush_next(&flush)) {
    if (flush.result == SG_REVEALED) {
      snprintf(revealed + strlen(revealed), TEXT - strlen(revealed), "%s\"%s\"", revealed[0] ? "," : "", flush.submission);
    } else if (flush.result < SG_HELD) {
      put(between);
      put_outcome(&flush);
      between = ",";
    }
  }
  printf("],\"revealed\":[%s]}}\n", revealed);
}

static void do_families(void) {
  char cursor[TEXT] = "";
  const char *between = "";
  put("{\"ok\":{\"families\":[");
  do {
    sg_json list, next, item = {0};
    sg_families(&call, &client, cursor[0] ? cursor : NULL);
    if (sg_perform(&call) || !sg_json_member(call.answer, "families", &list)) abort();
    for (; sg_json_next(list, &item); between = ",") {
      put(between);
      put_json(item);
    }
    cursor[0] = 0;
    if (sg_json_member(call.answer, "next", &next)) (void)sg_json_text(next, cursor, sizeof cursor);
  } while (cursor[0]);
  put("]}}\n");
}

static void do_asset(void) {
  sg_asset(&call, &client, text("board"), text("digest"));
  if (is_fine()) put_base64("content", call.content, call.content_size);
}

typedef struct Watched {
  int64_t left;
  sg_buffer events;
} Watched;

static void add(sg_buffer *to, const char *format, const char *value) {
  to->size += (size_t)snprintf(to->data + to->size, to->room - to->size, format, value);
}

static int take_event(void *context, const char *event, const char *id, const char *data, size_t size) {
  Watched *watched = context;
  add(&watched->events, watched->events.size ? ",%s" : "%s", "");
  add(&watched->events, "{\"event\":\"%s\"", event);
  add(&watched->events, id ? ",\"id\":\"%s\"" : ",\"id\":null", id ? id : "");
  add(&watched->events, ",\"data\":%s", "");
  memcpy(watched->events.data + watched->events.size, data, size);
  watched->events.size += size;
  add(&watched->events, "}", "");
  return --watched->left > 0;
}

static void do_watch(void) {
  Watched watched;
  watched.left = number("count", 1);
  watched.events = sg_buffer_of(out, ROOM);
  sg_watch(&call, &client, text("board"), text("window"), text("after"), take_event, &watched);
  if (is_fine()) printf("{\"ok\":{\"events\":[%s]}}\n", out);
}

static void do_friends(void) {
  const char *between = "";
  sg_json list, item = {0}, player;
  sg_friends(&call, &client);
  if (!is_fine() || !sg_json_member(call.answer, "friends", &list)) return;
  put("{\"ok\":{\"friends\":[");
  for (; sg_json_next(list, &item) && sg_json_member(item, "player", &player); between = ",") {
    put(between);
    put_json(player);
  }
  put("]}}\n");
}

static int do_read(const char *name) {
  if (strcmp(name, "reveals") == 0) {
    sg_reveals(&call, &client);
  } else if (strcmp(name, "submission") == 0) {
    sg_read_submission(&call, &client, text("submission"));
  } else if (strcmp(name, "wait_until_settled") == 0) {
    sg_wait_until_settled(&call, &client, text("submission"), (uint32_t)number("timeout_s", 30) * 1000);
  } else if (strcmp(name, "entries") == 0) {
    sg_entries(&call, &client, text("board"), page());
  } else if (strcmp(name, "entry") == 0) {
    sg_entry(&call, &client, text("board"), text("player"), page());
  } else if (strcmp(name, "around") == 0) {
    sg_around(&call, &client, text("board"), text("player"), (uint32_t)number("radius", 5), page());
  } else if (strcmp(name, "boards") == 0) {
    sg_boards(&call, &client, page());
  } else if (strcmp(name, "board") == 0) {
    sg_board(&call, &client, text("board"));
  } else if (strcmp(name, "standings") == 0) {
    sg_standings(&call, &client, text("family"), text("player"), page());
  } else if (strcmp(name, "entries_on") == 0) {
    sg_entries_on(&call, &client, text("player"), text("boards"), text("window"));
  } else {
    return 0;
  }
  answer_call();
  return 1;
}

/* The harness filters by one field at most: {"country": "it"}. */
static void do_family_boards(void) {
  sg_family_page wanted = {0};
  sg_header filter;
  char fields[TEXT];
  sg_json metadata;
  wanted.order = text("order");
  wanted.cursor = text("cursor");
  wanted.limit = (uint32_t)number("limit", 0);
  if (argument("metadata", &metadata)) {
    snprintf(fields, sizeof fields, "%.*s", (int)(metadata.end - metadata.at), metadata.at);
    filter.name = strtok(fields, "{}\": ");
    filter.value = strtok(NULL, "{}\": ");
    wanted.filters = &filter;
    wanted.filter_count = filter.name != NULL;
  }
  sg_family_boards(&call, &client, text("family"), &wanted);
  answer_call();
}

static int do_change(const char *name) {
  if (strcmp(name, "reveal") == 0) {
    const size_t size = bytes("recording", recording);
    sg_reveal(&call, &client, text("submission"), recording, size);
  } else if (strcmp(name, "follow") == 0) {
    sg_follow(&call, &client, text("player"));
  } else if (strcmp(name, "unfollow") == 0) {
    sg_unfollow(&call, &client, text("player"));
  } else if (strcmp(name, "set_membership") == 0) {
    sg_set_membership(&call, &client, text("board"), text("segment"), text("group"));
  } else {
    return 0;
  }
  if (is_fine()) put("{\"ok\":{}}\n");
  return 1;
}

static void answer(void) {
  const char *name = text("do");
  sg_call_begin(&call, memory, ROOM);
  if (strcmp(name, "sign") == 0) do_sign();
  else if (strcmp(name, "content_digest") == 0) do_content_digest();
  else if (strcmp(name, "encode_recording") == 0) do_record(0);
  else if (strcmp(name, "record") == 0) do_record(1);
  else if (strcmp(name, "claim") == 0) do_claim();
  else if (strcmp(name, "open") == 0) do_open();
  else if (strcmp(name, "create_player") == 0) do_create_player();
  else if (strcmp(name, "open_run") == 0) do_open_run();
  else if (strcmp(name, "submit") == 0) do_submit(0);
  else if (strcmp(name, "commit") == 0) do_submit(1);
  else if (strcmp(name, "submit_later") == 0) do_submit_later();
  else if (strcmp(name, "flush") == 0) do_flush();
  else if (strcmp(name, "waiting") == 0) {
    const sg_store store = sg_folder_store(&folder);
    printf("{\"ok\":{\"entries\":%d}}\n", sg_waiting(&store));
  } else if (strcmp(name, "families") == 0) do_families();
  else if (strcmp(name, "family_boards") == 0) do_family_boards();
  else if (strcmp(name, "friends") == 0) do_friends();
  else if (strcmp(name, "asset") == 0) do_asset();
  else if (strcmp(name, "watch") == 0) do_watch();
  else if (!do_read(name) && !do_change(name)) put_error(0, "unsupported", name, -1);
}

int main(void) {
  char *line = NULL;
  size_t room = 0;
  ssize_t size;
  if (!sg_posix_open(&machine.posix)) return 1;
  machine.inner = sg_posix_platform(&machine.posix);
  while ((size = getline(&line, &room, stdin)) > 0) {
    if (!sg_json_read(line, (size_t)size, &asked)) return 1;
    answer();
    fflush(stdout);
  }
  free(line);
  sg_posix_close(&machine.posix);
  return 0;
}
