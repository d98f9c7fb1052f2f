"""Players as moderators see them: found, read, renamed and banned."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from .connection import segment
from .documents import page_of
from .moderator_requests import ModeratorRequests, Time, sent
from .player_models import Ban, Identity, Merge, NamedPlayer, PlayedSubmission, Profile, Rename


class PlayerModeration(ModeratorRequests):
    """What moderators read of players, and do with them."""

    def players_named(self, beginning: str) -> AsyncGenerator[NamedPlayer, None]:
        """Yield the players on your boards whose names begin so; look-alikes and case make no difference."""
        return self._all(NamedPlayer, "/players", "players", {"name": beginning})

    async def player(self, player: str) -> Profile:
        """Return a player, as far as your boards reach."""
        return Profile.from_json(await self._read(_player_path(player)))

    def submissions_of(self, player: str) -> AsyncGenerator[PlayedSubmission, None]:
        """Yield the submissions of a player on your boards, newest first."""
        return self._all(PlayedSubmission, f"{_player_path(player)}/submissions", "submissions", {})

    async def ban(
        self,
        player: str,
        operation: str,
        code: str,
        *,
        board: str | None = None,
        family: str | None = None,
        until: Time | None = None,
        note: str = "",
        message: str = "",
        shadow: bool = False,
    ) -> Ban:
        """Ban a player on a board, on a family, or without either everywhere; for good, or until a time.

        `operation` is your own id: the same one again gets the ban as it is now. With `shadow` the player is
        not told: they see themselves on boards, and nobody else does.
        """
        new = {
            "board": board,
            "family": family,
            "until": sent(until),
            "note": note,
            "message": message,
            "shadow": shadow,
        }
        given = {name: value for name, value in new.items() if value is not None}
        document = {"operation": operation, "code": code, **given}
        return Ban.from_json(await self._write("POST", f"{_player_path(player)}/bans", document))

    async def lift_ban(self, player: str, ban: str) -> Ban:
        """Lift a ban by its id. What it took off comes back, unless another ban covers it."""
        return Ban.from_json(await self._write("DELETE", f"{_player_path(player)}/bans/{segment(ban)}"))

    async def rename(self, player: str, was: str, name: str | None, code: str, *, note: str = "") -> Rename:
        """Give a player who is called `was` another name, or with None that of a player who chose none."""
        document = {"was": was, "code": code, "note": note} | ({} if name is None else {"name": name})
        return Rename.from_json(await self._write("POST", f"{_player_path(player)}/rename", document))

    async def undo_rename(self, player: str, was: str) -> Rename:
        """Take the last rename of a player back, who is called `was` now."""
        return Rename.from_json(
            await self._write("POST", f"{_player_path(player)}/rename/undo", {"was": was})
        )

    async def identities(self, player: str) -> list[Identity]:
        """Return by what a player can sign in, the oldest first."""
        answer = await self._read(f"{_player_path(player)}/identities")
        return page_of(Identity, "identities", answer)[0]

    async def unlink(self, player: str, identity: str) -> list[Identity]:
        """Take an identity from a player, end all their tokens, and return those that are left.

        Raises ScoregateError, `not-found`, if the player has none of this id, also if it was taken before.
        """
        answer = await self._write("DELETE", f"{_player_path(player)}/identities/{segment(identity)}")
        return page_of(Identity, "identities", answer)[0]

    async def merges(self, player: str) -> list[Merge]:
        """Return the newest merges of a player into others, and of others into the player."""
        return page_of(Merge, "merges", await self._read(f"{_player_path(player)}/merges"))[0]

    async def undo_merge(self, player: str, merge: str) -> Merge:
        """Undo a merge of a player by its id. What the source played counts for the source again."""
        return Merge.from_json(await self._write("DELETE", f"{_player_path(player)}/merges/{segment(merge)}"))


def _player_path(player: str) -> str:
    return f"/players/{segment(player)}"
