"""No statement sees, or changes, more than it is asked for: another board's, another player's, what is in another state.

What each may see stands in `what_statements_see.yaml`. The statements are the same on either database but for their
dialect, and are tried on SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support import ordering, strangers
from tests.support.strangers import BOARD_STATES, DELIVERIES, KINDS, STAGES, STATES, World

KNOWN: Mapping[str, Any] = YAML(typ="safe").load(Path(__file__).with_name("what_statements_see.yaml"))

VALUES = {
    "submissions.state": STATES,
    "events.to_state": STATES,
    "outbox.kind": KINDS,
    "deliveries.state": DELIVERIES,
    "archived_windows.stage": STAGES,
    "boards.state": BOARD_STATES,
}

OF_EVERY_BOARD = {
    **{
        f"boards.listing.{pages}[{order}]": "which boards a family has"
        for pages in ("_PAGES", "_CANDIDATES")
        for order in ("name", "newest", "played")
    },
    "boards.filter_filling._NEXT": "which boards a family has",
    "boards.board_life._BOARDS": "the whole ledger is audited",
    "boards.lookups._NAMES": "which boards a family has",
    "boards.lookups._TO_CLOSE": "what is due in some lanes",
    "seals.case_audit._CASES": "the whole ledger is audited",
    "seals.case_audit._COUNTED": "the whole ledger is audited",
    "seals.case_audit._HELD": "the whole ledger is audited",
    "moderation.late_queues._COUNT": "every late board",
    "moderation.late_queues._LATE": "which of a moderator's boards each is of is looked at after the read",
    "moderation.queue._AGED": "the counts of a family",
    "moderation.queue._IN_ORDER": "the queue of who moderates every board",
    "moderation.queue._OF_LABEL": "the queue of a family",
    "moderation.queue._OF_PLAYER": "a player's cases, of which a moderator is shown those within reach",
    "derived.achievements._OF_PLAYER": "a player's achievements, wherever they are",
    "derived.counts._FORGET": "all boards are counted anew",
    "derived.counts._LISTED": "every board that was counted, for an operator",
    "derived.log._AFTER": "the log of all boards, in its order",
    "derived.log._BY_MODERATORS": "the log of all boards, in its order",
    "derived.log._POSITIONS": "how far each policy file was seen",
    "derived.lane_positions._OF_CONSUMER": "the positions of one consumer in all lanes",
    "derived.log._BOARDS": "the log of all boards, which it tells apart",
    "derived.log._PLAYERS": "the log of all boards, in its order",
    "derived.log._UNSHOWN": "how far the log was shown",
    "derived.trends._FORGET": "all trends are told anew",
    "derived.trends._PRUNE": "slots of every board grow old",
    "archive.windows._AT_WORK": "the boards that are due",
    "archive.windows._TO_FORGET": "the boards that are due",
    "archive.windows._TO_THIN": "the boards that are due",
    "derived.board_duties._DUE": "the boards that are due",
    "standings.anchors._ANCHORED": "anchored windows in turn, whatever their board",
    "index_pages._NEWEST": "the newest event there is",
    "judgement.audits._HANDED_OUT": "workers are everybody's",
    "players.player_names._BOARDS_PLAYED": "which of a moderator's boards each is of is looked at after the read",
    "moderation.player_submissions._SUBMISSIONS": "which of a moderator's boards each is of is looked at after the read",
    "moderation.labels._BETWEEN": "the whole ledger is audited",
    "moderation.labels._BY_MODERATORS": "the whole ledger is audited",
    "moderation.labels._NEWEST": "figures for who moderates every board",
    "moderation.labels._NEWEST_OF_LABEL": "figures for a family",
    "moderation.waiting_cases._OF_LABEL": "figures for a family",
    "moderation.checks._LONGEST": "how long the cases of a family wait",
    "moderation.surroundings._OF_PLAYER": "which of a moderator's boards each is of is looked at after the read",
    "moderation.bans._TO_REINSTATE": "the boards in the scope of a ban",
    "moderation.bans._TO_REVOKE": "the boards in the scope of a ban",
    **{
        f"privacy.{name}": "what the ledger has of a player, wherever"
        for name in (
            "export._SUBMISSIONS",
            "export._TABLES[achievements]",
            "export._TABLES[memberships]",
            "export._TABLES[joins]",
            "export._TABLES[join_changes]",
            "erased_texts._FORGET[4]",
            "erased_texts._SUBMISSIONS",
        )
    },
    **{f"players.merges.{name}": "what a player has played, wherever" for name in ("_TO_MOVE", "_TO_RETURN")},
    "moderation.batch_items._ITEMS": "a batch is of several boards",
    **{
        f"moderation.selections.{name}": "what is selected is looked at after the read"
        for name in ("_BANNED", "_HELD", "_REVOKED", "_PROMOTED", "_OF_PLAYER")
    },
    "moderation.trail._OF_ALL": "which of a moderator's boards each event is of is looked at after the read",
    "moderation.trail._OF_ONE": "which of a moderator's boards each event is of is looked at after the read",
    "judgement.builds._STATUSES": "an edge knows every build",
    "judgement.expiry._LOG": "the log of all boards, in its order",
    "judgement.board_history._LOG_OF_FAMILY": "the boards of a family, between two names",
    "judgement.expiry._USES": "a recording may have been sent to several",
    "judgement.reveals._OF_PLAYER": "what a player is asked for, wherever",
    "queries._COUNTING_OF": "what a stolen key wrote, wherever",
    "queries._NEWEST_SEQ": "the newest event there is",
    "queries._REVOKED_BY": "what an operator revoked, wherever",
    "seals.audit._STATES": "the whole ledger is sealed, and audited",
    "seals.chain._FIRST_ROWS": "the whole ledger is sealed, and audited",
    "seals.chain._NEXT_ROWS": "the whole ledger is sealed, and audited",
    "seals.chain._SINCE": "the whole ledger is sealed, and audited",
    "standings.rollup_history._TURNS": "the boards of a family",
    "standings.rollup_borders._NEXT": "the borders of a rollup in turn, whatever their board",
    "standings.rollup_points._DUE": "what was changed on any board",
    "standings.rollup_points._FORGET": "a player's points on all boards of a family",
    "standings.rollups._POINTS": "a player's points on all boards of a family",
    "submissions.waiting._WAITING": "what waits, whatever its board",
    "submissions.work._BACKLOG": "what waits for workers, which are everybody's",
    "submissions.work._DUE": "what waits for workers, which are everybody's",
    "submissions.work._NEXT_FOR_WORKERS": "what waits for workers, which are everybody's",
    "submissions.work._NEXT_OF_KIND": "what waits, whatever its board",
}

BESIDE = {"order_value": "member", "plays": "board", "opens_at_ms": "board"}
"""Columns of text that are compared together with a number."""

OF_EVERY_WINDOW = {
    "boards.board_opening._TRACED": "a board was played on in any of its windows",
    "archive.windows._AT_WORK": "the boards that are due",
    "archive.windows._TO_FORGET": "the boards that are due",
    "archive.windows._TO_THIN": "the boards that are due",
    "derived.board_duties._DUE": "the boards that are due",
    "standings.anchors._ANCHORED": "anchored windows in turn, whatever their board",
    "archive.windows._ALL": "which windows of a board are archived",
    "archive.windows._ENDED_AFTER": "which windows of a board a late change concerns",
    "whole_boards._FIRST_STANDINGS": "all of a board that the index has",
    "archive.windows._READABLE": "which windows of a board can be read",
    "derived.achievements._OF_PLAYER": "a player's achievements, wherever they are",
    "privacy.export._ON_BOARD": "what a player has on a board, in whatever window",
    "privacy.export._TABLES[achievements]": "a player's achievements, wherever they are",
    "standings.rollup_borders._NEXT": "the borders of a rollup in turn, whatever their window",
    "standings.rollup_points._DUE": "what was changed in any window",
    "standings.rollups._WINDOWS": "which windows of a board rollups follow",
}


ALL_THE_SAME = {
    ("archive.freezing._COPY", "archived_entries"): "it puts its rows there",
    (
        "submissions.operations._COUNTING",
        "server_operations",
    ): "only a version that is too high hides what is counted",
    ("moderation.cases._ASSESS", "cases"): "the case is assessed",
    ("moderation.late_queues._SET", "cases"): "the case has its deadline",
    ("moderation.late_queues._DUE", "cases"): "the deadline has a mark that none has",
    **{
        (f"moderation.late_queues.{name}", "case_targets"): "the deadline has a mark that none has"
        for name in ("_DUE", "_NEXT", "_ANY_LATE")
    },
    ("moderation.checks._OPEN", "cases"): "the case is no check",
    ("moderation.cases._UNASSESSED", "cases"): "the case is assessed",
    (
        "submissions.operations._BANNED",
        "server_operations",
    ): "only a version that is too high hides what is counted",
    ("moderation.labels._OVERTURN", "labels"): "the decision is overturned already",
    ("privacy.erasures._DUE", "erasures"): "the erasure has ended",
    ("privacy.erased_texts._MERGES", "friends"): "it is a column of merges there",
    ("seals.erased._LEAVES", "events"): "the event is no erasure's",
    ("seals.erased._LEAVES", "erased_rows"): "the event is no erasure's",
    ("privacy.erased_texts._OWN_EVENTS", "events"): "the event is of a submission",
    ("privacy.export._EVENTS", "events"): "the event is of a submission",
    ("leases._CLAIM", "stewards"): "the lease has no owner, and would have none without the steward",
    ("leases._CLAIM_LANES", "leases"): "the lease is of a duty",
    ("leases._CLAIM_LANES", "stewards"): "the lease is of a duty",
    **{
        (f"standings.rollups._shares[{take},{order}]", "boards"): "only a deleted board is no share"
        for take in ("sum", "best", "count")
        for order in ("ascending", "descending")
    },
    ("derived.board_duties._PUT_ANCHOR", "standings"): "the window has anchors",
    ("derived.board_duties._PUT_ANCHOR", "anchored_windows"): "the window has standings",
    ("standings.anchors._FOLD", "rank_anchors"): "a move at its very place is not ahead of an anchor",
    ("standings.anchors._FOLD", "rank_moves"): "a move at its very place is not ahead of an anchor",
}
"""What a statement names, and does not see the one row of."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with closing(World()) as made:
        yield made


def named(statements: Mapping[str, list[str]]) -> set[str]:
    """The statements of some modules."""
    return {f"{module}.{name}" for module, names in statements.items() for name in names}


def test_every_statement_sees_the_row_that_it_is_asked_for(world: World):
    """In each table that it names, and in one state or another; else what follows would say nothing of it."""
    assert set(ALL_THE_SAME) == world.blind()


def test_what_is_asked_of_a_board_says_nothing_of_others(world: World):
    """Nor does what is done on a board change another, whatever has the same player, window, or number there."""
    assert set(OF_EVERY_BOARD) == world.that_see_strangers("board")


def test_what_is_asked_of_a_window_says_nothing_of_others(world: World):
    """Nor does what is done in a window change another of the board."""
    assert set(OF_EVERY_WINDOW) == world.that_see_strangers("window")


@pytest.mark.parametrize("column", KNOWN["of_one"])
def test_what_is_asked_of_one_says_nothing_of_others(world: World, column: str):
    """Of one player, one build, one revision, one webhook, one kind of work, and whatever else has a name or number."""
    wanted = named(KNOWN["of_one"][column])
    assert set() == wanted - strangers.asked().keys()
    assert set() == wanted & world.that_see_strangers(column)


@pytest.mark.parametrize("column", ["board", "window", *KNOWN["of_one"]])
def test_what_is_not_there_is_not_found_in_a_stranger(world: World, column: str):
    """Where nothing is what was asked for, nothing is seen; a row that is given alone would hide that others are, too."""
    of_every = {"board": OF_EVERY_BOARD, "window": OF_EVERY_WINDOW}
    if column in of_every:
        wanted = strangers.asked().keys() - of_every[column].keys()
    else:
        wanted = named(KNOWN["of_one"][column])
    known = named(KNOWN["in_place_of_one"].get(column, {}))
    assert known == wanted & world.that_see_strangers(column, at_home=False)


@pytest.mark.parametrize("column", KNOWN["sees_only"])
def test_what_is_in_another_state_is_not_seen(world: World, column: str):
    """What waits, counts, is held or has ended is taken for nothing else, and work of one kind for no other."""
    table, name = column.split(".")
    wanted = {each: states for states, found in KNOWN["sees_only"][column].items() for each in named(found)}
    seen = world.seen(table, name, VALUES[column])
    assert wanted == {each: states for each, states in seen.items() if states.split() != list(VALUES[column])}


@pytest.mark.parametrize("column", [*KNOWN["only_with"], *KNOWN["only_without"]])
def test_what_has_been_emptied_is_not_seen(world: World, column: str):
    """A standing whose last run was revoked has no rank and hides nobody; a key is revoked once, a webhook disabled once."""
    table, name = column.split(".")
    value = strangers.value_in(table, name, {})
    seen = world.seen(table, name, (None, value))
    only = {
        "None": named(KNOWN["only_without"].get(column, {})),
        str(value): named(KNOWN["only_with"].get(column, {})),
    }
    assert only == {each: {one for one, found in seen.items() if found == each} for each in only}


@pytest.mark.parametrize("column", KNOWN["ends"])
def test_what_stands_at_the_end_of_a_span_is_in_one_span(world: World, column: str):
    """A page begins behind the last of the one before; the last instant of a window is not the first of the next."""
    table, name = column.split(".")
    wanted = {each: ends for ends, found in KNOWN["ends"][column].items() for each in named(found)}
    found = world.ends(table, name, beside=BESIDE.get(name, ""))
    assert wanted == {each: ends for each, ends in found.items() if ends not in {"", "()"}}


def test_what_is_written_changes_what_it_is_meant_to(world: World):
    """A lease counts an attempt, a standing that is put again is all new, and what is there once stays as it is."""
    wanted = {
        f"{module}.{name}": columns
        for module, found in KNOWN["changes"].items()
        for name, columns in found.items()
    }
    changes = world.changes()
    del changes["standings.anchors._FOLD"]  # it adds what is ahead of an anchor, and here nothing is
    assert wanted == changes


@pytest.mark.parametrize("module", KNOWN["order"])
def test_the_order_of_an_answer_does_not_hang_on_where_rows_lie(module: str):
    """A page goes on where the one before ended, the longest waiting is first, and of equals the same one each time."""
    given = {
        name: ordering.order_of(f"{module}.{name}", keys) for name, keys in KNOWN["order"][module].items()
    }
    assert {name: due for name, (_, due) in given.items()} == {
        name: found for name, (found, _) in given.items()
    }
