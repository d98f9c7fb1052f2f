"""Players as moderators see them: found, read, renamed and banned."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from .connection import segment
from .moderator_requests import ModeratorRequests, Time, sent
from .player_models import Ban, NamedPlayer, PlayedSubmission, Profile, Rename


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


def _player_path(player: str) -> str:
    return f"/players/{segment(player)}"
