"""Accounts, sessions and tokens of moderators on PostgreSQL, as the application's role may write them."""

from __future__ import annotations

from gateway.ledger import queries
from gateway.ledger.acts import Act
from gateway.ledger.moderation import accounts, api_tokens, invitations, renames, second_factors, sessions
from gateway.ledger.moderation.account_rows import ADMIN, EVERYWHERE
from gateway.ledger.moderation.api_tokens import TokenRecord
from gateway.ledger.moderation.invitations import Invitation
from gateway.ledger.moderation.sessions import SessionRecord
from gateway.ledger.players.addresses import (
    AGAIN_MS,
    KEPT,
    Sharer,
    forget_addresses,
    shared_addresses,
)
from gateway.ledger.players.player_names import players_named
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import PostgresStore, open_in

ACT = Act("operator:test", NOON_MS)
SOON = NOON_MS + 1_000


async def test_a_moderator_comes_and_goes(postgres_store: PostgresStore):
    """Invited, in a session, with a token and a second factor; then disabled, and everything has ended."""
    session = SessionRecord(b"s", "s1", "mara", "address", "a browser", NOON_MS, NOON_MS, SOON)
    token = TokenRecord(b"t", "t1", "mara", "a program", "decide", (), NOON_MS, SOON)
    async with open_in(postgres_store) as ledger:
        assert await ledger.write(accounts.offer_first_admin("root", Invitation(b"r", SOON), ACT))
        grants = {EVERYWHERE: ADMIN, "tiny": "viewer"}
        await ledger.write(accounts.add_account("mara", grants, ACT, invitation=Invitation(b"i", SOON)))
        assert await ledger.write(invitations.accept_invitation(b"i", "hash", at_ms=NOON_MS))
        assert not await ledger.write(accounts.offer_first_admin("root", Invitation(b"x", SOON), ACT))
        assert await ledger.write(invitations.accept_invitation(b"r", "hash", at_ms=NOON_MS))
        assert await ledger.write(sessions.open_session(session, password="hash", idle_since_ms=0))
        await ledger.write(sessions.use_session(b"s", now_ms=NOON_MS + 7))
        await ledger.write(api_tokens.issue_token(token, ACT))
        await ledger.write(second_factors.begin_second_factor("mara", b"secret"))
        await ledger.write(second_factors.confirm_second_factor("mara", b"secret", 5, ACT))
        taken = [await ledger.write(second_factors.take_step("mara", step)) for step in (5, 6, 6)]
        assert [False, True, False] == taken
        [found, account] = await ledger.read(sessions.session_of(b"s")) or [None, None]
        assert found == session._replace(used_at_ms=NOON_MS + 7)
        assert account is not None
        assert (grants, "hash", b"secret", 6) == (
            account.grants, account.password, account.second_factor, account.second_factor_step
        )  # fmt: skip
        change = accounts.change_account("mara", ACT, grants={"tiny": "viewer"}, players=["p1"])
        assert {"tiny": "viewer"} == (await ledger.write(change)).grants
        assert (await ledger.write(accounts.disable_account("mara", ACT))).is_disabled
        assert [] == await ledger.read(sessions.sessions_of("mara"))
        assert [] == await ledger.read(api_tokens.tokens_of("mara"))
        assert ["mara", "root"] == [
            each.name for each in await ledger.read(accounts.accounts_after("", count=9))
        ]
        assert 8 == (await audit(ledger, PublicKeys())).events


async def test_players_are_found_renamed_and_seen_at_addresses(postgres_store: PostgresStore):
    """With their names changed and given back, and the addresses written, written again, replaced and forgotten."""
    everywhere = frozenset({EVERYWHERE})
    async with open_in(postgres_store) as ledger:
        for name in ("Ada", "Bob"):
            adding = queries.add_player(name.lower(), name, now_ms=NOON_MS, is_unique=True)
            await ledger.write(adding)
            for number, at_ms in enumerate((NOON_MS, NOON_MS + AGAIN_MS)):
                run = new_submission(f"{name}-{number}", player=name.lower(), at_ms=at_ms)
                await ledger.append(run._replace(address="home"))
        [shared] = await ledger.read(shared_addresses("ada", everywhere))
        assert ("home", NOON_MS + AGAIN_MS, [Sharer("bob", "Bob")], True) == shared

        new = {"code": "abusive", "note": "", "is_unique": True}
        assert (await ledger.write(renames.rename("ada", "Ada", "Ida", ACT, **new))).is_new
        for beginning, found in (("id", ["Ida"]), ("a", []), ("", ["Bob", "Ida"])):
            page = await ledger.read(players_named(beginning, everywhere, count=9))
            assert found == [player.name for player in page.players]
        undone = await ledger.write(renames.undo_rename("ada", "Ida", ACT, is_unique=True))
        assert [undone.rename] == await ledger.read(renames.renames_of("ada", count=9))
        assert undone.rename.is_undone

        for number in range(KEPT):
            run = new_submission(f"new-{number}", player="ada", at_ms=NOON_MS + AGAIN_MS + 1 + number)
            await ledger.append(run._replace(address=f"away-{number}"))
        away = [each.address for each in await ledger.read(shared_addresses("ada", everywhere))]
        assert [f"away-{number}" for number in reversed(range(KEPT))] == away
        assert KEPT + 1 == await ledger.write(forget_addresses(before_ms=NOON_MS + 2 * AGAIN_MS))
        assert [] == await ledger.read(shared_addresses("ada", everywhere))
