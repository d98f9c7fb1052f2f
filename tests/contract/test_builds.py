"""The kill switch on every ledger: changes are only added, and the newest holds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.ledger.judgement.builds import (
    BuildChange,
    build_changes_of,
    build_statuses,
    restrict_build,
    set_build_status,
)
from gateway.ledger.ledger import Ledger
from policies.replaying import BuildStatus
from tests.support.stores import Store, open_in

ALLOW, PROVISIONAL, BLOCKED = BuildStatus


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def a_change(status: BuildStatus, build: str = "b1", board: str = "tiny", at_ms: int = 1) -> BuildChange:
    return BuildChange(board, build, status, "operator", f"made it {status}", at_ms)


async def test_the_newest_change_holds_and_every_one_is_kept(ledger: Ledger):
    """Back and forth, with another board's build of the same name beside it."""
    changes = [a_change(BLOCKED, at_ms=1), a_change(ALLOW, at_ms=2), a_change(PROVISIONAL, at_ms=2)]
    for each in [*changes, a_change(BLOCKED, board="huge"), a_change(BLOCKED, "b0")]:
        assert await ledger.write(set_build_status(each))

    assert {
        ("tiny", "b1"): PROVISIONAL,
        ("tiny", "b0"): BLOCKED,
        ("huge", "b1"): BLOCKED,
    } == await ledger.read(build_statuses())
    assert [a_change(BLOCKED, "b0"), *changes] == await ledger.read(build_changes_of("tiny"))


async def test_a_change_to_what_already_holds_is_none(ledger: Ledger):
    """Said twice, it stands in the ledger once."""
    assert await ledger.write(set_build_status(a_change(BLOCKED)))
    assert not await ledger.write(set_build_status(a_change(BLOCKED, at_ms=9)))

    assert [a_change(BLOCKED)] == await ledger.read(build_changes_of("tiny"))


@pytest.mark.parametrize(
    ("held", "declared", "expected"),
    [
        (None, ALLOW, True),
        (None, PROVISIONAL, False),
        (None, BLOCKED, False),
        (ALLOW, BLOCKED, True),
        (BLOCKED, ALLOW, False),
        (PROVISIONAL, ALLOW, False),
    ],
)
async def test_what_restricts_by_itself_never_loosens(
    ledger: Ledger, held: BuildStatus | None, declared: BuildStatus, expected: bool
):
    """A build that is blocked, by an operator or by its policy, is not made provisional by an audit."""
    if held:
        await ledger.write(set_build_status(a_change(held)))

    assert expected == await ledger.write(restrict_build(a_change(PROVISIONAL), declared=declared))
    statuses = await ledger.read(build_statuses())
    assert (PROVISIONAL if expected else held) == statuses.get(("tiny", "b1"))


async def test_a_change_is_never_changed_or_removed(ledger: Ledger, store: Store):
    """Neither database lets a row of it go, or be another."""
    await ledger.write(set_build_status(a_change(BLOCKED)))

    for statement in ("UPDATE build_changes SET status = 'allow'", "DELETE FROM build_changes"):
        with pytest.raises(store.refusals, match="append-only"):
            await store.sql(statement)
    assert {("tiny", "b1"): BLOCKED} == await ledger.read(build_statuses())
