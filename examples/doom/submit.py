"""Submits a Doom demo to a gateway, as a port of the game would, and shows what became of it.

    python examples/doom/submit.py http://127.0.0.1:8080 Ada examples/doom/demos/straight.lmp

The claim is what the engine says of the demo on this machine; `--claim` claims another time, for who wants to see that
refused. A port opens its run when the recording begins. This program has the recording already, so it waits for as long
as the run took: runs that took less time than they lasted are not believed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scoregate_client import Run, ScoregateClient, ScoregateError, Submission
from verify import CATEGORIES, TICS_PER_S, Fault, NotADemo, Verifier, without_footer

FILES = Path(__file__).resolve().parent / "files"
BOARD, BUILD = "doom-hall", "hall-1"
UNSETTLED = {"received", "pending"}
LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Played:
    """A demo, and what the engine says of it."""

    recording: bytes
    ticks: int
    centiseconds: int
    stats: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> Played:
        """The demo at `path`. Raises NotADemo, Fault, or OSError where there is no such file."""
        recording = without_footer(path.read_bytes())
        said = Verifier(FILES).judge(recording)
        if not said["is_over"]:
            raise NotADemo("it does not finish the level")
        return cls(recording, said["ticks"], said["score"], said["stats"])


async def submit(client: ScoregateClient, player: str, played: Played, *, patience_s: float) -> None:
    """Opens a run, submits the demo, waits for the verdict and prints the board."""
    await client.create_player(player)
    run = await client.open_run(BOARD, BUILD)
    await asyncio.sleep(played.ticks / TICS_PER_S)
    sent = await client.submit(run, played.centiseconds, played.ticks, played.stats, played.recording)
    print(f"submission {sent.submission}", flush=True)
    settled = await _settled(client, sent, patience_s)
    print(settled.state if settled.reason in {None, "none"} else f"{settled.state} ({settled.reason})")
    await _show_board(client, run)


async def _settled(client: ScoregateClient, sent: Submission, patience_s: float) -> Submission:
    """The submission once it is judged, or as it stands when patience ends."""
    deadline = time.monotonic() + patience_s
    while sent.state in UNSETTLED and time.monotonic() < deadline:
        await asyncio.sleep(LOOK_EVERY_S)
        sent = await client.submission(sent.submission)
    return sent


async def _show_board(client: ScoregateClient, run: Run) -> None:
    page = await client.entries(run.board)
    for entry in page.entries:
        mine = "  <- you" if entry.player == run.player else ""
        print(f"{entry.rank:>3}  {entry.score / 100:>7.2f}  {entry.name}{mine}")


async def _main(url: str, player: str, played: Played, patience_s: float) -> None:
    async with ScoregateClient(url) as client:
        await submit(client, player, played, patience_s=patience_s)


def main() -> int:
    """0 once the demo was taken, whatever became of it; 1 if it could not be submitted; 2 for wrong arguments."""
    parser = argparse.ArgumentParser(description="Submit a Doom demo.")
    parser.add_argument("url", help="where the gateway is")
    parser.add_argument("player", help="the name on the board")
    parser.add_argument("demo", type=Path, help="an .lmp of the map of this example")
    parser.add_argument("--claim", type=int, metavar="HUNDREDTHS", help="a time of your own to claim")
    parser.add_argument(
        "--patience", type=float, default=30, metavar="S", help="how long to wait for a verdict"
    )
    given = parser.parse_args()
    try:
        played = Played.read(given.demo)
        print(f"{played.centiseconds / 100:.2f} s, {CATEGORIES[played.stats['category']]}, says the engine")
        claimed = played.centiseconds if given.claim is None else given.claim
        claim = Played(played.recording, played.ticks, claimed, played.stats)
        asyncio.run(_main(given.url, given.player, claim, given.patience))
    except (NotADemo, Fault, OSError, ScoregateError) as error:
        print(f"{given.demo}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
