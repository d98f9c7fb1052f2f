"""The synchronous clients: those of asyncio, over a transport and a runner that block instead of waiting.

They need no event loop, may be used from several threads, and open a connection for each request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .blocking import Blocking, blocking, blocking_each, without_loop
from .client import ScoregateClient
from .connection import ClientOptions
from .moderator import ModeratorClient
from .server import ServerClient


class SyncScoregateClient(Blocking[ScoregateClient]):
    """The client of one player's game, without asyncio. See `ScoregateClient`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        queue: Path | str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(ScoregateClient(base_url, token=token, queue=queue, **without_loop(options)))

    @property
    def token(self) -> str | None:
        """Return the player's bearer token."""
        return self.core.token

    @token.setter
    def token(self, token: str | None) -> None:
        self.core.token = token

    create_player = blocking(ScoregateClient.create_player)
    open_run = blocking(ScoregateClient.open_run)
    submit = blocking(ScoregateClient.submit)
    commit = blocking(ScoregateClient.commit)
    submit_later = blocking(ScoregateClient.submit_later)
    flush = blocking(ScoregateClient.flush)
    waiting = blocking(ScoregateClient.waiting)
    reveals = blocking(ScoregateClient.reveals)
    reveal = blocking(ScoregateClient.reveal)
    answer = blocking(ScoregateClient.answer)
    appeal = blocking(ScoregateClient.appeal)
    submission = blocking(ScoregateClient.submission)
    wait_until_settled = blocking(ScoregateClient.wait_until_settled)
    watch = blocking_each(ScoregateClient.watch)
    boards = blocking(ScoregateClient.boards)
    board = blocking(ScoregateClient.board)
    entries = blocking(ScoregateClient.entries)
    entry = blocking(ScoregateClient.entry)
    around = blocking(ScoregateClient.around)
    friends = blocking(ScoregateClient.friends)
    follow = blocking(ScoregateClient.follow)
    unfollow = blocking(ScoregateClient.unfollow)
    memberships = blocking(ScoregateClient.memberships)
    set_membership = blocking(ScoregateClient.set_membership)
    join = blocking(ScoregateClient.join)
    leave = blocking(ScoregateClient.leave)
    families = blocking(ScoregateClient.families)
    family_boards = blocking(ScoregateClient.family_boards)
    standings = blocking(ScoregateClient.standings)
    entries_on = blocking(ScoregateClient.entries_on)
    asset = blocking(ScoregateClient.asset)


class SyncServerClient(Blocking[ServerClient]):
    """The client of a trusted server, without asyncio. See `ServerClient`."""

    def __init__(
        self, base_url: str, keyid: str, private_key: Ed25519PrivateKey, **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(ServerClient(base_url, keyid, private_key, **without_loop(options)))

    write_entry = blocking(ServerClient.write_entry)
    remove = blocking(ServerClient.remove)
    increment = blocking(ServerClient.increment)
    set_friends = blocking(ServerClient.set_friends)
    set_memberships = blocking(ServerClient.set_memberships)
    set_joined = blocking(ServerClient.set_joined)
    write_batch = blocking(ServerClient.write_batch)
    write_each = blocking(ServerClient.write_each)
    operate_boards = blocking(ServerClient.operate_boards)
    open_boards = blocking(ServerClient.open_boards)
    change_boards = blocking(ServerClient.change_boards)
    close_boards = blocking(ServerClient.close_boards)
    reopen_boards = blocking(ServerClient.reopen_boards)
    delete_boards = blocking(ServerClient.delete_boards)
    store_asset = blocking(ServerClient.store_asset)
    families = blocking(ServerClient.families)
    family_boards = blocking(ServerClient.family_boards)
    standings = blocking(ServerClient.standings)
    entries_on = blocking(ServerClient.entries_on)
    asset = blocking(ServerClient.asset)


class SyncModeratorClient(Blocking[ModeratorClient]):
    """The client of a moderator's program, without asyncio. See `ModeratorClient`."""

    def __init__(self, base_url: str, token: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(ModeratorClient(base_url, token, **without_loop(options)))

    who_am_i = blocking(ModeratorClient.who_am_i)
    figures = blocking(ModeratorClient.figures)
    trail = blocking_each(ModeratorClient.trail)
    trail_csv = blocking(ModeratorClient.trail_csv)
    queue = blocking_each(ModeratorClient.queue)
    appeals = blocking_each(ModeratorClient.appeals)
    counts = blocking(ModeratorClient.counts)
    next_case = blocking(ModeratorClient.next_case)
    watch_queue = blocking_each(ModeratorClient.watch_queue)
    views = blocking(ModeratorClient.views)
    save_view = blocking(ModeratorClient.save_view)
    remove_view = blocking(ModeratorClient.remove_view)
    claim = blocking(ModeratorClient.claim)
    release = blocking(ModeratorClient.release)
    skip = blocking(ModeratorClient.skip)
    cannot_tell = blocking(ModeratorClient.cannot_tell)
    case = blocking(ModeratorClient.case)
    surroundings = blocking(ModeratorClient.surroundings)
    recording = blocking(ModeratorClient.recording)
    approve = blocking(ModeratorClient.approve)
    reject = blocking(ModeratorClient.reject)
    hold = blocking(ModeratorClient.hold)
    revoke = blocking(ModeratorClient.revoke)
    reinstate = blocking(ModeratorClient.reinstate)
    undo = blocking(ModeratorClient.undo)
    players_named = blocking_each(ModeratorClient.players_named)
    player = blocking(ModeratorClient.player)
    submissions_of = blocking_each(ModeratorClient.submissions_of)
    ban = blocking(ModeratorClient.ban)
    lift_ban = blocking(ModeratorClient.lift_ban)
    rename = blocking(ModeratorClient.rename)
    undo_rename = blocking(ModeratorClient.undo_rename)
    identities = blocking(ModeratorClient.identities)
    unlink = blocking(ModeratorClient.unlink)
    merges = blocking(ModeratorClient.merges)
    undo_merge = blocking(ModeratorClient.undo_merge)
    preview_batch = blocking(ModeratorClient.preview_batch)
    apply_batch = blocking(ModeratorClient.apply_batch)
    reverse_batch = blocking(ModeratorClient.reverse_batch)
    abandon_batch = blocking(ModeratorClient.abandon_batch)
    batch = blocking(ModeratorClient.batch)
    await_batch = blocking(ModeratorClient.await_batch)
    batches = blocking_each(ModeratorClient.batches)
    batch_items = blocking_each(ModeratorClient.batch_items)
    people = blocking_each(ModeratorClient.people)
    person = blocking(ModeratorClient.person)
    add_person = blocking(ModeratorClient.add_person)
    change_person = blocking(ModeratorClient.change_person)
    disable_person = blocking(ModeratorClient.disable_person)
    enable_person = blocking(ModeratorClient.enable_person)
    invite_again = blocking(ModeratorClient.invite_again)
    reset_person = blocking(ModeratorClient.reset_person)
