"""Accounts, sessions and tokens of moderators on PostgreSQL, as the application's role may write them."""

from __future__ import annotations

from gateway.ledger.moderation import accounts, api_tokens, invitations, second_factors, sessions
from gateway.ledger.moderation.account_rows import ADMIN, EVERYWHERE, Act
from gateway.ledger.moderation.api_tokens import TokenRecord
from gateway.ledger.moderation.invitations import Invitation
from gateway.ledger.moderation.sessions import SessionRecord
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from tests.support.ledger import NOON_MS
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
