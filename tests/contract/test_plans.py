"""No statement reads a whole table, board or log unless it is named here, with the reason why that is meant."""

from __future__ import annotations

import re

import asyncpg
import pytest
from sqlalchemy import select

from gateway.ledger.index_pages import is_listed
from gateway.ledger.schema import is_in, submissions
from gateway.ledger.transaction import Query
from policies.vocabulary import State
from tests.support import plans
from tests.support.postgres import PostgresServer

OPERATORS = "operators make its rows, some dozens of them"
LIMITED = "a page of a walk that goes on where it ended; what is left out on the way is looked at once"
SPAN = "a span of the log of a bounded length, which the caller moves on"
OF_ONE = "it sorts what one player, or one submission, has"
OF_BOARD = "the values of one board's fields, 16 at most"
ANCHORS = "one of a thousand standings, kept by the steward in bounded pieces"
BETWEEN = (
    "from one anchor to the next: up to 2,000 standings, or 4,000 where there are none, and the moves since"
)
SMALL_WINDOWS = "the first 251 standings of each of up to 64 windows"
PIECE = "a bounded piece, of one window, of the steward's work"
PIECE_OF_SLOTS = "a thousand slots, from one to another"
LEASES = "a row for each lane and duty, and for each steward: some hundreds, however large the deployment is"
NEWEST = "the first row from the end of an index"
FIRST_OF_KIND = "the first row of a kind, from the beginning of its part of an index"
AUDITED = "the whole ledger is audited"
LABELS = "a row for each policy file and each reason that something was ever held for"
WAITING = "what waits, which is its result; an outbox that is not short is what it is to tell"

MEANT = {
    "standings.noted_moves._OTHERS": ("coarse", "the standings of one group of ties, up to the first other"),
    "standings.noted_moves._DROPS[0]": ("coarse", ANCHORS),
    "standings.noted_moves._DROPS[1]": ("coarse", ANCHORS),
    "standings.anchors._ANCHORS": ("coarse", ANCHORS),
    "standings.anchors._LAST_FOLDED": ("coarse sort", PIECE),
    "standings.anchors._FORGET": ("coarse", PIECE),
    "standings.anchors._FOLD": ("coarse sort", PIECE),
    "archive.freezing._COPY": ("coarse sort", PIECE),
    "archive.freezing._OF_OTHER_RULE": ("coarse", "one window, once the steward has built it in vain again and again"),
    "archive.freezing._DELETE_ENTRIES": ("coarse", PIECE),
    "archive.freezing._DELETE_STANDINGS": ("coarse", PIECE),
    "archive.freezing._DELETE_LAST_STANDINGS": ("coarse", PIECE),
    "archive.reading._PAGE": ("coarse", "the ranks of a page, of which the index is"),
    "archive.windows._ALL": ("coarse", "the past windows of one board, for the steward and the commands"),
    "archive.windows._PENDING_IN": ("coarse", WAITING),
    "archive.windows._TO_FORGET": ("range sort", "long windows that are past their retention and still in the index"),
    "archive.windows._ENDED_AFTER": ("coarse", "the windows of one board that ended lately"),
    "archive.windows._READABLE": ("coarse sort", "the past windows of one board: one for each day and kind"),
    "derived.achievements._OF_PLAYER": ("sort", OF_ONE),
    "derived.counts._FORGET": ("scan", "a row for each board, when they are counted anew"),
    "derived.log._POSITIONS": ("coarse", "a row for each policy file, once a start"),
    "derived.log._UNSHOWN": ("coarse scan", "projections under way: what the index was not told of yet"),
    "derived.trends._FORGET": ("scan", "a row for each slot of a board, when they are filled anew"),
    "derived.trends._PRUNE": ("range", PIECE_OF_SLOTS),
    "moderation.bans._OF_PLAYER": ("sort", OF_ONE),
    **{f"moderation.bans._{name}": ("sort", OF_ONE)
       for name in ("COUNTING[ascending]", "COUNTING[descending]", "COUNTING[newest]", "BANNED[descending]", "BANNED[newest]")},
    "standings.banned_folds._LATEST": ("sort", OF_ONE),
    "moderation.bans._NEXT_END": ("scan", NEWEST),
    "players.merges._SOURCES": ("sort", "who was merged into one player, of whom there are few"),
    "players.merges._AT_WORK": ("range", "merges that submissions have to follow, and few of them wait for a board"),
    "moderation.bans._AT_WORK": ("range", "bans that submissions have to follow, and few of them wait for a board"),
    "leases._CLAIM": ("scan", LEASES),
    "leases._CLAIM_LANES": ("range scan", LEASES),
    "leases._LEASES": ("scan", LEASES),
    "leases._STEWARDS": ("scan", LEASES),
    "seals.chain._LIFE_OF": ("coarse", "the life of one board, for its proof"),
    "standings.rollup_history._LIVES": ("coarse", "the lives of boards that a rollup takes something of"),
    "standings.history._TURNS": ("coarse", SPAN),
    "standings.rollup_history._TURNS": ("range", SPAN),
    "index_pages._STANDINGS_COUNT": ("coarse", "a rebuild counts what it is about to read whole"),
    "index_pages._BUILDS_LISTED": ("sort", "the builds of up to 64 submissions"),
    "index_pages._NEWEST": ("scan", NEWEST),
    "judgement.audits._HANDED_OUT": ("coarse", WAITING),
    "boards.board_life._LIFE": ("coarse", "the life of one board: an event for each change"),
    "boards.field_filters._OF_BOARDS": ("coarse scan", "the values of up to 64 boards' fields, 16 of each"),
    "boards.field_filters._PLAYED": ("coarse", OF_BOARD),
    "boards.plays._RUNS": ("range", SPAN),
    "judgement.cases._SCORES": ("sort", OF_ONE),
    "seals.case_audit._CASES": ("scan", AUDITED),
    "seals.case_audit._COUNTED": ("scan sort", AUDITED),
    "seals.case_audit._KEPT": ("scan", LABELS),
    "moderation.checks._OPEN": ("scan", "the open checks, 200 at most, of which its index is"),
    "moderation.cases._COUNTS": ("scan", LABELS),
    "moderation.cases._VERSIONS": ("scan", LABELS),
    "judgement.builds._STATUSES": ("coarse scan", OPERATORS),
    "judgement.builds._OF_BOARD": ("coarse", OPERATORS),
    "judgement.learning._BUILDS": ("coarse", OPERATORS),
    "judgement.learning._RECENT_OF_PLAYER": ("sort", OF_ONE),
    "judgement.learning._ENDS_OF_BUILD": ("coarse", "each end alone, from the end of its index"),
    "judgement.board_history._LOG": ("range", SPAN),
    "judgement.board_history._LOG_OF_FAMILY": ("range", SPAN),
    "moderation.batches._NEXT_DUE": ("scan", "the first row of its index"),
    "moderation.selections._PROMOTED": ("range sort", LIMITED),
    "judgement.reverification._PROMOTED": ("coarse", LIMITED),
    "submissions.operations._COUNTING": ("sort", OF_ONE),
    "privacy.export._ON_BOARD": ("coarse", "the windows of one board, of each of them the first standing"),
    "queries._FOUND_BY_REPLAY": ("sort", OF_ONE),
    "queries._KEYS": ("scan", OPERATORS),
    "queries._COUNTING_OF": ("range", "an operator revokes a key, once: " + SPAN),
    "queries._REVOKED_BY": ("range", "an operator revokes a key, once: " + SPAN),
    "queries._NEWEST_SEQ": ("scan", NEWEST),
    "standings.across_boards._RANKED[unique]": ("coarse", SMALL_WINDOWS),
    "standings.across_boards._RANKED[sparse]": ("coarse", SMALL_WINDOWS),
    "standings.across_boards._RANKED[dense]": ("coarse sort", SMALL_WINDOWS),
    "standings.ranks._COUNT": ("coarse", BETWEEN),
    "standings.ranks._COUNT_GROUPS": ("coarse sort", BETWEEN),
    "standings.ranks._MOVED": ("coarse", BETWEEN),
    "standings.ranks._CAME": ("coarse", BETWEEN),
    "seals.chain._NEXT_ROWS": ("range", LIMITED),
    "seals.chain._LAST": ("scan", NEWEST),
    "seals.chain._SEALED_TO": ("scan", NEWEST),
    "derived.webhooks._ALL": ("scan sort", OPERATORS),
    "derived.webhooks._NEXT": ("coarse", FIRST_OF_KIND),
    "derived.webhooks._REMOVE_DELIVERIES": ("coarse", "an operator removes an endpoint, with what it was still to be told"),
    "derived.webhooks._RETRY": ("coarse", "an operator has dead deliveries tried again, all of an endpoint's"),
    "derived.webhooks._PRUNE": ("coarse", "the steward's, of deliveries that ended long ago"),
    "derived.webhooks._WAITING": ("scan", WAITING),
    "submissions.work._ELSEWHERE": ("range", LIMITED),
    "submissions.waiting._WAITING": ("scan sort", "the first ten thousand rows of the outbox, grouped by kind"),
    "submissions.work._BACKLOG": ("coarse", WAITING),
    "submissions.work._NEXT_FOR_WORKERS": ("coarse", FIRST_OF_KIND),
    "submissions.work._NEXT_OF_KIND": ("coarse", FIRST_OF_KIND),
    "derived.folded_rules._OF_OTHER_RULE": ("coarse", "a steward's, of a board whose policy has another rule"),
    "derived.lane_positions._OF_CONSUMER": ("coarse", "a row for each lane, when a consumer begins"),
    "derived.log._BOARDS": ("range sort", SPAN),
    "moderation.late_queues._COUNT": ("scan", "the boards that are late"),
    "moderation.late_queues._NEXT": ("scan", FIRST_OF_KIND),
    "moderation.late_queues._LATE": ("scan", "the boards that are late, a thousand at most"),
    "derived.log._BY_MODERATORS": ("range", SPAN),
    "standings.rollups._PLAYERS": ("coarse range sort", OPERATORS),
    "standings.rollups._POINTS": ("sort", OF_ONE),
    **{f"standings.rollups._shares[{take},{order}]": ("sort", OF_ONE)
       for take in ("sum", "best", "count") for order in ("ascending", "descending")},
    **{f"standings.counting._counting[{operator},{order}]": ("sort", OF_ONE)
       for operator in ("best", "sum", "count") for order in ("ascending", "descending")},
}  # fmt: skip
"""What may be said against a plan, and why it is meant."""


def not_meant(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is to be said against plans, but for what is meant."""
    left = {name: faults - set(MEANT.get(name, ("", ""))[0].split()) for name, faults in found.items()}
    return {name: faults for name, faults in left.items() if faults}


@pytest.mark.parametrize("has_statistics", [False, True])
def test_F01_no_statement_scans_on_sqlite(*, has_statistics: bool):
    """As SQLite plans without statistics, and with those of a million rows."""
    assert {} == not_meant(plans.faults_of_sqlite(has_statistics=has_statistics))


async def test_F01_no_statement_scans_on_postgres_and_none_is_meant_in_vain(postgres_server: PostgresServer):
    """By the statistics of a million rows; what is named above is still found by one database or the other."""
    async with postgres_server.database() as name:
        connection = await asyncpg.connect(postgres_server.url(name))
        try:
            await plans.fill_postgres(connection)
            found = await plans.faults_of_postgres(connection)
        finally:
            await connection.close()
    assert {} == not_meant(found)
    every = [
        found,
        plans.faults_of_sqlite(has_statistics=False),
        plans.faults_of_sqlite(has_statistics=True),
    ]
    seen = {(name, fault) for each in every for name, faults in each.items() for fault in faults}
    assert set() == {(name, each) for name, (faults, _) in MEANT.items() for each in faults.split()} - seen


async def test_F01_no_log_without_statistics_is_walked_from_its_end(postgres_server: PostgresServer):
    """For the newest event of one submission: the key goes there without a sort, and may pass all events on its way."""
    async with postgres_server.database() as name:
        connection = await asyncpg.connect(postgres_server.url(name))
        try:
            assert [] == await plans.walks_from_the_end(connection)
        finally:
            await connection.close()


def test_F01_what_walks_a_span_of_the_log_has_both_its_ends():
    """However few rows match, no read walks further than its span: an end is bound, and no count of rows alone."""
    known = plans.statements()
    spans = [name for name, (_, why) in MEANT.items() if SPAN in why]
    assert {"derived.log._BOARDS", "queries._COUNTING_OF", "queries._REVOKED_BY"} < set(spans)
    assert [] == [name for name in spans if not re.search(r"seq <= :\w+", known[name].sqlite)]


def test_F01_a_statement_that_takes_the_index_of_a_board_is_seen(monkeypatch: pytest.MonkeyPatch):
    """The plan that once read a whole board for the details of one submission is refused here."""
    s = submissions.c
    bad = Query(select(s.stats).where(is_listed(s.submission_id), s.board == "vault", is_in(State.PROMOTED)))
    whole = Query(select(s.stats).where(s.nonce == "x"))
    monkeypatch.setattr(plans, "statements", lambda: {"bad": bad, "whole": whole})
    assert {"bad": {"coarse"}, "whole": {"scan"}} == not_meant(plans.faults_of_sqlite(has_statistics=False))


def test_F01_every_statement_is_one_that_is_planned():
    """None is made while a request is served, but by functions whose every result is planned; no other text is sent.

    What sends text of its own begins and ends transactions, looks at the schema, marks and copies whole files or tables, shortens the log of
    a file, or appends by the primary key, by the unique index of submission ids, and by the newest event.
    """
    at_start = {"standings.anchors._fold", "archive.freezing._copy", "judgement.learning._readings"}
    known = plans.MADE_BY_FUNCTIONS | {f"gateway.ledger.{each}" for each in at_start}
    assert known == plans.makers()
    named = (
        "copying",
        "definition",
        "group_commit",
        "migrate",
        "postgres.store",
        "postgres.transaction",
        "postgres.writer",
        "shape",
        "sqlite.copy_mark",
        "sqlite.reads",
        "sqlite.store",
        "sqlite.transaction",
        "sqlite.write_ahead_log",
        "sqlite.writer",
    )
    assert {f"gateway.ledger.{each}" for each in named} == plans.speakers()
