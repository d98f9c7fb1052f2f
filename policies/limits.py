"""How often and how much: what a policy lets players, addresses and networks send, and how long refused recordings stay."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from policies.fields import PolicySection

NETWORK_SHARE: Final = 8
"""How many addresses' worth a wider network may send, unless a policy says otherwise."""

MOST_PER_MINUTE: Final = 10_000_000
MOST_AT_ONCE: Final = 1_000_000


class Rate(PolicySection):
    """A GCRA limit: `burst` at once, then `per_minute` spread evenly."""

    per_minute: Annotated[int, Field(ge=1, le=MOST_PER_MINUTE)]
    burst: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]

    def times(self, share: int) -> Rate:
        """The rate of so many, no more than a rate can be."""
        return Rate(
            per_minute=min(self.per_minute * share, MOST_PER_MINUTE),
            burst=min(self.burst * share, MOST_AT_ONCE),
        )


class RefusalLimits(PolicySection):
    """How many claims of a player, and of an address, may be refused or rejected at once before more are not looked at.

    Who reaches that waits for `window_s`.
    """

    player: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    address: Annotated[int, Field(ge=1, le=1_000_000)] = 400
    window_s: Annotated[int, Field(ge=1, le=86_400)] = 3600


class Limits(PolicySection):
    """Rate limits of the board's submissions and of their bytes (KiB), and how many runs a player may have open at once.

    A network is a /48 of IPv6 and a /24 of IPv4; without numbers of its own it has those of `NETWORK_SHARE` addresses.
    """

    player: Rate = Rate(per_minute=20, burst=10)
    address: Rate = Rate(per_minute=600, burst=120)
    network: Rate | None = None
    player_kib: Rate = Rate(per_minute=1024, burst=8192)
    address_kib: Rate = Rate(per_minute=8192, burst=32_768)
    network_kib: Rate | None = None
    refused: RefusalLimits = RefusalLimits()
    open_runs: Annotated[int, Field(ge=1, le=1000)] = 5

    @property
    def of_network(self) -> Rate:
        """The rate of a network's submissions."""
        return self.network or self.address.times(NETWORK_SHARE)

    @property
    def of_network_kib(self) -> Rate:
        """The rate of a network's bytes."""
        return self.network_kib or self.address_kib.times(NETWORK_SHARE)


class RecordingRetention(PolicySection):
    """How many days the recording of a refused or revoked run is kept after the last decision on it; null for ever."""

    refused_days: Annotated[int, Field(ge=1, le=36_500)] | None = 90
