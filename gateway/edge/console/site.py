"""The table of the console's pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.console import (
    account_page,
    batches_page,
    case_page,
    figures_page,
    people_page,
    player_profile,
    provider_page,
    queue_page,
    sign_in_page,
    trail_page,
)
from gateway.edge.console.page_drawing import go_to
from gateway.edge.console.static_files import add_static_files
from gateway.edge.moderation.provider_logins import REDIRECT
from gateway.edge.reads.read_budget import budgeted

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A page, or a form that is sent: its handler, and the ability that it asks for; None asks for none."""

    method: str
    path: str
    handler: Handler
    ability: Ability | None = Ability.READ


async def show_start(request: web.Request) -> web.Response:
    """Send to the queue."""
    return go_to(request, queue_page.QUEUE)


_DECIDE, _ADMINISTER = Ability.DECIDE, Ability.ADMINISTER
_PERSON: Final = "/console/people/{moderator}"
_PLAYER: Final = "/console/players/{player}"
_BATCH: Final = f"{batches_page.BATCHES}/{{batch}}"
_CASE: Final = "/console/cases/{submission}"

CONSOLE_PAGES: Final = (
    ConsolePage("GET", "/console", show_start, None),
    ConsolePage("GET", "/console/", show_start, None),
    ConsolePage("GET", "/console/sign-in", sign_in_page.show_sign_in, None),
    ConsolePage("POST", "/console/sign-in", sign_in_page.sign_in, None),
    ConsolePage("POST", REDIRECT, provider_page.begin_at_provider, None),
    ConsolePage("GET", REDIRECT, provider_page.come_back, None),
    ConsolePage("POST", "/console/sign-out", sign_in_page.sign_out, None),
    ConsolePage("GET", "/console/invitations/{token}", sign_in_page.show_invitation, None),
    ConsolePage("POST", "/console/invitations/{token}", sign_in_page.take_invitation, None),
    ConsolePage("POST", "/console/invitations/{token}/provider", provider_page.accept_at_provider, None),
    ConsolePage("GET", "/console/queue", queue_page.show_queue_page),
    ConsolePage("POST", "/console/queue/views", queue_page.save_this_view),
    ConsolePage("POST", "/console/queue/views/remove", queue_page.remove_this_view),
    ConsolePage("POST", "/console/queue/next", queue_page.take_next, _DECIDE),
    ConsolePage("GET", _CASE, case_page.show_case_page),
    ConsolePage("POST", f"{_CASE}/claim", case_page.enter_case, _DECIDE),
    ConsolePage("POST", f"{_CASE}/{{claim:release|skip|cannot-tell}}", case_page.leave_case, _DECIDE),
    ConsolePage("POST", f"{_CASE}/{{decision}}", case_page.decide, _DECIDE),
    ConsolePage("GET", "/console/players", player_profile.find_player),
    ConsolePage("GET", _PLAYER, player_profile.show_player_page),
    ConsolePage("POST", f"{_PLAYER}/rename", player_profile.rename, Ability.OVERRULE),
    ConsolePage("POST", f"{_PLAYER}/rename/undo", player_profile.undo_rename, Ability.OVERRULE),
    ConsolePage("POST", f"{_PLAYER}/bans", player_profile.ban, Ability.OVERRULE),
    ConsolePage("POST", f"{_PLAYER}/bans/{{ban}}/lift", player_profile.unban, Ability.OVERRULE),
    ConsolePage("GET", batches_page.BATCHES, batches_page.show_batches),
    ConsolePage("POST", batches_page.BATCHES, batches_page.preview, Ability.OVERRULE),
    ConsolePage("GET", _BATCH, batches_page.show_batch),
    ConsolePage("POST", f"{_BATCH}/{{way:apply|reverse|abandon}}", batches_page.turn_batch, Ability.OVERRULE),
    ConsolePage("GET", figures_page.FIGURES, figures_page.show_figures_page),
    ConsolePage("GET", trail_page.TRAIL, trail_page.show_trail_page),
    ConsolePage("GET", "/console/account", account_page.show_account),
    ConsolePage("POST", "/console/account/password", account_page.change_password),
    ConsolePage("POST", "/console/account/second-factor", account_page.begin_second_factor),
    ConsolePage("POST", "/console/account/second-factor/confirm", account_page.confirm_second_factor),
    ConsolePage("POST", "/console/account/second-factor/remove", account_page.remove_second_factor),
    ConsolePage("POST", "/console/account/tokens", account_page.issue_token),
    ConsolePage("POST", "/console/account/tokens/{token}/revoke", account_page.revoke_token),
    ConsolePage("POST", "/console/account/sessions/end", account_page.end_sessions),
    ConsolePage("POST", "/console/account/sessions/{session}/end", account_page.end_session),
    ConsolePage("GET", "/console/people", people_page.show_people, _ADMINISTER),
    ConsolePage("POST", "/console/people", people_page.add_person, _ADMINISTER),
    ConsolePage("GET", _PERSON, people_page.show_person, _ADMINISTER),
    ConsolePage("POST", _PERSON, people_page.change_person, _ADMINISTER),
    ConsolePage("POST", f"{_PERSON}/sessions/end", people_page.end_sessions_of_person, _ADMINISTER),
    ConsolePage(
        "POST", f"{_PERSON}/tokens/{{token}}/revoke", people_page.revoke_token_of_person, _ADMINISTER
    ),
    ConsolePage("POST", f"{_PERSON}/{{turn}}", people_page.turn_person, _ADMINISTER),
)


def add_console(app: web.Application) -> None:
    """Add the pages and their files to the application."""
    for page in CONSOLE_PAGES:
        handler = budgeted(page.path, page.handler) if page.method == "GET" else page.handler
        app.router.add_route(page.method, page.path, handler)
    add_static_files(app)
