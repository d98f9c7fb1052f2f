"""Leases: which steward has which lane and which duty. A lease is good while its owner's row is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert  # its ON CONFLICT compiles for SQLite too

from gateway.ledger.schema import leases, stewards
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import LeaseLost

T = TypeVar("T")

NOBODY: Final = ""
"""The owner of a lease that was given back."""

LANE_PREFIX: Final = "lane:"

_l, _s = leases.c, stewards.c
_has_no_owner = _l.owner.not_in(select(_s.steward))

_ADD_STEWARD = Query(insert(stewards))
_RENEW = Query(
    update(stewards).where(_s.steward == bindparam("who")).values(expires_at_ms=bindparam("expires_at"))
)
_FORGET = Query(delete(stewards).where(_s.steward == bindparam("who")))
_BURY = Query(
    delete(stewards).where(_s.steward == bindparam("who"), _s.expires_at_ms == bindparam("expires_at"))
)
_STEWARDS = Query(select(_s.steward, _s.expires_at_ms))
_LEASES = Query(select(_l.name, _l.owner, _l.epoch))
_ADD_LEASE = Query(insert(leases))
_CLAIM = Query(
    update(leases)
    .where(_l.name == bindparam("lease"), _has_no_owner)
    .values(owner=bindparam("who"), epoch=_l.epoch + 1)
)
_CLAIM_LANES = Query(
    update(leases)
    .where(
        _l.name.in_(
            select(_l.name)
            .where(_l.name.startswith(LANE_PREFIX), _has_no_owner)
            .order_by(_l.name)
            .limit(bindparam("count"))
        )
    )
    .values(owner=bindparam("who"), epoch=_l.epoch + 1)
)
_of_owner = (_l.name == bindparam("lease"), _l.owner == bindparam("who"), _l.epoch == bindparam("at_epoch"))
_RELEASE = Query(update(leases).where(*_of_owner).values(owner=NOBODY))
_IS_GOOD = Query(select(_l.epoch).where(*_of_owner))


@dataclass(frozen=True, slots=True)
class Lease:
    """A steward's right to a lane or a duty. `epoch` counts its owners: the fencing number."""

    name: str
    owner: str
    epoch: int

    @property
    def is_of_lane(self) -> bool:
        """Return whether it is the lease of a lane, and not of a duty."""
        return self.name.startswith(LANE_PREFIX)


class LeaseTable(NamedTuple):
    """When the row of each steward expires (shared Unix ms), and every lease, by name."""

    stewards: Mapping[str, int]
    leases: Mapping[str, Lease]


def lane_lease(lane: int) -> str:
    """Return the name of a lane's lease."""
    return f"{LANE_PREFIX}{lane}"


def lane_of_lease(name: str) -> int:
    """Return the lane of a lane's lease."""
    return int(name.removeprefix(LANE_PREFIX))


def register(steward: str, *, expires_at_ms: int, names: Sequence[str]) -> Operation[None]:
    """Add a steward, and those of the leases of a deployment that nobody ever had."""

    async def work(tx: Transaction) -> None:
        await tx.run(_ADD_STEWARD, steward=steward, expires_at_ms=expires_at_ms)
        present = {row[0] for row in await tx.rows(_LEASES)}
        for name in names:
            if name not in present:
                await tx.run(_ADD_LEASE, name=name, owner=NOBODY, epoch=0)

    return work


def renew(steward: str, *, expires_at_ms: int) -> Operation[bool]:
    """Renew all leases of a steward, and return False if its row is gone: then it has none any more."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.run(_RENEW, who=steward, expires_at=expires_at_ms))

    return work


def leave(steward: str) -> Operation[None]:
    """Remove a steward, and so give back all its leases."""

    async def work(tx: Transaction) -> None:
        await tx.run(_FORGET, who=steward)

    return work


async def lease_table(tx: Transaction) -> LeaseTable:
    """Read all stewards and leases."""
    owners = {row[0]: int(row[1]) for row in await tx.rows(_STEWARDS)}
    return LeaseTable(owners, {row[0]: Lease(*row) for row in await tx.rows(_LEASES)})


def claim(
    steward: str, *, dead: Mapping[str, int], lanes: int, duties: Sequence[str]
) -> Operation[list[str]]:
    """Claim up to `lanes` lanes and some duties that have no owner, and return the dead stewards removed.

    `dead` says when the row of each steward that seems dead expires: one that renewed it since is alive.
    """

    async def work(tx: Transaction) -> list[str]:
        buried = [
            who for who, expires_at in dead.items() if await tx.run(_BURY, who=who, expires_at=expires_at)
        ]
        if lanes > 0:
            await tx.run(_CLAIM_LANES, who=steward, count=lanes)
        for name in duties:
            await tx.run(_CLAIM, who=steward, lease=name)
        return buried

    return work


def release(given_up: Sequence[Lease]) -> Operation[None]:
    """Give back leases, for others to claim."""

    async def work(tx: Transaction) -> None:
        for lease in given_up:
            await tx.run(_RELEASE, lease=lease.name, who=lease.owner, at_epoch=lease.epoch)

    return work


def fenced(lease: Lease, operation: Operation[T]) -> Operation[T]:
    """Return the operation, which now raises LeaseLost unless the lease is still good at its commit."""

    async def work(tx: Transaction) -> T:
        # Writing transactions take turns on both databases, so no claim comes between this and the commit.
        if not await tx.rows(_IS_GOOD, lease=lease.name, who=lease.owner, at_epoch=lease.epoch):
            raise LeaseLost
        return await operation(tx)

    return work


async def lease_holders(tx: Transaction) -> dict[str, tuple[str, ...]]:
    """Return the names of the leases of each registered steward, and of `NOBODY`, in order."""
    table = await lease_table(tx)
    holders: dict[str, list[str]] = defaultdict(list, {steward: [] for steward in table.stewards})
    for name, lease in sorted(table.leases.items()):
        holders[lease.owner if lease.owner in table.stewards else NOBODY].append(name)
    return {steward: tuple(names) for steward, names in sorted(holders.items())}
