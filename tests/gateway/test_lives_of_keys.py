"""Every key in Redis lives as long as the reference says: what is said to go by itself has an expiry, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.runtime.settings import Settings
from tests.support.attack import CLAIM, honest, registered
from tests.support.groups import call, fill, token_of
from tests.support.harness import Harness, free_port
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference" / "keys.md"
STAYS: Final = re.compile(
    "for ever|until settled|an hour each|about the last 20000|until the next change|until the board is back"
)
"""How the reference says that a key has no expiry."""
FORMS: Final = {
    "name": "(?:alltime|[a-z]+:[0-9W]+)",
    "kind": "[a-z]+",
    "lane": "(?:[0-9]+|[a-z]+/[0-9]+)",
    "board": "[^{}:]+",
    "number": "[0-9]+",
    "version": "[0-9]+",
}
"""What the names in a key look like; a shard has a tag of its own. The others are of letters and digits."""

DATED: Final = {"writes": "trusted", "windows": ["alltime", "daily"]}
BOARDS: Final = (
    a_policy("sprint", windows=["alltime", "daily"], score={"minimum": 0, "maximum": 1000, "step": 1}),
    a_policy("vault", ranks=["dense"], segments=["country"], self_declared=["country"], **DATED),
    a_policy("deep", exact_ranks=10, **DATED),
    a_policy("parted", ranges=[50], **DATED),
    a_policy("pieces", shards=2, **DATED),
    a_policy("idle", cold_after_h=1, **DATED),
)


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", *BOARDS)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


def stated() -> Iterator[tuple[re.Pattern[str], bool]]:
    """Each key of the reference, and whether it is said to stay; windows of all time do."""
    for row in re.findall(r"^\| `([^`]+)` \|(?:[^|]+\|){3} ([^|]+) \|$", REFERENCE.read_text(), re.MULTILINE):
        key, lives = row
        parts = re.split(r"<(\w+)>", key)
        forms = [
            FORMS.get(part, "[A-Za-z0-9_-]+") if at % 2 else re.escape(part) for at, part in enumerate(parts)
        ]
        yield re.compile("".join(forms)), bool(STAYS.match(lives))


async def use_everything(harness: Harness) -> None:
    """Has each kind of key made that a deployment makes as it serves."""
    key, ada = await registered(harness), token_of(harness, "ada")
    for board in ("vault", "deep", "parted", "pieces", "idle"):
        await fill(harness, key, board, {"ada": 5} | {f"p{number}": number for number in range(120)})
    assert 200 == (await call(harness, "PUT", "/v1/friends/p7", ada)).status
    assert (
        200
        == (await call(harness, "PUT", "/v1/boards/vault/memberships/country", ada, {"value": "de"})).status
    )
    for path in ("vault/entries?friends=true&window=daily", "vault/entries?window=daily", "idle/entries"):
        assert 200 == (await harness.get(f"/v1/boards/{path}", ada)).status
    run = await harness.open_run(board="sprint")
    await harness.open_run(run.token, board="sprint")
    assert 422 == (await harness.send(honest(harness, run, CLAIM | {"score": 5000}))).status
    assert 202 == (await harness.send(honest(harness, run))).status
    await harness.edge.index.drained()
    await harness.edge.presence.beat()
    await harness.ready()
    steward = harness.steward()
    await steward.keep_tails()
    await steward.derive_from_changes()
    await steward.derive_from_log()


async def test_every_key_lives_as_long_as_the_reference_says(harness: Harness, valkey: ValkeyServer):
    """Whatever a deployment does: no key stays that is not said to, and what is said to stay does."""
    await use_everything(harness)
    with valkey.client() as client:
        kinds = list(stated())
        lives = {key: client.pttl(key) for key in client.scan_iter() if not key.startswith("rq:")}
    unlike, met = [], set()
    for key, life_ms in lives.items():
        [(form, stays), *_] = [each for each in kinds if each[0].fullmatch(key)]
        met.add(form.pattern)
        if (life_ms == -1) != (stays or (":alltime" in key and ":circle:" not in key)):
            unlike.append((key, life_ms))
    assert [] == unlike
    assert len(met) >= 22  # the others are of moments, or of what did not happen here
