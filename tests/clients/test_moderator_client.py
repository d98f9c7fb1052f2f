"""The Python client of a moderator, against a real edge."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from scoregate_client import (
    ModeratorClient,
    ScoregateClient,
    ScoregateError,
    batch_models,
    figures,
    moderation_models,
    player_models,
)

from examples.arcade.players import play
from gateway.edge.auth.moderators import ModeratorRole
from gateway.edge.wire import (
    identity_answers,
    moderation_bans,
    moderation_batches,
    moderation_decisions,
    moderation_figures,
    moderation_merges,
    moderation_people,
    moderation_players,
    moderation_queue,
    moderation_renames,
    moderation_surroundings,
    moderation_trail,
    outcomes,
)
from gateway.runtime.settings import Settings
from policies.vocabulary import Reason, State
from tests.support import moderators
from tests.support.desk import FAR_OUTSIDE, TOO_FAST, submitted
from tests.support.game import arcade
from tests.support.harness import Harness, Request, free_port, running_harness
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Desk:
    """An edge, programs of moderators at it, and players."""

    def __init__(self, harness: Harness, leaving: AsyncExitStack) -> None:
        self.harness = harness
        self._leaving = leaving

    async def moderator(self, name: str, role: ModeratorRole = ModeratorRole.SENIOR) -> ModeratorClient:
        settings, now_ms = self.harness.edge.settings, self.harness.clock()
        token = moderators.token_of(settings, name, role, [], now_ms=now_ms)
        return await self._leaving.enter_async_context(ModeratorClient(self.harness.url, token))

    async def player(self, name: str) -> tuple[ScoregateClient, str]:
        client = await self._leaving.enter_async_context(ScoregateClient(self.harness.url))
        return client, (await client.create_player(name)).player

    async def case(self, player: str, score: int, **how: Any) -> str:
        return await submitted(self.harness, player, score, **how)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer) -> AsyncIterator[Desk]:
    with valkey_server.client() as client:
        client.flushall()
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("edge") / "data",
        redis_url=valkey_server.url,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with running_harness(settings) as harness, AsyncExitStack() as leaving:
        yield Desk(harness, leaving)


async def test_a_case_is_taken_read_decided_and_undone(desk: Desk):
    """Each answer is typed, and each decision names the version that was read."""
    mara, (_, ada) = await desk.moderator("mara"), await desk.player("Ada")
    run = play(arcade(), 3, 0.6, random.Random(3), 200)
    first = await desk.case(ada, run.score, played=run, build="arcade-1", findings=(FAR_OUTSIDE,))
    second = await desk.case(ada, 90, reason=Reason.VELOCITY_POINTS, findings=(TOO_FAST,))

    assert ("mara", {"*": "senior"}) == ((me := await mara.who_am_i()).moderator, me.grants)
    waiting = {case.submission: case async for case in mara.queue(player=ada)}
    assert {first, second} == set(waiting)
    [finding] = waiting[second].findings
    assert ("velocity", 120.0) == (finding.validator, finding.expected.at_most)
    counts = await mara.counts()
    assert {"anomaly-player": 1, "velocity-points": 1} == counts.reasons
    async for _ in mara.watch_queue():
        break

    taken = await mara.next_case(reason="anomaly-player")
    assert taken is not None
    assert (first, "mara") == (taken.submission, taken.claim and taken.claim.by)
    assert await mara.next_case(board="arcade", build="none") is None
    case = await mara.case(first)
    assert (run.score, "Ada", True) == (case.submission.score, case.name, case.has_recording)
    assert "plausible" in case.codes["approve"]
    assert (await mara.recording(first)).startswith(b"SGR")
    with pytest.raises(ScoregateError) as refusal:
        await (await desk.moderator("jo")).approve(case.submission, "plausible")
    assert "case-claimed" == refusal.value.name

    approved = await mara.approve(case.submission, "plausible", note="watched it", message="checked")
    with pytest.raises(ScoregateError) as refusal:
        await mara.reject(case.submission, "tool-assisted")
    assert "precondition-failed" == refusal.value.name
    undone = await mara.undo(approved)
    asked = await mara.hold(undone, "question", message="how-played")
    assert ["promoted", "held", "held"] == [each.state for each in (approved, undone, asked)]
    assert ["approve", "undo", "hold"] == [
        event.detail["decision"] for event in (await mara.case(first)).events[1:]
    ]

    assert "mara" == ((await mara.claim(second)).claim or taken.claim).by
    assert (await mara.claim(second)).claim is not None
    assert (await mara.release(second)).claim is None
    assert (await mara.skip(second)).claim is None
    assert 1 == (await mara.cannot_tell(second)).cannot_tell


async def test_an_empty_page_is_not_the_end(monkeypatch: pytest.MonkeyPatch):
    """Filters may leave out a whole page, and the next one has cases."""
    pages = iter([{"batches": [], "next": "c"}, {"batches": [], "next": None}])
    seen = []

    async def read(_self: object, _path: str, query: dict[str, object]) -> dict[str, object]:
        seen.append(query["cursor"])
        return next(pages)

    monkeypatch.setattr(ModeratorClient, "_read", read)
    assert [] == [batch async for batch in ModeratorClient("http://scores.test", "sgm_x").batches()]
    assert [None, "c"] == seen


async def test_an_appeal_is_made_listed_and_granted(desk: Desk):
    """The player reads what can be done, and appeals; somebody else answers."""
    mara, jo, (game, bao) = await desk.moderator("mara"), await desk.moderator("jo"), await desk.player("Bao")
    submission, asked = await desk.case(bao, 700), await desk.case(bao, 710)
    rejected = await mara.reject((await mara.case(submission)).submission, "tool-assisted")
    assert "rejected" == rejected.state
    shown = (await game.submission(submission)).appeal
    assert "possible" == (shown and shown.state)
    await game.appeal(submission, "I played it on a pad.")
    [appeal] = [case async for case in jo.appeals(player=bao)]
    assert ("appeal", submission) == (appeal.kind, appeal.submission)
    granted = await jo.approve(appeal, "plausible")
    revoked = await jo.revoke(granted, "tool-assisted")
    assert ["promoted", "revoked"] == [granted.state, revoked.state]
    assert "promoted" == (await jo.reinstate(revoked, "our-fault")).state

    await mara.hold((await mara.case(asked)).submission, "question", message="Which pad?")
    question = (await game.submission(asked)).question
    assert "Which pad?" == (question and question.text)
    await game.answer(asked, "A round one.")
    assert (await game.submission(asked)).question is None


async def test_a_player_is_found_renamed_and_renamed_back(desk: Desk):
    """By the beginning of the name; both answers say who did it."""
    mara, (_, player) = await desk.moderator("mara"), await desk.player("Quill")
    await desk.case(player, 310)
    assert [player] == [found.player async for found in mara.players_named("QUI")]
    assert ("Quill", "Fern") == (
        (given := await mara.rename(player, "Quill", "Fern", "abusive")).was,
        given.name,
    )
    assert "moderator:mara" == (await mara.undo_rename(player, "Fern")).undone_by
    assert "Quill" == (await mara.player(player)).name


async def test_a_player_loses_an_identity_and_a_merge(desk: Desk):
    """What is left is told; an identity that is gone is not found, and a merge is undone once."""
    zoe = await desk.moderator("zoe")
    (source, ada), (target, bob) = await desk.player("Ada"), await desk.player("Bob")
    made = {"token": source.token}
    merged = await desk.harness.post("/v1/merges", made, target.token)
    code = await desk.harness.send(
        Request("POST", "/v1/recovery-code", b"", {"Authorization": f"Bearer {target.token}"})
    )
    assert (200, 201) == (merged.status, code.status)
    [linked] = await zoe.identities(bob)
    assert "recovery" == linked.provider
    assert [] == await zoe.unlink(bob, linked.identity)
    with pytest.raises(ScoregateError) as refusal:
        await zoe.unlink(bob, linked.identity)
    assert "not-found" == refusal.value.name
    [merge] = await zoe.merges(ada)
    assert (ada, bob, None) == (merge.source, merge.target, merge.undone_at)
    undone = await zoe.undo_merge(bob, merge.merge)
    assert undone == await zoe.undo_merge(ada, merge.merge)
    assert "moderator:zoe" == undone.undone_by


async def test_a_player_is_read_banned_and_unbanned(desk: Desk):
    """The profile has the ban, and the board the player again."""
    mara, (_, chidi) = await desk.moderator("mara"), await desk.player("Chidi")
    await desk.case(chidi, 300, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    ban = await mara.ban(chidi, "ban-1", "cheating", board="arcade", note="a macro", message="Not by hand.")
    assert ("arcade", 1, None) == (ban.board, ban.followed, ban.lifted_at)
    assert ban == await mara.ban(
        chidi, "ban-1", "cheating", board="arcade", note="a macro", message="Not by hand."
    )
    profile = await mara.player(chidi)
    assert ("Chidi", {"revoked": 1}, (ban,)) == (profile.name, profile.states, profile.bans)
    assert "mara" in str((await mara.lift_ban(chidi, ban.ban)).lifted_by)
    assert ["promoted"] == [each.state async for each in mara.submissions_of(chidi)]


async def test_many_are_previewed_decided_and_taken_back_as_one(desk: Desk):
    """A batch decides on exactly what it previewed."""
    mara, (_, dolores) = await desk.moderator("mara"), await desk.player("Dolores")
    cases = [await desk.case(dolores, 400 + number) for number in range(3)]
    previewed = await mara.await_batch(
        await mara.preview_batch(
            "batch-1", "reject", "tool-assisted", {"board": "arcade", "player": dolores}, note="the turbo"
        )
    )
    assert ("previewed", 3, "arcade") == (previewed.state, previewed.items, previewed.boards[0].board)
    overtaken = await mara.approve((await mara.case(cases[0])).submission, "plausible")
    applied = await mara.await_batch(await mara.apply_batch(previewed))
    assert {"decided": 2, "overtaken": 1} == applied.outcomes
    outcomes = {item.submission: item.outcome async for item in mara.batch_items(applied.batch)}
    assert "overtaken" == outcomes[overtaken.submission]
    reversed_ = await mara.await_batch(await mara.reverse_batch(applied.batch))
    assert ("reversed", [applied.batch]) == (
        reversed_.state,
        [each.batch async for each in mara.batches()],
    )
    other = await mara.preview_batch("batch-2", "reject", "tool-assisted", {"player": dolores})
    assert "abandoned" == (await mara.abandon_batch(other.batch)).state


async def test_what_was_done_is_counted_listed_and_exported(desk: Desk):
    """Figures, the trail, and the trail as CSV, which says how to go on."""
    mara, (_, eitan) = await desk.moderator("mara"), await desk.player("Eitan")
    for score in (510, 520):
        await mara.reject((await mara.case(await desk.case(eitan, score))).submission, "tool-assisted")
    found = await mara.figures(board="arcade", since="2020-01-01T00:00:00Z")
    assert (None, 2) == (
        found.decisions.agreement.share,
        min(2, found.decisions.made["rejected-by-moderator"]),
    )
    assert found.validators[0].modes["shadow"].held.honest >= 0
    done = [event async for event in mara.trail(player=eitan)]
    assert ["rejected-by-moderator"] * 2 == [event.reason for event in done]
    exported = await mara.trail_csv(player=eitan)
    assert (3, None) == (len(exported.content.splitlines()), exported.next)


async def test_a_player_is_found_renamed_and_banned_unseen(desk: Desk):
    """By the beginning of a name; a rename has a way back, and of a shadow ban the player reads nothing."""
    mara, (game, fatima) = await desk.moderator("mara"), await desk.player("Fatima")
    await desk.case(fatima, 610, state=State.PROMOTED, reason=Reason.ACCEPTED, findings=())
    waiting = await desk.case(fatima, 615)
    assert [fatima] == [found.player async for found in mara.players_named("fati")]
    renamed = await mara.rename(fatima, "Fatima", "Player 7", "abusive", note="seen it")
    assert ("Fatima", "Player 7", "mara") == (renamed.was, renamed.name, renamed.by.rpartition(":")[2])
    assert (await mara.undo_rename(fatima, "Player 7")).undone_at is not None
    ban = await mara.ban(fatima, "ban-2", "evasion", board="arcade", shadow=True)
    profile = await mara.player(fatima)
    assert ("Fatima", True, [waiting]) == (
        profile.name,
        profile.bans[0].shadow,
        [case.submission for case in profile.cases],
    )
    await game.open_run("arcade", "arcade-1")
    await mara.lift_ban(fatima, ban.ban)
    assert ["arcade"] == [standing.board for standing in (await mara.player(fatima)).standings]


async def test_views_of_the_queue_and_what_surrounds_a_case(desk: Desk):
    """A view is saved, used and removed; a case says what may be decided, and its surroundings what was."""
    mara, (_, goran) = await desk.moderator("mara"), await desk.player("Goran")
    first, second = await desk.case(goran, 620), await desk.case(goran, 630)
    [view] = await mara.save_view("goran", player=goran, min_age_s=1)
    assert {first, second} == {case.submission async for case in mara.queue(**view.filters)}
    assert ((view,), ()) == (await mara.views(), await mara.remove_view("goran"))
    assert sum(age.cases for age in (await mara.counts()).ages) >= 2
    case = await mara.case(first)
    assert {"approve", "reject", "hold"} <= {each.decision for each in case.decisions}
    await mara.approve(case.submission, "plausible", note="fine")
    around = await mara.surroundings(second)
    assert ([first], ["fine"]) == (
        [other.submission for other in around.others],
        [decision.detail["note"] for decision in around.decisions],
    )


async def test_an_admin_adds_changes_and_disables_people(desk: Desk):
    """Each change names the account as it was read."""
    admin = await desk.moderator("ada", ModeratorRole.ADMIN)
    invitation = await admin.add_person("noor", {"arcade": "viewer"})
    assert invitation.page.startswith("/console/invitations/")
    read = await admin.person("noor")
    changed = await admin.change_person(read, {"arcade": "senior"})
    assert {"arcade": "senior"} == changed.grants
    with pytest.raises(ScoregateError) as refusal:
        await admin.disable_person(read)
    assert "precondition-failed" == refusal.value.name
    assert invitation.page != (await admin.invite_again(changed)).page
    disabled = await admin.disable_person(await admin.person("noor"))
    assert disabled.disabled_at is not None
    assert (await admin.enable_person(disabled)).disabled_at is None
    assert {"ada", "noor"} <= {person.moderator async for person in admin.people()}


ANSWERS = {
    outcomes.CaseFile: moderation_models.Case,
    outcomes.HeldSubmission: moderation_models.HeldSubmission,
    outcomes.FindingShown: moderation_models.Finding,
    outcomes.EventShown: moderation_models.CaseEvent,
    moderation_surroundings.CaseSurroundings: moderation_models.Surroundings,
    moderation_surroundings.SimilarSubmission: moderation_models.SimilarSubmission,
    moderation_surroundings.EarlierDecision: moderation_models.EarlierDecision,
    moderation_queue.QueuedCase: moderation_models.QueuedCase,
    moderation_queue.CaseHolding: moderation_models.CaseHolding,
    moderation_queue.QueueCounts: moderation_models.QueueCounts,
    moderation_queue.AgeCount: moderation_models.AgeCount,
    moderation_queue.SavedView: moderation_models.SavedView,
    moderation_decisions.Decided: moderation_models.Decided,
    moderation_decisions.AnsweredCheckShown: moderation_models.AnsweredCheck,
    moderation_decisions.PossibleDecision: moderation_models.PossibleDecision,
    moderation_bans.BanShown: player_models.Ban,
    moderation_merges.MergeOfPlayer: player_models.Merge,
    identity_answers.IdentityShown: player_models.Identity,
    moderation_renames.RenameShown: player_models.Rename,
    moderation_players.PlayerProfile: player_models.Profile,
    moderation_players.PlayerNamed: player_models.NamedPlayer,
    moderation_players.OpenCase: player_models.OpenCase,
    moderation_players.PlayedSubmission: player_models.PlayedSubmission,
    moderation_people.WhoAmI: player_models.WhoAmI,
    moderation_people.ModeratorShown: player_models.Person,
    moderation_people.InvitationMade: player_models.Invitation,
    moderation_batches.BatchShown: batch_models.Batch,
    moderation_batches.BatchItemShown: batch_models.BatchItem,
    moderation_trail.TrailEvent: batch_models.TrailEvent,
    moderation_figures.Figures: figures.Figures,
    moderation_figures.QueueAge: figures.QueueAge,
    moderation_figures.DecisionFigures: figures.DecisionFigures,
    moderation_figures.ThresholdShown: figures.Threshold,
    moderation_figures.ValidatorFiguresShown: figures.ValidatorFigures,
    moderation_figures.AnswersToChecks: figures.AnswersToChecks,
}
LEFT_OUT = {
    "EventShown": {"policy", "rules_version"},
    "WhoAmI": {"by", "csrf", "second_factor", "has_identity"},
    "BatchShown": {"changed_at", "looked_at"},
}
"""What no program needs."""


async def test_the_client_knows_every_field_of_the_gateways_answers():
    """What moderators are told is in a field of the client's, or is left out by name."""
    missing = {
        answer.__name__: set(answer.model_fields) - set(read.__dataclass_fields__)
        for answer, read in ANSWERS.items()
    }
    assert LEFT_OUT == {name: fields for name, fields in missing.items() if fields}
