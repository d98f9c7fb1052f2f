"""Limits of an address and of the network around it, by the real script: who is refused for one has used up no other."""

from __future__ import annotations

from redis.asyncio import Redis

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.seats import Seats
from gateway.index.limits.charging import AddressLimit
from policies.limits import NETWORK_SHARE, Limits, Rate
from tests.support.valkey import ValkeyServer

SLOW = Rate(per_minute=1, burst=1)


async def test_who_is_refused_for_the_network_has_all_of_the_address_left(valkey: ValkeyServer):
    """A network that is used up charges nothing to an address of it that comes later, however often that one asks."""
    async with Redis.from_url(valkey.url) as client:
        limit = AddressLimit(client, SLOW, lambda network, address: f"limit:{{{network}}}:{address}")
        waits_ms = [await limit.wait_ms(f"10.0.0.{number}", "10.0.0") for number in range(NETWORK_SHARE)]
        assert [0] * NETWORK_SHARE == waits_ms
        for _ in range(3):
            assert 0 < await limit.wait_ms("10.0.0.9", "10.0.0")
        await client.delete("limit:{10.0.0}:")
        assert 0 == await limit.wait_ms("10.0.0.9", "10.0.0")


def test_a_network_may_send_what_so_many_of_its_addresses_may_unless_it_has_numbers_of_its_own():
    """Requests and bytes alike."""
    usual, own = Limits(), Limits(network=SLOW, network_kib=SLOW.times(2))
    shares = [each.times(NETWORK_SHARE) for each in (usual.address, usual.address_kib)]
    assert shares == [usual.of_network, usual.of_network_kib]
    assert [SLOW, SLOW.times(2)] == [own.of_network, own.of_network_kib]


def test_who_holds_no_place_takes_no_memory():
    """However many clients come and go: names are counted while they hold something."""
    seats, clients = Seats(2, 3), [ClientName(f"a{number}", f"n{number // 2}") for number in range(10)]
    assert [True] * 10 == [seats.enter(each) for each in clients]
    assert 15 == len(seats)
    for each in clients:
        seats.leave(each)
    assert 0 == len(seats)
