/*
 * A first program: plays a run of the bundled game for some seconds, submits it, and shows the board.
 *
 *     five_minutes [ADDRESS [FOLDER]]
 *
 * ADDRESS is the gateway's, http://localhost:8080 as `scoregate up` has it; the run waits in FOLDER (./scoregate-queue)
 * until the gateway has it, also over the end of this program.
 */
#include <stdio.h>
#include <string.h>

#include "perihelion.h"
#include "posix.h"

enum { SECONDS = 3, TICKS_PER_SECOND = 60, TICKS = SECONDS * TICKS_PER_SECOND, RIGHT = 2, QUIT = 32 };

static char memory[1 << 18]; /* for calls and the queue: what a run takes, twice */

static int fails(const char *task, const sg_call *call) {
  if (call->error == SG_FINE) return 0;
  fprintf(stderr, "%s: %s (%d %s)\n", task, call->detail, call->status, call->reason);
  return 1;
}

/* Plays, and records what was played. A game would read buttons here; this one turns right now and then. */
static sg_error play(const sg_run *run, sg_claim *claim, sg_stat stats[3], char *recording, size_t room) {
  static const char *const names[3] = {"motes", "near_misses", "best_combo"};
  static sg_stretch stretches[TICKS];
  static uint64_t checkpoints[TICKS];
  sg_buffer buffer = sg_buffer_of(recording, room);
  sg_recorder recorder;
  sg_error error;
  int64_t values[3];
  int at, goes_on = 1;
  start(run->seed);
  sg_recorder_begin(&recorder, stretches, TICKS, checkpoints, TICKS, run->checkpoint_ticks);
  for (at = 0; at < TICKS && goes_on; at++) {
    const uint32_t buttons = at == TICKS - 1 ? QUIT : at / 40 % 2 ? RIGHT : 0;
    goes_on = tick(buttons);
    sg_recorder_tick(&recorder, buttons);
    if (sg_recorder_is_due(&recorder)) sg_recorder_checkpoint(&recorder, state_hash());
  }
  memset(claim, 0, sizeof *claim);
  perihelion_result(&claim->score, values);
  for (at = 0; at < 3; at++) {
    stats[at].name = names[at];
    stats[at].value = values[at];
  }
  error = sg_recorder_end(&recorder, &buffer);
  claim->ticks = recorder.ticks;
  claim->stats = stats;
  claim->stat_count = 3;
  claim->recording = recording;
  claim->recording_size = buffer.size;
  return error;
}

static void show_board(sg_call *call, sg_client *client) {
  sg_page page = {0};
  sg_json entries, entry = {0};
  page.limit = 10;
  sg_entries(call, client, "arcade", &page);
  if (sg_perform(call) || !sg_json_member(call->answer, "entries", &entries)) {
    fails("reading the board", call);
    return;
  }
  while (sg_json_next(entries, &entry)) {
    char name[SG_NAME_SIZE] = "";
    int64_t rank = 0, score = 0;
    sg_json value;
    if (sg_json_member(entry, "name", &value)) sg_json_text(value, name, sizeof name);
    if (sg_json_member(entry, "rank", &value)) sg_json_integer(value, &rank);
    if (sg_json_member(entry, "score", &value)) sg_json_integer(value, &score);
    printf("%3d. %-24s %8d\n", (int)rank, name, (int)score);
  }
}

int main(int count, char **arguments) {
  static char recording[8192];
  const char *address = count > 1 ? arguments[1] : "http://localhost:8080";
  const char *path = count > 2 ? arguments[2] : "scoregate-queue";
  char submission[SG_ID_SIZE] = "";
  sg_posix posix;
  sg_folder folder;
  sg_client client;
  sg_call call;
  sg_flush flush;
  sg_player player;
  sg_run run;
  sg_claim claim;
  sg_stat stats[3];
  sg_store store;
  if (!sg_posix_open(&posix) || !sg_folder_open(&folder, path)) return 1;
  if (sg_client_begin(&client, address, sg_posix_platform(&posix))) {
    fprintf(stderr, "%s is not the address of a gateway\n", address);
    return 1;
  }
  store = sg_folder_store(&folder);
  sg_call_begin(&call, memory, sizeof memory);

  sg_create_player(&call, &client, "Ada");
  if (sg_perform(&call) || sg_created_player(&call, &player)) return fails("creating a player", &call);
  sg_open_run(&call, &client, "arcade", "arcade-1", NULL);
  if (sg_perform(&call) || sg_opened_run(&call, &run)) return fails("opening a run", &call);
  printf("%s plays for %d seconds\n", player.name, SECONDS);
  if (play(&run, &claim, stats, recording, sizeof recording)) return 1;
  client.platform.sleep_ms(client.platform.context, SECONDS * 1000); /* a run takes its time, or it is implausible */

  if (sg_submit_later(&client, &store, &run, &claim, memory, sizeof memory)) return 1;
  sg_flush_begin(&flush, &client, &store, memory, sizeof memory);
  while (sg_flush_next(&flush)) {
    if (flush.result == SG_ACCEPTED) strcpy(submission, flush.submission);
    if (flush.result != SG_ACCEPTED) fails("submitting", &flush.call);
  }
  if (!submission[0]) {
    printf("The run waits in %s, and is sent by the next flush.\n", path);
    return 1;
  }
  sg_wait_until_settled(&call, &client, submission, 30000);
  if (sg_perform(&call) == SG_FINE) {
    sg_submission settled;
    sg_submission_of(call.answer, &settled);
    printf("%d points are %s%s%s, rank %d\n", (int)settled.score, settled.state, settled.reason[0] ? " for " : "",
           settled.reason, (int)settled.rank);
  } else {
    fails("waiting", &call);
  }
  show_board(&call, &client);
  sg_posix_close(&posix);
  return 0;
}
