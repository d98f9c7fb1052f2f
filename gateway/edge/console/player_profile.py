"""The pages of players: find one, see what they have on one's boards, rename, ban and unban them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.edge.auth.moderator_secrets import new_id
from gateway.edge.auth.moderators import EVERYWHERE, Ability
from gateway.edge.console.forms import Form, read_form, send_as_api
from gateway.edge.console.page_drawing import draw, go_to
from gateway.edge.console.visits import visit_of
from gateway.edge.console.wording import without_field
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_anywhere
from gateway.edge.moderation import bans, renames
from gateway.edge.moderation.players import NAME_LIMIT, players_shown, profile_of, submissions_shown
from gateway.edge.players.friends import named_player
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_bans import BanShown
from gateway.runtime.clock import parse_rfc3339, rfc3339
from policies.bans import BanCode
from policies.renames import RenameCode

PLAYERS: Final = "/console/players"

ROWS: Final = 50
"""Players of a page of a search."""

SUBMISSIONS: Final = 10
"""Submissions that a player's page shows at once."""

DAY_MS: Final = 86_400_000

DURATIONS: Final = ((1, "a day"), (7, "a week"), (30, "30 days"), (365, "a year"), (0, "for good"))
"""Choices of how long a ban lasts (days), in words; 0 is for good."""

_PLAYER_ID: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~:-]{0,63}")

_SHOWN: Final = frozenset(
    {
        ProblemType.IDEMPOTENCY_MISMATCH,
        ProblemType.NAME_TAKEN,
        ProblemType.NOT_FOUND,
        ProblemType.PRECONDITION_FAILED,
        ProblemType.SCHEMA_VIOLATION,
        ProblemType.SCOPE_FORBIDDEN,
        ProblemType.SELF_APPROVAL,
        ProblemType.STATE_CONFLICT,
    }
)
"""Refusals that are shown above the form that was sent."""


async def find_player(request: web.Request) -> web.Response:
    """Draw the players with such a name, or go to the only one with such an id."""
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.READ)
    wanted, cursor = request.query.get("name", "").strip()[:NAME_LIMIT], request.query.get("cursor")
    if _PLAYER_ID.fullmatch(wanted) and not cursor:
        with suppress(Problem):
            await profile_of(edge, moderator, wanted)
            return go_to(request, f"{PLAYERS}/{wanted}")
    found = await players_shown(edge, moderator, wanted, cursor, count=ROWS) if wanted else None
    return draw(
        request,
        "find_player.html",
        visit=await visit_of(request),
        current=PLAYERS,
        wanted=wanted,
        found=found.players if found else [],
        next_query=urlencode({"name": wanted, "cursor": found.next}) if found and found.next else "",
        is_first=not cursor,
    )


async def show_player_page(request: web.Request) -> web.Response:
    """Draw a player who has something on the boards that the moderator may read."""
    return await _player(request)


async def rename(request: web.Request) -> web.Response:
    """Give a player another name; an empty field gives the one of a player who chose none."""
    form = await read_form(request)
    await moderator_anywhere(request, Ability.OVERRULE)
    body = {name: form.get(name, "") for name in ("was", "code", "note")}
    if name := form.get("new-name", "").strip():
        body["name"] = name
    return await _sent(request, renames.rename_player, body, form)


async def undo_rename(request: web.Request) -> web.Response:
    """Take the last rename of a player back."""
    form = await read_form(request)
    await moderator_anywhere(request, Ability.OVERRULE)
    return await _sent(request, renames.undo_rename, {"was": form.get("was", "")}, form)


async def ban(request: web.Request) -> web.Response:
    """Ban a player."""
    form = await read_form(request)
    await moderator_anywhere(request, Ability.OVERRULE)
    scope, name = form.get("scope", ""), form.get("name", "").strip()
    body: dict[str, Any] = {
        "operation": form.get("operation", ""),
        "code": form.get("code", ""),
        "note": form.get("note", "").strip(),
        "message": form.get("message", "").strip(),
        "shadow": form.get("shadow") == "yes",
    }
    if scope in {"board", "family"}:
        body[scope] = name
    if (days := form.get("days", "0")) != "0":
        body["until"] = _in_days(days, form.get("drawn_at", ""))
    return await _sent(request, bans.ban_player, body, form)


async def unban(request: web.Request) -> web.Response:
    """Lift a ban."""
    form = await read_form(request)
    await moderator_anywhere(request, Ability.OVERRULE)
    return await _sent(request, bans.lift_ban, None, form)


def _in_days(days: str, drawn_at: str) -> str:
    """Return the moment so many days after the form was drawn, so that sending it twice bans once."""
    begin_ms = parse_rfc3339(drawn_at)
    chosen = next((each for each, _ in DURATIONS if str(each) == days), 0)
    if not chosen or begin_ms is None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "days: there is no such choice")
    return rfc3339(begin_ms + chosen * DAY_MS)


async def _sent(request: web.Request, handler: Any, body: dict[str, Any] | None, form: Form) -> web.Response:
    try:
        await send_as_api(request, handler, body)
    except Problem as problem:
        if problem.kind not in _SHOWN:
            raise
        return await _player(request, problem=problem, form=form)
    return go_to(request, f"{PLAYERS}/{request.match_info['player']}")


async def _player(
    request: web.Request, *, problem: Problem | None = None, form: Form | None = None
) -> web.Response:
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_anywhere(request, Ability.READ)
    profile = await profile_of(edge, moderator, player)
    cursor = request.query.get("cursor") if request.method == "GET" else None
    submissions = await submissions_shown(edge, moderator, player, cursor, count=SUBMISSIONS)
    boards = await edge.catalogue.boards({*profile.boards, *(entry.board for entry in profile.standings)})
    return draw(
        request,
        "player.html",
        status=problem.kind.status if problem else 200,
        visit=await visit_of(request),
        current=PLAYERS,
        player=player,
        name=profile.name or player,
        profile=profile,
        submissions=submissions.submissions,
        scores={run.submission: run.score for run in submissions.submissions},
        next_query=urlencode({"cursor": submissions.next}) if submissions.next else "",
        is_first=not cursor,
        decimals={board.name: board.policy.decimals for board in boards.values()},
        may_rename=profile.name is not None and moderator.may(Ability.OVERRULE, EVERYWHERE),
        rename_codes=list(RenameCode),
        bans=profile.bans,
        in_force=[each for each in profile.bans if _is_in_force(each, edge.clock())],
        codes=list(BanCode),
        durations=DURATIONS,
        may_ban=bool(moderator.scopes(Ability.OVERRULE)),
        is_everywhere=moderator.may(Ability.OVERRULE, EVERYWHERE),
        operation=new_id(),
        drawn_at=rfc3339(edge.clock()),
        entered=form or {},
        fault=without_field(problem),
    )


def _is_in_force(ban: BanShown, now_ms: int) -> bool:
    """Return whether a ban applies now."""
    return ban.lifted_at is None and (ban.until is None or (parse_rfc3339(ban.until) or 0) > now_ms)
