"""Rate limits of players, addresses and networks, and how long refused recordings are kept."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from policies.fields import PolicySection

NETWORK_SHARE: Final = 8
"""How many addresses' limits a network has, unless the policy sets its own."""

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US

MOST_PER_MINUTE: Final = 10_000_000
MOST_AT_ONCE: Final = 1_000_000


class Rate(PolicySection):
    """A GCRA limit: `burst` at once, then `per_minute` spread evenly."""

    per_minute: Annotated[int, Field(ge=1, le=MOST_PER_MINUTE)]
    burst: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]

    @property
    def interval_us(self) -> int:
        """Return the microseconds between two units of a steady stream, rounded up.

        Whole numbers keep arrival times exact. Rounded down, they would add up to more than the rate.
        """
        return -(-MINUTE_US // self.per_minute)

    @property
    def window_s(self) -> int:
        """Return the seconds in which the steady rate refills a whole burst, rounded up."""
        return -(-self.burst * 60 // self.per_minute)

    def times(self, factor: int) -> Rate:
        """Return this rate multiplied, up to the largest rate allowed."""
        return Rate(
            per_minute=min(self.per_minute * factor, MOST_PER_MINUTE),
            burst=min(self.burst * factor, MOST_AT_ONCE),
        )


class HourlyRate(PolicySection):
    """A GCRA limit of what is rare: `per_hour` at once, then `per_hour` spread evenly."""

    per_hour: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]

    @property
    def burst(self) -> int:
        """Return how many fit at once."""
        return self.per_hour

    @property
    def interval_us(self) -> int:
        """Return the microseconds between two units of a steady stream, rounded up."""
        return -(-HOUR_US // self.per_hour)

    @property
    def window_s(self) -> int:
        """Return the seconds in which the steady rate refills a whole burst."""
        return HOUR_US // 1_000_000

    def times(self, factor: int) -> HourlyRate:
        """Return this rate multiplied, up to the largest rate allowed."""
        return HourlyRate(per_hour=min(self.per_hour * factor, MOST_AT_ONCE))


def charged(rate: Rate | HourlyRate, whole_at_us: int, now_us: int, units: int = 1) -> tuple[int, int]:
    """Return the wait until units fit, and when the limit is whole again after them (GCRA, µs).

    They fit if the wait is not above 0. More than the whole burst count as the burst.
    """
    # Capped at a whole burst, because one written while the clock ran ahead would shut everybody out.
    arrival_us = min(max(whole_at_us, now_us), now_us + rate.interval_us * rate.burst)
    fitting = min(units, rate.burst)
    wait_us = arrival_us + rate.interval_us * (fitting - rate.burst) - now_us
    return wait_us, arrival_us + rate.interval_us * fitting


class RefusalLimits(PolicySection):
    """Claims of a player or an address that may be refused or rejected at once within a window.

    Whoever reaches the limit is not served until `window_s` has passed.
    """

    player: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    address: Annotated[int, Field(ge=1, le=1_000_000)] = 400
    window_s: Annotated[int, Field(ge=1, le=86_400)] = 3600


class Limits(PolicySection):
    """Rate limits of the board's submissions and of their bytes (KiB), and of a player's open runs.

    A network is a /48 of IPv6 or a /24 of IPv4. Without its own rate it has that of `NETWORK_SHARE`
    addresses.
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
        """Return the rate of a network's submissions."""
        return self.network or self.address.times(NETWORK_SHARE)

    @property
    def of_network_kib(self) -> Rate:
        """Return the rate of a network's bytes."""
        return self.network_kib or self.address_kib.times(NETWORK_SHARE)


class RecordingRetention(PolicySection):
    """Days that the recording of a refused or revoked run is kept after the last decision; null: for ever."""

    refused_days: Annotated[int, Field(ge=1, le=36_500)] | None = 90
