"""What a case says that its reader may decide: each such decision is made, and no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

from gateway.edge.auth.moderators import Moderator, ModeratorRole
from gateway.edge.moderation.cases import read_case
from gateway.edge.moderation.decisions import RequestedDecision, decide_case
from gateway.edge.problems import Problem
from gateway.edge.wire.moderation_decisions import NewDecision
from gateway.edge.wire.outcomes import CaseFile
from gateway.ledger import queries
from gateway.ledger.moderation.claims import Claimant, claim_case
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.decision_codes import CODES, DecisionKind
from policies.vocabulary import Reason, State
from tests.attacks.test_appeals import govern
from tests.support.harness import Harness
from tests.support.ledger import new_submission

JO = Moderator("jo", {"*": ModeratorRole.MODERATOR})
SAM = Moderator("sam", {"*": ModeratorRole.SENIOR})
VIC = Moderator("vic", {"*": ModeratorRole.VIEWER})
BESTS = count(100)
Preparation = Callable[["Scene"], Awaitable[None]]


class Scene:
    """A new submission on the sprint board, and hands that bring it into a state."""

    def __init__(self, harness: Harness, name: str) -> None:
        self.harness, self.name = harness, name
        self.edge, self.board = harness.edge, harness.edge.catalogue.of_files["sprint"]

    async def begin(self) -> None:
        facts = {"board": "sprint", "score": next(BESTS), "at_ms": self.harness.clock()}
        await self.edge.ledger.append(new_submission(self.name, state=State.HELD, **facts))

    async def read(self, moderator: Moderator) -> CaseFile:
        submission = await self.edge.ledger.read(queries.submission(self.name))
        assert submission is not None
        return await read_case(self.edge, self.board, submission, moderator)

    async def decide(self, moderator: Moderator, kind: DecisionKind, code: str = "other") -> None:
        submission = await self.edge.ledger.read(queries.submission(self.name))
        assert submission is not None
        [*_, newest] = await self.edge.ledger.read(queries.history_of(self.name))
        body = NewDecision(code=code, note="seen", message="how-played")
        asked = RequestedDecision(kind, body, newest["seq"])
        await decide_case(self.edge, self.board, submission, moderator, asked)

    async def happen(self, to_state: State, actor: str, reason: Reason) -> None:
        event = Decision(self.name, to_state, actor, reason, self.harness.clock(), frozenset(State))
        await settle(self.edge.ledger, self.edge.index, self.board, [event])


def by(moderator: Moderator, *kinds: str, code: str = "other") -> Preparation:
    """Decisions of a moderator, one after the other."""

    async def prepare(scene: Scene) -> None:
        for kind in kinds:
            await scene.decide(moderator, DecisionKind(kind), code)

    return prepare


async def appealed(scene: Scene) -> None:
    await by(JO, "reject")(scene)
    await scene.happen(State.REJECTED, "ada", Reason.APPEALED)


async def four_eyes(scene: Scene) -> None:
    govern(scene.harness, four_eyes_top=10)
    scene.board = scene.edge.catalogue.of_files["sprint"]


async def approved_once(scene: Scene) -> None:
    await four_eyes(scene)
    await by(JO, "approve")(scene)


async def claimed(scene: Scene) -> None:
    work = claim_case(scene.name, Claimant("noor"), now_ms=scene.harness.clock())
    await scene.edge.ledger.write(work)


HELD = {"approve", "reject", "hold"}
TABLE: list[tuple[str, Preparation, Moderator, set[str]]] = [
    ("held", by(JO), JO, HELD),
    ("held, of a player of their own", by(JO), Moderator("jo", JO.grants, frozenset({"ada"})), set()),
    ("held, with a colleague in it", claimed, SAM, set()),
    ("held, and asked", by(JO, "hold", code="question"), JO, HELD),
    ("promoted by a colleague", by(SAM, "approve"), JO, {"revoke", "hold"}),
    ("promoted by oneself", by(JO, "approve"), JO, {"revoke", "hold", "undo"}),
    ("promoted by a moderator", by(JO, "approve"), SAM, {"revoke", "hold", "undo"}),
    ("revoked by oneself", by(JO, "approve", "revoke"), JO, {"reinstate", "undo"}),
    ("rejected by a colleague", by(SAM, "reject"), JO, {"hold"}),
    ("held again by an undo", by(JO, "approve", "undo"), JO, HELD),
    ("appealed", appealed, SAM, {"approve", "reject", "hold"}),
    ("appealed, and decided by oneself", appealed, JO, set()),
    ("for two moderators", four_eyes, JO, HELD),
    ("for two, approved by oneself", approved_once, JO, set()),
    ("for two, approved by a colleague", approved_once, SAM, HELD),
]


async def test_each_possible_decision_is_made_and_no_other(harness: Harness):
    """Over a table of states: what the case lists is what the server takes, kind by kind and code by code."""
    tries = [(kind, next(iter(codes))) for kind, codes in CODES.items()] + [(DecisionKind.HOLD, "other")]
    for number, (title, prepare, moderator, expected) in enumerate(TABLE):
        scene = await staged(harness, f"s{number}", prepare)
        listed, taken = set[tuple[str, str]](), set[tuple[str, str]]()
        for attempt, (kind, code) in enumerate(tries):
            possible = {each.decision: each.codes for each in (await scene.read(moderator)).decisions}
            listed |= {(kind.value, code)} if code in possible.get(kind.value, ()) else set()
            try:
                await scene.decide(moderator, kind, code)
            except Problem:
                continue
            taken.add((kind.value, code))
            scene = await staged(harness, f"s{number}-{attempt}", prepare)
        assert (title, listed) == (title, taken)
        assert (title, expected) == (title, {kind for kind, _ in taken})


async def staged(harness: Harness, name: str, prepare: Preparation) -> Scene:
    scene = Scene(harness, name)
    await scene.begin()
    await prepare(scene)
    return scene


async def test_a_case_says_what_refuses_everything_to_its_reader(harness: Harness):
    """The refusal is the one that a decision would get; a case that nothing is wrong with has none."""
    mine = Moderator("jo", JO.grants, frozenset({"ada"}))
    told = []
    for number, (prepare, moderator) in enumerate(
        [(by(JO), JO), (by(JO), VIC), (by(JO), mine), (claimed, JO), (appealed, JO)]
    ):
        case = await (await staged(harness, f"s{number}", prepare)).read(moderator)
        told.append((case.is_waiting, case.claim and case.claim.by, case.refusal))
    assert [
        (True, None, None),
        (True, None, "your role on the board is to read"),
        (True, None, "you cannot decide on your own submission"),
        (True, "noor", "`noor` is in the case"),
        (True, None, "the appeal is against your own decision; somebody else has to decide"),
    ] == told
    once = await (await staged(harness, "once", four_eyes)).read(JO)
    assert {("approve", "second-approval"), ("reject", None), ("hold", None)} == {
        (each.decision, each.missing) for each in once.decisions
    }
