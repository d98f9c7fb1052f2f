"""Submits a Doom demo to a gateway, as a port of the game would, and shows the verdict.

    python examples/doom/submit.py http://127.0.0.1:8080 Ada examples/doom/demos/straight.lmp

The claim is the engine's result on this machine; `--claim` claims another time, to see it refused. A port
opens its run when the recording begins. This program has the recording already, so it waits for as long as
the run took: the gateway does not believe runs that arrive sooner.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scoregate_client import Run, ScoregateClient, ScoregateError, Submission
from verify import CATEGORIES, TICS_PER_S, DemoVerifier, Fault, NotADemo, without_footer

FILES = Path(__file__).resolve().parent / "files"
BOARD, BUILD = "doom-hall", "hall-1"
UNSETTLED = {"received", "pending"}
POLL_S = 0.2


@dataclass(frozen=True)
class DoomRun:
    """A demo and the engine's result for it."""

    recording: bytes
    ticks: int
    centiseconds: int
    stats: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> DoomRun:
        """Read the demo at `path` and have the engine play it. Raises NotADemo, Fault and OSError."""
        recording = without_footer(path.read_bytes())
        result = DemoVerifier(FILES).judge(recording)
        if not result["is_over"]:
            raise NotADemo("it does not finish the level")
        return cls(recording, result["ticks"], result["score"], result["stats"])


async def submit(client: ScoregateClient, player: str, played: DoomRun, *, patience_s: float) -> None:
    """Open a run, submit the demo, wait for the verdict and print the board."""
    await client.create_player(player)
    run = await client.open_run(BOARD, BUILD)
    await asyncio.sleep(played.ticks / TICS_PER_S)
    submission = await client.submit(run, played.centiseconds, played.ticks, played.stats, played.recording)
    print(f"submission {submission.submission}", flush=True)
    settled = await _settled(client, submission, patience_s)
    print(settled.state if settled.reason in {None, "none"} else f"{settled.state} ({settled.reason})")
    await _show_board(client, run)


async def _settled(client: ScoregateClient, submission: Submission, patience_s: float) -> Submission:
    """Return the submission once it is judged, or in its state after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while submission.state in UNSETTLED and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        submission = await client.submission(submission.submission)
    return submission


async def _show_board(client: ScoregateClient, run: Run) -> None:
    page = await client.entries(run.board)
    for entry in page.entries:
        mine = "  <- you" if entry.player == run.player else ""
        print(f"{entry.rank:>3}  {entry.score / 100:>7.2f}  {entry.name}{mine}")


async def _main(url: str, player: str, played: DoomRun, patience_s: float) -> None:
    async with ScoregateClient(url) as client:
        await submit(client, player, played, patience_s=patience_s)


def main() -> int:
    """Return 0 if the demo was accepted, whatever its verdict; 1 if not; 2 for wrong arguments."""
    parser = argparse.ArgumentParser(description="Submit a Doom demo.")
    parser.add_argument("url", help="where the gateway is")
    parser.add_argument("player", help="the name on the board")
    parser.add_argument("demo", type=Path, help="an .lmp of the map of this example")
    parser.add_argument("--claim", type=int, metavar="HUNDREDTHS", help="a time of your own to claim")
    parser.add_argument(
        "--patience", type=float, default=30, metavar="S", help="how long to wait for a verdict"
    )
    arguments = parser.parse_args()
    try:
        played = DoomRun.read(arguments.demo)
        print(f"{played.centiseconds / 100:.2f} s, {CATEGORIES[played.stats['category']]}, says the engine")
        claimed = played.centiseconds if arguments.claim is None else arguments.claim
        claim = DoomRun(played.recording, played.ticks, claimed, played.stats)
        asyncio.run(_main(arguments.url, arguments.player, claim, arguments.patience))
    except (NotADemo, Fault, OSError, ScoregateError) as error:
        print(f"{arguments.demo}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
