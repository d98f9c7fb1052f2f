"""Plays three seconds of the bundled game and brings it to the board, now or once there is a network."""

import sys
import time
from importlib.resources import files

from scoregate_client import Recorder, Run, SyncScoregateClient

from examples.arcade.players import Arcade

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
RIGHT, QUIT = 2, 32


def play(run: Run) -> tuple[int, dict[str, int], Recorder]:
    """Return score, statistics and recording of a run, in which the player turns right now and then."""
    game = Arcade(str(files("examples.arcade") / "arcade.wasm")).open(run.seed)
    recorder, words, goes_on = Recorder(run.checkpoint_ticks), [], True
    while goes_on:
        words.append(QUIT if recorder.ticks == 179 else RIGHT if recorder.ticks // 40 % 2 else 0)
        goes_on = game.tick(words[-1])
        if recorder.tick(words[-1]):
            recorder.checkpoint(game.state_hash())
        time.sleep(1 / run.ticks_per_second)
    score, stats = game.score(), game.simulate(run.seed, words, 0).stats
    return score, dict(zip(["motes", "near_misses", "best_combo"], stats, strict=True)), recorder


with SyncScoregateClient(ADDRESS, queue="scoregate-queue") as client:
    client.create_player("Ada")  # a game keeps client.token, and passes it as `token` the next time
    run = client.open_run("arcade", "arcade-1")
    score, stats, recorder = play(run)
    client.submit_later(run, score, recorder.ticks, stats, recorder.finish())  # it cannot be lost now
    for each in client.flush().outcomes:
        if each.receipt is None:
            print(each.outcome, each.problem)
            continue
        settled = client.wait_until_settled(each.receipt)
        print(f"{settled.score} points are {settled.state}, rank {settled.rank}")
    for entry in client.entries("arcade", limit=10).entries:
        print(f"{entry.rank}. {entry.name} {entry.score}")
