"""Every kind of read of boards of all kinds answers what plain SQL over the acknowledged operations says."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from tests.oracle import calendars, oracle
from tests.oracle.modes import (
    Mode,
    after_emptying,
    from_archives,
    play,
    while_cold,
    with_the_index,
    with_the_ledger_alone,
)
from tests.oracle.reads import Report
from tests.oracle.stores import Stores, on_a_cluster, on_one_server
from tests.support.cluster import ValkeyCluster
from tests.support.postgres import PostgresServer
from tests.support.thorough import examples, thoroughly
from tests.support.valkey import ValkeyServer, running_valkey

SEED = int(os.environ.get("ORACLE_SEED", "1"))
OPERATIONS = examples(60)
ANSWERS = 120
OURS = {"gateway", "validators", "replay", "policies", "scoregate"}


@pytest.mark.parametrize("module", [oracle, calendars])
def test_the_oracle_shares_no_code(module):
    """It imports nothing of ours but itself."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    names = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert set() == {name for name in names if name.split(".")[0] in OURS}
    assert {"tests.oracle.calendars"} >= {name for name in names if name.startswith("tests")}


async def assert_all_reads_agree(stores: Stores, mode: Mode, seed: int) -> None:
    report = Report()
    operations = await play(stores, mode, seed=seed, operations=OPERATIONS, report=report)
    assert [] == report.differences, "\n\n".join(report.differences[:5])
    assert operations > OPERATIONS / 2
    assert report.answers > ANSWERS


@pytest.mark.parametrize(
    ("mode", "seed"),
    [
        (with_the_index, SEED),
        *thoroughly((after_emptying, SEED + 1)),  # ordinarily on a cluster alone
        (from_archives, SEED + 2),
        (while_cold, SEED + 3),
    ],
)
async def test_every_read_is_what_sql_says(mode: Mode, seed: int, tmp_path: Path, valkey: ValkeyServer):
    """With the index, right after Redis was emptied and once it is rebuilt, from the archive, and while boards are cold."""
    await assert_all_reads_agree(on_one_server(valkey, tmp_path), mode, seed)


async def test_every_read_is_what_sql_says_without_redis(tmp_path: Path):
    """From the ledger alone; what only the index can say is refused."""
    with running_valkey() as valkey:
        await assert_all_reads_agree(on_one_server(valkey, tmp_path), with_the_ledger_alone, SEED + 4)


async def test_every_read_is_what_sql_says_on_a_cluster(
    tmp_path: Path, cluster: ValkeyCluster, postgres_server: PostgresServer, valkey: ValkeyServer
):
    """On a Redis Cluster and PostgreSQL: whole, emptied, and rebuilt."""
    async with on_a_cluster(cluster, postgres_server, valkey, tmp_path) as stores:
        await assert_all_reads_agree(stores, after_emptying, SEED + 5)
