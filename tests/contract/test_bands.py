"""The index of recordings on every ledger: who shares bands is found once, bounded, and whatever came of it in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.ledger.judgement.bands import (
    MOST_BANDS,
    MOST_IN_BUCKET,
    MOST_NEIGHBOURS,
    BandedRecording,
    Neighbour,
    put_and_find,
)
from gateway.ledger.ledger import Ledger
from gateway.ledger.queries import submission
from policies.vocabulary import State
from tests.support.ledger import new_submission
from tests.support.stores import Store, open_in

LARGE = 2**63 - 1


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def a_run(
    ledger: Ledger, name: str, *, state: State = State.PENDING, board: str = "tiny", player: str | None = None
) -> int:
    """The number of a new submission."""
    player = player or f"of-{name}"
    await ledger.append(
        new_submission(name, recording=name.encode(), state=state, board=board, player=player)
    )
    found = await ledger.read(submission(name))
    assert found is not None
    return found.seq


async def put(ledger: Ledger, seq: int, bands: Sequence[int], board: str = "tiny") -> list[Neighbour]:
    [found] = await ledger.write(put_and_find([BandedRecording(board, seq, bands)]))
    return found


async def rows_of(store: Store) -> int:
    [[count]] = await store.sql("SELECT count(*) FROM recording_bands")
    return int(count)


async def test_who_shares_most_bands_is_first(ledger: Ledger):
    """With its submission, player and recording; negative numbers and the largest are bands like others."""
    one, two, three = [await a_run(ledger, name) for name in ("one", "two", "three")]
    await put(ledger, one, [-1, -2, 5])
    await put(ledger, two, [-1, LARGE, 6])
    found = await put(ledger, three, [-1, LARGE, 6])

    assert [("two", "of-two", b"two", 3), ("one", "of-one", b"one", 1)] == [
        (each.submission_id, each.player, each.recording.body, each.shared) for each in found
    ]
    assert [] == await put(ledger, await a_run(ledger, "four"), [7, 8])
    assert [] == await put(ledger, await a_run(ledger, "none"), [])


async def test_boards_are_apart(ledger: Ledger):
    """The same recording on two boards may be one player's own, for each."""
    await put(ledger, await a_run(ledger, "here"), [1, 2, 3])

    assert [] == await put(ledger, await a_run(ledger, "there", board="huge"), [1, 2, 3], "huge")


async def test_of_two_alike_one_finds_the_other(ledger: Ledger):
    """Whatever their order in a job, and if two workers put them at the same time."""
    numbers = [await a_run(ledger, name) for name in ("a", "b", "c", "d")]
    both = await ledger.write(
        put_and_find([BandedRecording("tiny", seq, [1, 2]) for seq in reversed(numbers[:2])])
    )
    apart = await asyncio.gather(*(put(ledger, seq, [3, 4]) for seq in numbers[2:]))

    assert [[], ["b"]] == [[each.submission_id for each in found] for found in both]
    assert [[], 1] == sorted((len(found) or [] for found in apart), key=bool)


async def test_putting_again_changes_nothing(ledger: Ledger, store: Store):
    """A worker that died after it comes again, and finds what it found."""
    one, two = await a_run(ledger, "one"), await a_run(ledger, "two")
    await put(ledger, one, [1, 2, 3])
    first = await put(ledger, two, [2, 3, 4])
    before = await rows_of(store)

    assert first == await put(ledger, two, [2, 3, 4])
    assert (6, 6) == (before, await rows_of(store))


async def test_what_was_rejected_is_no_neighbour(ledger: Ledger):
    """It is in the index, and proves nothing."""
    await put(ledger, await a_run(ledger, "gone", state=State.REJECTED), [1, 2])
    await put(ledger, await a_run(ledger, "held", state=State.HELD), [1])
    found = await put(ledger, await a_run(ledger, "new"), [1, 2])

    assert ["held"] == [each.submission_id for each in found]


async def test_P02_a_flood_of_equal_recordings_does_not_make_the_index_grow(ledger: Ledger, store: Store):
    """A bucket is full at some point, the original stays in it, and few are looked at."""
    flood = [await a_run(ledger, f"copy-{number:03}") for number in range(MOST_IN_BUCKET + 10)]
    await ledger.write(put_and_find([BandedRecording("tiny", seq, [1, 2]) for seq in flood]))
    found = await put(ledger, await a_run(ledger, "new"), [1, 2, 3])

    assert 2 * MOST_IN_BUCKET + 1 == await rows_of(store)
    assert [f"copy-{number:03}" for number in range(MOST_NEIGHBOURS)] == [
        each.submission_id for each in found
    ]


async def test_P02_a_flood_of_rejected_copies_hides_nothing(ledger: Ledger, store: Store):
    """Who fills a bucket with runs that are rejected on purpose does not keep later ones out of it; elsewhere they stay."""
    flood = [await a_run(ledger, f"junk-{number}", state=State.REJECTED) for number in range(MOST_IN_BUCKET)]
    await ledger.write(put_and_find([BandedRecording("tiny", seq, [1, 2]) for seq in flood]))
    await ledger.write(put_and_find([BandedRecording("tiny", flood[0], [3])]))
    first = await put(ledger, await a_run(ledger, "bot"), [1, 2, 3])
    found = await put(ledger, await a_run(ledger, "the bot again"), [1, 2, 3])

    assert ([], ["bot"]) == (first, [each.submission_id for each in found])
    assert 2 * 3 + 1 == await rows_of(store)


async def test_P02_a_players_own_runs_hide_nobody_elses(ledger: Ledger):
    """However many of the player's are nearer, the nearest of other players are looked at too."""
    victim = await a_run(ledger, "victim")
    await put(ledger, victim, [1])
    own = [await a_run(ledger, f"own-{number}", player="thief") for number in range(MOST_NEIGHBOURS + 1)]
    await ledger.write(put_and_find([BandedRecording("tiny", seq, [1, 2, 3], "thief") for seq in own[:-1]]))
    [found] = await ledger.write(put_and_find([BandedRecording("tiny", own[-1], [1, 2, 3], "thief")]))

    assert [*(f"own-{number}" for number in range(MOST_NEIGHBOURS)), "victim"] == [
        each.submission_id for each in found
    ]


async def test_more_bands_than_go_in_are_refused(ledger: Ledger):
    """A statement has room for so many; leaving some out unseen would be worse."""
    seq = await a_run(ledger, "one")
    with pytest.raises(ValueError, match="at most 32 bands"):
        await put(ledger, seq, range(MOST_BANDS + 1))
