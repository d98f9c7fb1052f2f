"""Accounts of moderators in the log, and what else reads the log."""

from __future__ import annotations

import json

import pytest

from gateway.ledger.acts import Act
from gateway.ledger.boards.board_life import check_boards
from gateway.ledger.derived import log
from gateway.ledger.index_pages import changes_after
from gateway.ledger.moderation import accounts
from gateway.ledger.moderation.account_rows import ADMIN, EVERYWHERE, Account, ProviderIdentity
from gateway.ledger.moderation.accounts import (
    account_of,
    account_of_identity,
    accounts_after,
    add_account,
    change_account,
    disable_account,
    enable_account,
    offer_first_admin,
)
from gateway.ledger.moderation.api_tokens import TOKENS_LIMIT, TokenRecord, issue_token, token_of, tokens_of
from gateway.ledger.moderation.invitations import (
    Invitation,
    accept_invitation,
    accept_with_identity,
    change_password,
    invite,
)
from gateway.ledger.moderation.second_factors import (
    begin_second_factor,
    confirm_second_factor,
    remove_second_factor,
)
from gateway.ledger.moderation.sessions import (
    SESSIONS_LIMIT,
    SessionRecord,
    open_session,
    session_of,
    sessions_of,
)
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.chain import add, leaves_from, seal_of
from gateway.ledger.seals.signing_keys import PublicKeys, SealKey
from policies.choices import Operator
from policies.errors import AccountConflict, AccountOvertaken
from policies.fields import SortOrder
from tests.support.books import Books, board_of
from tests.support.ledger import NOON_MS, new_submission

ACT = Act("moderator:root", NOON_MS)
EVERYTHING = {EVERYWHERE: ADMIN}
SOON = NOON_MS + 1_000


@pytest.fixture
def books() -> Books:
    return Books(board_of(Operator.BEST, SortOrder.DESCENDING))


def account(books: Books, name: str = "mara") -> Account:
    found = books.do(account_of(name))
    assert found is not None
    return found


def a_token(number: int, *, until_ms: int = SOON) -> TokenRecord:
    name = f"t{number}"
    return TokenRecord(name.encode(), name, "mara", "a program", "decide", ("tiny",), NOON_MS, until_ms)


def a_session(number: int, *, at_ms: int = NOON_MS) -> SessionRecord:
    name = f"s{number}"
    return SessionRecord(name.encode(), name, "mara", "address", "a browser", at_ms, at_ms, at_ms + 1_000)


async def test_M09_events_of_accounts_are_sealed_and_disturb_no_reader(books: Books):
    """Between two submissions: the audit counts them, followers and rebuilds pass over them, and no board has them."""
    books.append([new_submission("one")])
    books.do(add_account("mara", EVERYTHING, ACT))
    books.do(change_account("mara", ACT, grants=EVERYTHING, players=["p1"]))
    books.append([new_submission("two")])
    key = SealKey(bytes(32))
    leaves = [leaf.digest async for leaf in leaves_from(books, 1)]
    assert 4 == len(leaves)
    assert books.do(add(seal_of(key, None, leaves, at_ms=NOON_MS), leaves))
    report = await audit(books, PublicKeys(key.public_key))
    assert (4, 4, 2, 0) == (report.events, report.sealed_events, report.submissions, report.boards)
    followed = books.do(log.events_after(0, count=10))
    assert (["one", "two"], 4, True) == (
        [each.submission_id for each in followed.events], followed.upto, followed.is_newest
    )  # fmt: skip
    assert {"tiny": 4} == books.do(log.boards_between(0, 4))
    changes = books.do(changes_after("tiny", 0, now_ms=NOON_MS, count=10))
    assert [1, 4] == [event.seq for event in changes.events]
    assert 0 == await check_boards(books)


def test_the_last_admin_stays(books: Books):
    """Neither disabled nor changed to less, until there is another who may change accounts."""
    books.do(add_account("mara", EVERYTHING, ACT))
    books.do(add_account("far", {"tiny": ADMIN}, ACT))
    for work in (
        disable_account("mara", ACT),
        change_account("mara", ACT, grants={"tiny": ADMIN}, players=()),
        change_account("mara", ACT, grants={EVERYWHERE: "senior"}, players=()),
    ):
        with pytest.raises(AccountConflict, match="last admin"):
            books.do(work)
    books.do(add_account("noor", EVERYTHING, ACT))
    assert books.do(disable_account("mara", ACT)).is_disabled
    with pytest.raises(AccountConflict, match="last admin"):
        books.do(disable_account("noor", ACT))
    books.do(enable_account("mara", ACT))
    assert books.do(disable_account("noor", ACT)).is_disabled


def test_an_account_has_one_way_in_and_a_person_one_account(books: Books):
    """A password takes the place of an identity and the other way round; both end what was open; the last admin stays."""
    person, other = (
        ProviderIdentity("https://id.example", "1"),
        ProviderIdentity("https://other.example", "1"),
    )
    for name, secret in (("mara", b"1"), ("noor", b"2")):
        books.do(add_account(name, EVERYTHING, ACT, invitation=Invitation(secret, SOON)))
    books.do(accept_invitation(b"1", "hash", at_ms=NOON_MS))
    books.do(invite("mara", Invitation(b"3", SOON), ACT))
    books.do(open_session(a_session(1), password="hash", idle_since_ms=0))
    assert books.do(accept_with_identity(b"3", person, at_ms=NOON_MS)) is not None
    assert (None, person, []) == (
        account(books).password,
        account(books).identity,
        books.do(sessions_of("mara")),
    )
    assert books.do(accept_with_identity(b"3", person, at_ms=NOON_MS)) is None
    assert "mara" == books.do(account_of_identity(person)).name  # type: ignore[union-attr]
    assert books.do(account_of_identity(other)) is None
    with pytest.raises(AccountConflict, match="last admin"):
        books.do(disable_account("mara", ACT))
    with pytest.raises(AccountConflict, match="another account logs in"):
        books.do(accept_with_identity(b"2", person, at_ms=NOON_MS))
    assert not books.do(open_session(a_session(2), password=None, identity=other, idle_since_ms=0))
    assert books.do(open_session(a_session(2), password=None, identity=person, idle_since_ms=0))
    books.do(invite("mara", Invitation(b"4", SOON), ACT))
    books.do(accept_invitation(b"4", "hash", at_ms=NOON_MS))
    assert ("hash", None) == (account(books).password, account(books).identity)
    assert books.do(accept_with_identity(b"2", person, at_ms=NOON_MS)) is not None
    assert books.do(disable_account("mara", ACT)).is_disabled


def test_an_admin_who_was_never_let_in_is_no_other(books: Books):
    """The last who can log in stays, whoever else was invited to be one."""
    for name, secret in (("mara", b"1"), ("noor", b"2")):
        books.do(add_account(name, EVERYTHING, ACT, invitation=Invitation(secret, SOON)))
    books.do(accept_invitation(b"1", "hash", at_ms=NOON_MS))
    for work in (disable_account("mara", ACT), invite("mara", Invitation(b"3", SOON), ACT, is_reset=True)):
        with pytest.raises(AccountConflict, match="last admin"):
            books.do(work)
    books.do(accept_invitation(b"2", "hash", at_ms=NOON_MS))
    assert books.do(disable_account("mara", ACT)).is_disabled


def test_who_read_an_older_account_changes_nothing(books: Books):
    """Of two admins who change one account at once, the second is told to read it again."""
    version = books.do(add_account("mara", EVERYTHING, ACT)).version
    change = {"grants": EVERYTHING, "players": ["p1"]}
    after = books.do(change_account("mara", ACT, version=version, **change))
    assert after.version > version
    with pytest.raises(AccountOvertaken):
        books.do(change_account("mara", ACT, version=version, grants=EVERYTHING, players=()))
    assert ("p1",) == account(books).players
    again = books.do(change_account("mara", ACT, version=after.version, **change))
    assert after.version == again.version, "what is so already is no change"


def test_the_event_of_a_change_says_what_was_granted_before(books: Books):
    """Beside what is granted now: whoever reads the trail sees what was given and what was taken."""
    books.do(add_account("root", EVERYTHING, ACT))
    books.do(add_account("mara", {"tiny": "viewer"}, ACT))
    books.do(change_account("mara", ACT, grants={"tiny": "moderator"}, players=["p1"]))
    [[detail]] = books.rows("SELECT detail FROM events ORDER BY seq DESC LIMIT 1")
    told = {"grants": {"tiny": "moderator"}, "players": ["p1"], "before": {"tiny": "viewer"}}
    assert told.items() <= json.loads(detail).items()


def test_accounts_are_listed_by_name_with_all_that_they_are_granted(books: Books):
    for name in ("noor", "mara", "lena"):
        books.do(add_account(name, {"tiny": "viewer", EVERYWHERE: name[:1]}, ACT))
    first = books.do(accounts_after("", count=2))
    rest = books.do(accounts_after(first[-1].name, count=2))
    assert ["lena", "mara", "noor"] == [each.name for each in [*first, *rest]]
    assert {"tiny": "viewer", EVERYWHERE: "n"} == rest[0].grants
    assert NOON_MS == rest[0].created_at_ms
    with pytest.raises(AccountConflict, match="another account"):
        books.do(add_account("mara", EVERYTHING, ACT))


def test_the_first_admin_is_offered_until_one_has_a_password(books: Books):
    """Each offer ends the one before; once an admin can log in there is none."""
    for number in (1, 2):
        assert books.do(offer_first_admin("admin", Invitation(bytes([number]), SOON), ACT))
    assert books.do(accept_invitation(bytes([1]), "hash", at_ms=NOON_MS)) is None
    assert books.do(accept_invitation(bytes([2]), "hash", at_ms=SOON)) is None, "its time is over"
    accepted = books.do(accept_invitation(bytes([2]), "hash", at_ms=NOON_MS))
    assert accepted is not None
    assert ("admin", "hash") == (accepted.name, accepted.password)
    assert not books.do(offer_first_admin("admin", Invitation(bytes([3]), SOON), ACT))


def test_nobody_is_made_admin_by_the_name_of_the_offer(books: Books):
    """An account of that name that is no admin, or was disabled, is left as it is."""
    books.do(add_account("root", EVERYTHING, ACT))
    books.do(add_account("admin", {"tiny": "viewer"}, ACT))
    assert not books.do(offer_first_admin("admin", Invitation(b"1", SOON), ACT))
    assert {"tiny": "viewer"} == account(books, "admin").grants


def test_a_reset_takes_everything_that_lets_an_account_in(books: Books):
    books.do(add_account("mara", {EVERYWHERE: "senior"}, ACT, invitation=Invitation(b"1", SOON)))
    books.do(accept_invitation(b"1", "hash", at_ms=NOON_MS))
    books.do(issue_token(a_token(1), ACT))
    assert books.do(open_session(a_session(1), password="hash", idle_since_ms=0))
    books.do(invite("mara", Invitation(b"2", SOON), ACT, is_reset=True))
    assert account(books).password is None
    assert (None, None) == (books.do(token_of(b"t1")), books.do(session_of(b"s1")))
    assert books.do(accept_invitation(b"2", "other", at_ms=NOON_MS)) is not None


def test_M11_a_password_that_was_replaced_during_a_login_opens_nothing(books: Books):
    """A login compares for a while; whoever is reset meanwhile is not let in by what they showed before."""
    books.do(add_account("mara", {EVERYWHERE: "senior"}, ACT, invitation=Invitation(b"1", SOON)))
    books.do(accept_invitation(b"1", "hash", at_ms=NOON_MS))
    books.do(invite("mara", Invitation(b"2", SOON), ACT, is_reset=True))
    assert not books.do(open_session(a_session(1), password="hash", idle_since_ms=0))
    assert [] == books.do(sessions_of("mara"))


def test_tokens_of_an_account_are_few_and_those_that_are_over_make_room(books: Books):
    books.do(add_account("mara", EVERYTHING, ACT))
    books.do(issue_token(a_token(0, until_ms=NOON_MS), ACT))
    for number in range(1, TOKENS_LIMIT + 1):
        books.do(issue_token(a_token(number), ACT))
    with pytest.raises(AccountConflict, match="revoke one first"):
        books.do(issue_token(a_token(99), ACT))
    listed = books.do(tokens_of("mara"))
    assert (TOKENS_LIMIT, None) == (len(listed), books.do(token_of(b"t0")))
    assert ("tiny",) == listed[0].scopes


def test_tokens_are_listed_with_the_newest_first_and_none_is_issued_to_who_is_disabled(books: Books):
    """An account that was disabled while its request came gets no key to come back with."""
    books.do(add_account("mara", EVERYTHING, ACT))
    books.do(add_account("noor", EVERYTHING, ACT))
    for number, at_ms in ((1, NOON_MS), (3, NOON_MS), (2, NOON_MS + 1)):
        books.do(issue_token(a_token(number)._replace(created_at_ms=at_ms), ACT))
    assert ["t2", "t3", "t1"] == [token.token_id for token in books.do(tokens_of("mara"))]
    books.do(disable_account("mara", ACT))
    for work in (issue_token(a_token(4), ACT), issue_token(a_token(5)._replace(moderator="nobody"), ACT)):
        with pytest.raises(AccountConflict, match="no such account, or it is disabled"):
            books.do(work)
    assert (None, None) == (books.do(token_of(b"t4")), books.do(token_of(b"t5")))


def test_a_further_login_ends_the_oldest_session(books: Books):
    books.do(add_account("mara", EVERYTHING, ACT))
    for number in range(SESSIONS_LIMIT + 1):
        books.do(open_session(a_session(number, at_ms=NOON_MS + number), password=None, idle_since_ms=0))
    listed = books.do(sessions_of("mara"))
    assert (SESSIONS_LIMIT, f"s{SESSIONS_LIMIT}", "s1") == (
        len(listed), listed[0].session_id, listed[-1].session_id
    )  # fmt: skip
    books.do(add_account("noor", EVERYTHING, ACT))
    books.do(disable_account("mara", ACT))
    assert not books.do(open_session(a_session(99), password=None, idle_since_ms=0))


def test_there_are_so_many_accounts_and_no_more(books: Books, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accounts, "ACCOUNTS_LIMIT", 2)
    for name in ("mara", "noor"):
        books.do(add_account(name, EVERYTHING, ACT))
    with pytest.raises(AccountConflict, match="2 accounts"):
        books.do(add_account("lena", EVERYTHING, ACT))


def test_what_is_disabled_or_enabled_already_stays_as_it_is(books: Books):
    """A repetition is no event, and leaves the version that others read."""
    for name in ("mara", "noor"):
        books.do(add_account(name, EVERYTHING, ACT))
    for turn in (enable_account, disable_account, enable_account):
        version = books.do(turn("mara", ACT)).version
        assert version == books.do(turn("mara", ACT)).version


def test_a_second_factor_is_confirmed_by_a_code_of_the_secret_that_was_begun_last(books: Books):
    """One that was replaced meanwhile confirms nothing, and one that is confirmed is not begun anew."""
    books.do(add_account("mara", EVERYTHING, ACT))
    for secret in (b"one", b"two"):
        books.do(begin_second_factor("mara", secret))
    with pytest.raises(AccountOvertaken):
        books.do(confirm_second_factor("mara", b"one", 1, ACT))
    assert not account(books).has_second_factor
    assert books.do(confirm_second_factor("mara", b"two", 1, ACT)).has_second_factor
    with pytest.raises(AccountOvertaken):
        books.do(confirm_second_factor("mara", b"two", 2, ACT))
    with pytest.raises(AccountConflict, match="remove it first"):
        books.do(begin_second_factor("mara", b"three"))


def test_a_second_factor_is_removed_whether_it_was_confirmed_or_not(books: Books):
    """Of one that never was, nobody has to be told."""
    books.do(add_account("mara", EVERYTHING, ACT))
    version = account(books).version
    books.do(begin_second_factor("mara", b"one"))
    assert not books.do(remove_second_factor("mara", ACT)).has_second_factor
    assert (None, version) == (account(books).second_factor, account(books).version)
    books.do(begin_second_factor("mara", b"two"))
    books.do(confirm_second_factor("mara", b"two", 1, ACT))
    books.do(remove_second_factor("mara", ACT))
    assert account(books).second_factor is None
    assert version < account(books).version


def test_who_logs_in_through_a_provider_from_now_on_has_no_code_here(books: Books):
    """The provider asks for one; a factor that was left would lock out whoever has lost it."""
    books.do(add_account("mara", EVERYTHING, ACT, invitation=Invitation(b"1", SOON)))
    books.do(begin_second_factor("mara", b"one"))
    books.do(confirm_second_factor("mara", b"one", 1, ACT))
    person = ProviderIdentity("https://id.example", "1")
    accepted = books.do(accept_with_identity(b"1", person, at_ms=NOON_MS))
    assert accepted is not None
    assert (None, None) == (accepted.second_factor, accepted.second_factor_step)


def test_M11_a_password_is_changed_only_by_whom_showed_the_one_that_holds(books: Books):
    """Who was reset, or changed it elsewhere, while a request compared the old one is not overwritten by it."""
    books.do(add_account("mara", EVERYTHING, ACT, invitation=Invitation(b"1", SOON)))
    books.do(accept_invitation(b"1", "hash", at_ms=NOON_MS))
    books.do(change_password("mara", "hash", "second", ACT))
    with pytest.raises(AccountOvertaken):
        books.do(change_password("mara", "hash", "third", ACT))
    assert "second" == account(books).password
