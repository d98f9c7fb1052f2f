"""Folding boards anew by another rule, with a ledger in memory: who notes what, and when, whoever else is at work."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.rules_in_force import noted_name, rule_in_force
from gateway.ledger.derived.folded_rules import (
    BegunFold,
    RuleNotes,
    end_fold,
    mark_all,
    mark_changed,
    noted_rules,
)
from gateway.ledger.transaction import Operation
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, receive
from gateway.steward import rule_changes
from gateway.steward.archive import refold as refolding
from gateway.steward.archive.refold import refold_board
from gateway.steward.rule_changes import RuleKeeper
from policies.errors import IndexUnavailable, LeaseLost, LedgerUnavailable, RebuildRefused, ScoregateError
from policies.loader import Board, Policies, load_policies
from policies.opened_board import OpenedBoard
from policies.vocabulary import Claim, Reason, State
from tests.support.books import Books
from tests.support.ledger import NOON_MS, new_submission
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.thorough import seeds

T = TypeVar("T")
TRACKS = ("track.a", "track.b")
BOARDS = (*TRACKS, "vault", "world")
RUNS = [("vault", "ada"), ("track.a", "ada"), ("track.a", "bob"), ("track.b", "ada")]


def policies_in(folder: Path, operator: str, *, world: bool = True) -> Policies:
    """A board, a family, and a rollup that adds up the family."""
    how = {"operator": operator, "score": {"minimum": 0, "maximum": 2**40}}
    files = [a_policy("vault", **how), a_family(**how)]
    files += [{"board": "world", "title": "World", "rollup": {"family": "track"}}] if world else []
    return load_policies(write_policies(folder / f"{operator}-{world}", *files))


class KilledError(Exception):
    """A process that was killed."""


async def nothing(_: object) -> None:
    """Happens in between."""


class Deployment:
    """A ledger with two runs of each player, and the stewards and commands that fold it."""

    def __init__(self, folder: Path) -> None:
        self.best, self.sum = policies_in(folder, "best"), policies_in(folder, "sum")
        self.without = policies_in(folder, "sum", world=False)
        self.books = Books(self.board(self.best, "vault"))
        self.built: list[str] = []
        self.before_write: Callable[[RuleKeeper | str], Awaitable[None]] = nothing
        self.runs = 0
        for name, player in RUNS:
            for score in (10, 25):
                self.play(self.best, name, player, score)

    def board(self, policies: Policies, name: str) -> Board:
        if name in policies.boards:
            return policies.boards[name]
        return policies.families["track"].board(OpenedBoard(name, "track", name))

    def play(self, policies: Policies, name: str, player: str, score: int) -> None:
        run, board = f"run-{self.runs}", self.board(policies, name)
        self.runs += 1
        new = new_submission(run, player=player, at_ms=NOON_MS + self.runs, score=score, recording=None)
        self.books.do(
            lambda tx: receive(
                tx, new._replace(submission=new.submission._replace(claim=Claim(score, 1), board=board.name))
            )
        )
        decision = Decision(
            run, State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS + self.runs, frozenset(State)
        )
        self.books.do(_decide_all(board, [decision]))

    def keeper(self, policies: Policies) -> RuleKeeper:
        """A steward's."""

        async def opened(names: Any) -> dict[str, OpenedBoard]:
            return {name: OpenedBoard(name, "track", name) for name in names}

        ledger: Any = _Ledger(self)
        index: Any = None
        keeper = RuleKeeper(ledger, index, Catalogue(policies, opened), clock=lambda: NOON_MS)
        ledger.actor = keeper
        return keeper

    async def follow(self, keeper: RuleKeeper) -> None:
        """All that there is to follow."""
        while await keeper.step():
            pass

    async def command(self, policies: Policies, name: str) -> None:
        """`board refold`, but for the rebuild."""
        ledger: Any = _Ledger(self)
        ledger.actor = f"refold {name}"
        rule, board = rule_in_force(policies, noted_name(name)), self.board(policies, name)
        assert rule
        family = policies.families["track"] if name == "world" else None
        policy, marking = board.policy, mark_changed(rule)
        await refold_board(
            ledger, policy, clock=lambda: NOON_MS, tell=lambda _: None, family=family, marking=marking
        )

    @property
    def notes(self) -> RuleNotes:
        return self.books.do(noted_rules())

    def is_noted(self, policies: Policies, name: str) -> bool:
        """Whether readers with these policies read it."""
        rule = rule_in_force(policies, name)
        return bool(rule) and self.notes.numbers.get(name) == rule.number

    def standings(self, *names: str) -> dict[tuple[str, str], int]:
        rows = self.books.rows("SELECT board, player, score FROM standings WHERE score IS NOT NULL")
        return {(board, player): score for board, player, score in rows if board in names}

    def expected(self, policies: Policies, *names: str) -> dict[tuple[str, str], int]:
        """The same by the runs."""
        rows = self.books.rows(
            "SELECT board, player, sum(score), max(score) FROM submissions WHERE state = 'promoted' "
            "GROUP BY board, player"
        )
        found: dict[tuple[str, str], int] = {}
        for board, player, total, most in rows:
            score = total if policies is not self.best else most
            found[board, player] = score
            if board in TRACKS:
                found["world", player] = found.get(("world", player), 0) + score
        return {slot: score for slot, score in found.items() if slot[0] in names}

    def assert_right(self, policies: Policies) -> None:
        """Whoever reads what is noted reads what follows from the runs by these policies."""
        for name, boards in (("vault", ["vault"]), ("track", TRACKS), ("world", ["world"])):
            if self.is_noted(policies, name):
                assert self.expected(policies, *boards) == self.standings(*boards), (name, self.notes)

    def damage(self, board: str) -> None:
        """Lose a standing, so that folding the board changes something."""
        self.books.connection.execute("DELETE FROM standings WHERE board = ? AND player = 'ada'", (board,))


class _Ledger:
    """The deployment's ledger as one process has it."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.actor: Any = None

    async def read(self, work: Operation[T], _kind: object = None) -> T:
        return self._deployment.books.do(work)

    async def write(self, work: Operation[T]) -> T:
        await self._deployment.before_write(self.actor)
        return self._deployment.books.do(work)


@pytest.fixture
async def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    async def build(_: RuleKeeper, board: Board) -> None:
        deployment.built.append(board.name)

    monkeypatch.setattr(RuleKeeper, "_build", build)
    monkeypatch.setattr(refolding, "PLAYERS", 1)
    deployment = Deployment(tmp_path)
    await deployment.follow(deployment.keeper(deployment.best))
    assert all(deployment.is_noted(deployment.best, name) for name in ("vault", "track", "world"))
    deployment.assert_right(deployment.best)
    deployment.built.clear()
    return deployment


async def test_a_rollup_is_not_folded_from_a_family_that_is_half_folded(deployment: Deployment):
    """Its steward goes on with others when a fold fails; the rollup waits until its family is noted."""
    keeper, writes = deployment.keeper(deployment.sum), 0

    async def away(_: object) -> None:
        nonlocal writes
        writes += 1
        if writes == 3:  # the mark, one player of the first board, and then the database is away
            raise LedgerUnavailable

    deployment.before_write = away
    with pytest.raises(LedgerUnavailable):
        await keeper.step()
    while await keeper.step() and not deployment.is_noted(deployment.sum, "track"):
        assert not deployment.is_noted(deployment.sum, "world")
    await deployment.follow(keeper)
    assert all(deployment.is_noted(deployment.sum, name) for name in ("vault", "track", "world"))
    deployment.assert_right(deployment.sum)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_a_command_folds_while_a_rollup_is_folded_is_in_it(
    deployment: Deployment, is_killed: bool
):
    """The number of a fold that began before is not noted, also if the command is killed after the first players."""
    deployment.books.do(mark_all(["world"]))
    keeper, has_begun = deployment.keeper(deployment.best), False

    async def end_of_command(actor: RuleKeeper | str) -> None:
        if is_killed and deployment.standings("track.a"):
            raise KilledError

    async def at_the_end(_: object) -> None:
        nonlocal has_begun
        if deployment.built and not has_begun:
            has_begun = True
            deployment.books.connection.execute("DELETE FROM standings WHERE board = 'track.a'")
            deployment.before_write = end_of_command
            with suppress(KilledError):
                await deployment.command(deployment.best, "track.a")
            deployment.before_write = nothing

    deployment.before_write = at_the_end
    assert 0 == await keeper.step()
    assert not deployment.is_noted(deployment.best, "world")
    await deployment.command(deployment.best, "track.a")
    await deployment.follow(keeper)
    assert deployment.is_noted(deployment.best, "world")
    deployment.assert_right(deployment.best)


async def test_what_was_folded_is_folded_again_if_somebody_marks_it(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    """A steward that could not build it yet folds nothing twice by itself, but does once another has touched it."""
    keeper, folded = deployment.keeper(deployment.sum), []
    fold, build = rule_changes.refold_board, RuleKeeper._build

    async def counted(ledger: Any, policy: Any, **more: Any) -> Any:
        folded.append(policy.board)
        return await fold(ledger, policy, **more)

    async def away(*_: object) -> None:
        raise IndexUnavailable

    monkeypatch.setattr(rule_changes, "refold_board", counted)
    monkeypatch.setattr(RuleKeeper, "_build", away)
    for _ in range(5):
        with suppress(IndexUnavailable):
            await keeper.step()
    assert ["track.a", "track.b", "vault"] == folded
    other = deployment.keeper(deployment.best)
    monkeypatch.setattr(RuleKeeper, "_build", build)
    await deployment.follow(other)
    await keeper.step()  # what is left of its list
    await deployment.follow(keeper)
    assert all(deployment.is_noted(deployment.sum, name) for name in ("vault", "track", "world"))
    deployment.assert_right(deployment.sum)


@pytest.mark.parametrize(
    ("failures", "built"),
    [
        ({"track.b": [IndexUnavailable, IndexUnavailable]}, ["track.a", "track.b"]),
        ({"track.a": [RebuildRefused, RebuildRefused, RebuildRefused]}, ["track.b", "track.a"]),
    ],
    ids=["away", "refused"],
)
async def test_a_board_that_was_built_is_not_built_again_because_another_could_not_be(
    deployment: Deployment,
    failures: dict[str, list[type[ScoregateError]]],
    built: list[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """A failure leaves the rest for the next time; what somebody else builds is passed over, and comes last."""
    build, left = RuleKeeper._build, sum(map(len, failures.values()))

    async def failing(keeper: RuleKeeper, board: Board) -> None:
        if failures.get(board.name):
            raise failures[board.name].pop()
        await build(keeper, board)

    monkeypatch.setattr(RuleKeeper, "_build", failing)
    keeper = deployment.keeper(deployment.sum)
    for _ in range(4 * left):
        with suppress(IndexUnavailable, RebuildRefused):
            await keeper.step()
    assert built == [name for name in deployment.built if name in TRACKS]
    assert deployment.is_noted(deployment.sum, "track")


async def test_a_rollup_follows_a_family_that_went_half_the_way_to_another_rule_and_back(
    deployment: Deployment,
):
    """Its own note was never another one, but runs were folded into it by a mixture of both rules."""
    keeper = deployment.keeper(deployment.sum)

    async def kill(_: object) -> None:
        if deployment.standings(*TRACKS) != deployment.expected(deployment.best, *TRACKS):
            raise KilledError

    deployment.before_write = kill
    with pytest.raises(KilledError):
        await keeper.step()
    deployment.before_write = nothing
    deployment.play(deployment.sum, "track.a", "ada", 5)
    await deployment.follow(deployment.keeper(deployment.best))
    assert deployment.is_noted(deployment.best, "world")
    deployment.assert_right(deployment.best)


async def test_a_steward_that_had_no_lease_begins_nothing_anew_that_another_has_ended(deployment: Deployment):
    """What it had found to be outdated is noted by now: it does not mark it again, and builds nothing."""
    keeper = deployment.keeper(deployment.sum)
    await keeper.step()
    await deployment.follow(deployment.keeper(deployment.sum))
    deployment.built.clear()
    notes = deployment.notes
    assert 0 == await keeper.step()
    assert (notes, []) == (deployment.notes, deployment.built)


async def test_a_rollup_that_a_command_folds_before_its_family_is_folded_again(deployment: Deployment):
    """Nobody reads it by a number that says how its family is to be folded; a steward folds it after the family."""
    await deployment.command(deployment.sum, "world")
    assert not deployment.is_noted(deployment.sum, "world")
    await deployment.follow(deployment.keeper(deployment.sum))
    assert deployment.is_noted(deployment.sum, "world")
    deployment.assert_right(deployment.sum)


async def test_each_note_is_counted(deployment: Deployment):
    """Edges read all notes again only after another count; a fold that has ended already ends no second time."""
    rule = rule_in_force(deployment.best, "vault")
    assert rule
    counts = [deployment.notes.changes]
    fold = BegunFold(rule, deployment.books.do(mark_all(["vault"])))
    counts.append(deployment.notes.changes)
    assert deployment.books.do(end_fold(fold))
    counts.append(deployment.notes.changes)
    assert not deployment.books.do(end_fold(fold))
    assert sorted({*counts, deployment.notes.changes}) == counts


async def test_a_rollup_that_a_command_folds_from_a_family_half_folded_is_not_read(deployment: Deployment):
    """Also by whoever has the policy under which it was noted before, and of which the command is."""
    await deployment.command(deployment.without, "track.a")
    assert deployment.is_noted(deployment.best, "world")
    await deployment.command(deployment.best, "world")
    assert not deployment.is_noted(deployment.best, "world")


async def test_a_command_of_another_policy_leaves_its_mark(deployment: Deployment):
    """Of a board, a board of a family, and a rollup: nobody reads what it folded, and a steward folds it back."""
    for name in ("vault", "track.a"):
        await deployment.command(deployment.sum, name)
        assert not deployment.is_noted(deployment.best, noted_name(name))
    assert not deployment.is_noted(deployment.best, "world")
    await deployment.follow(deployment.keeper(deployment.best))
    assert all(deployment.is_noted(deployment.best, name) for name in ("vault", "track", "world"))
    deployment.assert_right(deployment.best)


async def test_a_rollup_whose_file_was_gone_has_what_was_played_meanwhile(deployment: Deployment):
    """Nobody follows runs into it, so its note goes with the file, and it is folded once the file is back."""
    await deployment.follow(deployment.keeper(deployment.sum))
    await deployment.follow(deployment.keeper(deployment.without))
    deployment.play(deployment.without, "track.a", "bob", 5)
    assert not deployment.is_noted(deployment.sum, "world")
    await deployment.follow(deployment.keeper(deployment.sum))
    assert deployment.is_noted(deployment.sum, "world")
    deployment.assert_right(deployment.sum)


class Turmoil:
    """Stewards of two policies that take the lease from each other, commands of both, and kills, at any write."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self.deployment = deployment
        self.chance = random.Random(seed)
        self.policies = [deployment.best, deployment.sum, deployment.without]
        self.keepers = [deployment.keeper(policies) for policies in self.policies]
        self.leader: Any = None
        self.at_work: list[int] = []

    async def happen(self) -> None:
        """A steward or a command does something, until it is killed or has lost its lease."""
        at = self.chance.randrange(3)
        is_command = at in self.at_work or self.chance.random() < 0.4
        self.at_work.append(at)
        try:
            if is_command:
                await self.deployment.command(self.policies[at], self.chance.choice(BOARDS[: 4 - (at == 2)]))
                return
            self.leader = keeper = self.keepers[at]
            for _ in range(4):
                await keeper.step()
        except KilledError:
            if not is_command:
                self.keepers[at] = self.deployment.keeper(self.policies[at])
        except LeaseLost:
            pass
        finally:
            self.at_work.pop()

    async def before_write(self, actor: RuleKeeper | str) -> None:
        for policies in self.policies:
            self.deployment.assert_right(policies)
        if len(self.at_work) < 3 and self.chance.random() < 0.1:
            await self.happen()
        if self.chance.random() < 0.02:
            raise KilledError
        if isinstance(actor, RuleKeeper) and actor is not self.leader:
            raise LeaseLost


@pytest.mark.parametrize("seed", seeds(50, ordinarily=3))
async def test_nobody_reads_standings_of_another_rule_whoever_folds_them(deployment: Deployment, seed: int):
    """What is noted follows from the runs at any time, and in the end a single steward gets all noted."""
    turmoil = Turmoil(deployment, seed)
    deployment.before_write = turmoil.before_write
    for _ in range(60):
        await turmoil.happen()
    deployment.before_write = nothing
    await deployment.follow(deployment.keeper(deployment.sum))
    assert all(deployment.is_noted(deployment.sum, name) for name in ("vault", "track", "world"))
    deployment.assert_right(deployment.sum)
