"""Cases for moderators: submissions that wait for one, put straight into the ledger."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from scoregate_client import encode_recording

from examples.arcade.players import CHECKPOINT_TICKS, ArcadeRun
from gateway.edge.admission.address import ClientName
from gateway.edge.auth.moderator_credentials import COOKIE, Session
from gateway.edge.auth.moderator_secrets import digest_of
from gateway.edge.moderation.logins import LoginClient, open_session
from gateway.ledger.acts import Act
from gateway.ledger.derived import log
from gateway.ledger.moderation.accounts import account_of, add_account
from gateway.ledger.moderation.checks import labels_behind
from gateway.ledger.moderation.invitations import Invitation
from gateway.ledger.records import NewSubmission
from gateway.settlement.decision_records import Decision
from gateway.settlement.known_answers import CONSUMER, draw_checks
from gateway.settlement.settle import settle
from policies.vocabulary import Claim, Expected, Finding, Reason, Severity, State
from tests.support.harness import Harness
from validators.judge import Judgement
from validators.submission import Submission

TOO_FAST = Finding(
    Reason.VELOCITY_POINTS,
    184.2,
    Expected(at_most=120.0, unit="points per second"),
    severity=Severity.FLAG,
    validator="velocity",
    policy="sha256:policy",
    detail={"slack_s": 5.0},
)
FAR_OUTSIDE = Finding(
    Reason.ANOMALY_PLAYER,
    6.4,
    Expected(at_most=4.0, unit="deviations"),
    sample_size=24,
    severity=Severity.FLAG,
    validator="anomaly",
    policy="sha256:policy",
    detail={"mean": 2410.0, "spread": 612.0},
)


async def player_of(harness: Harness, name: str) -> str:
    """A new player's id."""
    return harness.edge.tokens.check(await harness.new_player(name), now_s=0).subject  # type: ignore[union-attr]


async def submitted(
    harness: Harness,
    player: str,
    score: int,
    *,
    board: str = "arcade",
    build: str = "orbit-1.0",
    state: State = State.HELD,
    reason: Reason = Reason.ANOMALY_PLAYER,
    findings: Sequence[Finding] = (FAR_OUTSIDE, TOO_FAST),
    minutes_ago: int = 5,
    played: ArcadeRun | None = None,
) -> str:
    """The id of a submission that ended in a state before any replay; with `played`, one that has a recording."""
    received_at_ms = harness.clock() - minutes_ago * 60_000
    submission_id = secrets.token_hex(16)
    claim = (
        Claim(score, played.ticks, played.stats)
        if played
        else Claim(score, 5400, {"catches": 31, "best_combo": 9})
    )
    recording = encode_recording(played.inputs, played.checkpoints, CHECKPOINT_TICKS) if played else None
    run = Submission(
        submission_id, board, player, build, played.seed if played else 7, received_at_ms - 95_000, received_at_ms,
        claim, has_recording=recording is not None,
    )  # fmt: skip
    new = NewSubmission(
        run,
        Judgement(state if state is State.HELD else State.PENDING, reason, tuple(findings)),
        credential="test",
        nonce=submission_id,
        content_digest=hashlib.sha256(submission_id.encode()).digest(),
        recording=recording,
        recording_digest=hashlib.sha256(recording).digest() if recording else None,
        recording_bytes=len(recording or b""),
        simulator="",
        policy_digest="sha256:policy",
    )
    edge = harness.edge
    await edge.ledger.append(new)
    if state not in {State.HELD, State.PENDING}:
        moves = Decision(
            submission_id, state, "replay", Reason.VERIFIED, received_at_ms + 900, frozenset({State.PENDING})
        )
        await settle(edge.ledger, edge.index, edge.catalogue.of_files[board], [moves])
    return submission_id


async def all_drawn(harness: Harness) -> None:
    """Have decisions come again as checks, as if they stood for a day and the policy asked for each."""
    ledger = harness.edge.ledger
    after = await ledger.read(log.position(CONSUMER)) or 0
    labels = await ledger.read(labels_behind(after))
    drawing = draw_checks(after, labels[-1].seq, labels, now_ms=harness.clock())
    assert 0 < await ledger.write(drawing)


async def staff(harness: Harness, people: Mapping[str, Mapping[str, str]]) -> None:
    """Accounts by their names, with what each is granted; none has a password."""
    act = Act("operator", harness.clock())
    for name, grants in people.items():
        await harness.edge.ledger.write(add_account(name, grants, act, invitation=invitation_until(harness)))


def invitation_until(harness: Harness, token: str | None = None) -> Invitation:
    """An invitation for an hour, with this token or one that nobody knows."""
    return Invitation(digest_of(token or secrets.token_hex()), harness.clock() + 3_600_000)


async def session_of(harness: Harness, name: str) -> Session:
    """A new session of somebody, as if they had just signed in."""
    account = await harness.edge.ledger.read(account_of(name))
    assert account is not None
    return await open_session(harness.edge, account, LoginClient(ClientName("here", "here"), "Tests"))


async def cookie_of(harness: Harness, name: str) -> Any:
    """The cookie of a new session, for a browser."""
    session = await session_of(harness, name)
    return {"name": COOKIE, "value": session.token, "url": harness.url.replace("http:", "https:"), "secure": True,
            "httpOnly": True, "sameSite": "Strict"}  # fmt: skip
