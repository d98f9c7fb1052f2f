"""What a stolen key wrote, found from the very moment on that it was stolen at, on every ledger."""

from __future__ import annotations

from gateway.ledger import queries
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.vocabulary import Reason, State
from tests.contract.test_expiry import BOARD
from tests.contract.test_learning import Nowhere
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in

KEY = "server:eu-1"


async def test_T02_what_came_in_the_first_millisecond_is_among_it(store: Store):
    """And what was revoked in it is known as revoked, where it is taken back in parts."""
    async with open_in(store) as ledger:
        await ledger.append(new_submission("one", credential=KEY, at_ms=NOON_MS))
        found, revoked = [], []
        for state in (State.PROMOTED, State.REVOKED):
            decision = Decision("one", state, KEY, Reason.TRUSTED, NOON_MS, frozenset(State))
            await settle(ledger, Nowhere(), BOARD, [decision])
            for since_ms in (NOON_MS, NOON_MS + 1):
                counting = queries.counting_submissions(KEY, since_ms=since_ms, after=0, upto=9, count=9)
                found.append([each.submission_id for each in await ledger.read(counting)])
                ended = queries.revocations_by(KEY, since_ms=since_ms, after=0, upto=9, count=9)
                revoked.append([name for _, name in await ledger.read(ended)])
    assert [["one"], [], [], []] == found
    assert [[], [], ["one"], []] == revoked
