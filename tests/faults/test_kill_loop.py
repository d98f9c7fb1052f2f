"""Several clients, and parts killed at random under them: at the end every submission is accounted for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.soak import Chaos
from tests.support.accounts import Accounts, audit
from tests.support.deployment import Deployment, deployed
from tests.support.ledger import is_intact
from tests.support.oracle import History, Sent, Told
from tests.support.postgres import APP, PostgresServer
from tests.support.seeds import fault_seed
from tests.support.thorough import examples
from tests.support.valkey import running_valkey

KILLS, KILLS_ON_POSTGRES = examples(5), examples(3)
CLIENTS = 4


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Deployment]:
    with running_valkey() as valkey, deployed(tmp_path, valkey, verify_batch=2) as deployment:
        yield deployment


async def killed_and_balanced(house: Deployment, kills: int, postgres: PostgresServer | None = None) -> None:
    """Asserts that the accounts balance after so many kills."""
    chance = random.Random(fault_seed())
    chaos = Chaos(house, house.folder, chance, clients=CLIENTS, postgres=postgres)
    balance = await chaos.run(lambda killed: killed >= kills, (0.2, 0.7))
    assert [] == [*balance.lost, *balance.doubled, *balance.stuck, *balance.strange]
    assert balance.is_index_equal
    assert balance.acknowledged >= 2 * kills


async def test_I10_I11_whatever_is_killed_the_accounts_balance(house: Deployment):
    """Every ok once in the ledger, every unknown at most once, all terminal by one verdict, the board the ledger's."""
    await killed_and_balanced(house, KILLS)
    assert {"promoted"} == set(house.states().values())
    assert is_intact(house.ledger)


async def test_I07_I10_I11_whatever_is_killed_the_accounts_balance_on_postgres(
    house: Deployment, mortal: PostgresServer
):
    """The same, with the database among those that die."""
    async with mortal.database() as name:
        house.settings["ledger_url"] = mortal.url(name, APP)
        try:
            await killed_and_balanced(house, KILLS_ON_POSTGRES, mortal)
        finally:
            house.stop_all()


def test_the_balance_finds_what_is_lost_doubled_stuck_and_strange():
    """Each kind of breach is seen and told; an unknown that is not there is none."""
    history = History(
        [Sent(seq, name, "tiny", "p", 1, 0, state) for seq, name, state in STORED],
        [
            Told(7, "twice", "pending", "promoted", "verified"),
            Told(8, "twice", "pending", "promoted", "verified"),
        ],
        {},
    )
    accounts = Accounts(
        sent={"gone", "twice", "waits", "maybe", "no"},
        acknowledged={"gone", "twice", "waits"},
        refused={"no"},
    )
    found = audit(accounts, history, [], killed=3, is_index_equal=False)
    assert (["gone"], ["twice"], ["waits"], ["nobody's"]) == (
        found.lost,
        found.doubled,
        found.stuck,
        found.strange,
    )
    assert not found.is_clean
    assert (
        "sent 5, acknowledged 3, unknown 1, killed 3, lost 1, doubled 1, stuck 1, strange 1, index DIFFERENT"
        == str(found)
    )


STORED = [(1, "twice", "promoted"), (2, "waits", "pending"), (3, "nobody's", "promoted")]
