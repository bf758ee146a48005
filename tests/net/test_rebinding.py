"""Name servers that lie: what they say later is vetted again, and silence costs only their own hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from payd.net.addresses import may_call
from payd.net.connection import CONNECTION_AGE_MAX_S
from payd.net.dns import ADDRESSES_MAX, CACHE_S, DNS_DEADLINE_S, DnsFailed, Resolver
from payd.net.http import Client, Reply, Target, Timing
from tests.dns_server import DnsServer, Turn
from tests.receiver import Receiver

PUBLIC = ["93.184.216.34"]
INSIDE = ["127.0.0.1"]


@dataclass
class Network:
    """A client that asks a real name server, and a receiver in memory behind every address.

    Attributes:
        vetted: The addresses that were asked about.
        dialled: Those that were called.
    """

    server: DnsServer
    receiver: Receiver
    client: Client = field(init=False)
    vetted: list[str] = field(default_factory=list)
    dialled: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = Client(may_call=self._may_call, resolve=Resolver(self.server.look_up), dial=self._dial)

    def _may_call(self, address: str) -> bool:
        self.vetted.append(address)
        return may_call(address)

    async def _dial(self, address: str, port: int) -> trio.abc.Stream:
        self.dialled.append(address)
        return await self.receiver.dial(address, port)

    async def post(self, host: str) -> Reply:
        return await self.client.send("POST", Target.of(f"http://{host}/hook"), (), b"{}")


@asynccontextmanager
async def open_network(**zone: list[Turn]) -> AsyncIterator[Network]:
    """The network where `<name>.test` is what the zone says."""
    async with trio.open_nursery() as nursery:
        server = DnsServer({f"{name}.test": turns for name, turns in zone.items()})
        await server.listen(nursery)
        network = Network(server, Receiver(nursery))
        yield network
        await network.client.aclose()
        nursery.cancel_scope.cancel()


async def test_the_server_says_what_its_zone_says(mock_clock: MockClock) -> None:
    async with open_network(
        both=[["93.184.216.34", "1.1.1.1", "2606:4700::1"]], turns=[PUBLIC, INSIDE]
    ) as network:
        look_up = network.server.look_up

        assert await trio.to_thread.run_sync(look_up, "both.test") == [
            "93.184.216.34",
            "1.1.1.1",
            "2606:4700::1",
        ]
        turns = [await trio.to_thread.run_sync(look_up, "turns.test") for _ in range(3)]
        assert turns == [PUBLIC, INSIDE, INSIDE]
        with pytest.raises(OSError, match="says 3"):
            await trio.to_thread.run_sync(look_up, "nobody.test")


async def test_a_rebound_name_is_refused_and_what_was_vetted_is_what_is_called(mock_clock: MockClock) -> None:
    async with open_network(shop=[PUBLIC, INSIDE]) as network:
        first = await network.post("shop.test")
        await network.client.aclose()
        mock_clock.jump(CACHE_S)
        second = await network.post("shop.test")

        assert (first.status, first.remote_ip) == (200, "93.184.216.34")
        assert (second.error_class, second.remote_ip) == ("blocked_address", None)
        assert second.timing == Timing(dns_ms=0)
        assert network.vetted == PUBLIC + INSIDE
        assert network.dialled == PUBLIC


async def test_within_one_request_the_name_is_asked_once(mock_clock: MockClock) -> None:
    async with open_network(shop=[PUBLIC, INSIDE]) as network:
        assert (await network.post("shop.test")).status == 200

        assert network.server.asked == ["shop.test"]
        assert network.vetted == network.dialled == PUBLIC


async def test_a_name_that_was_public_when_it_was_registered_is_refused_at_the_dial(
    mock_clock: MockClock,
) -> None:
    async with open_network(shop=[PUBLIC, ["169.254.169.254"]]) as network:
        registered = await network.client.resolve("shop.test")
        mock_clock.jump(CACHE_S)

        assert registered == PUBLIC
        assert (await network.post("shop.test")).error_class == "blocked_address"
        assert network.dialled == []


async def test_a_kept_connection_hides_a_rebinding_for_a_minute_and_no_longer(mock_clock: MockClock) -> None:
    async with open_network(shop=[PUBLIC, INSIDE]) as network:
        assert (await network.post("shop.test")).status == 200
        mock_clock.jump(CONNECTION_AGE_MAX_S - 1)
        kept = await network.post("shop.test")
        mock_clock.jump(1)
        rebound = await network.post("shop.test")

        assert (kept.status, kept.remote_ip) == (200, "93.184.216.34")
        assert rebound.error_class == "blocked_address"
        assert network.dialled == PUBLIC


@pytest.mark.parametrize(
    "inside",
    [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
    ],
)
async def test_an_answer_with_one_address_inside_is_refused_whole(inside: str, mock_clock: MockClock) -> None:
    async with open_network(mixed=[[*PUBLIC, "2606:4700::1", inside]]) as network:
        reply = await network.post("mixed.test")

        assert reply.error_class == "blocked_address"
        assert inside not in reply.detail
        assert network.dialled == []


async def test_the_operators_own_networks_are_called_by_name(mock_clock: MockClock) -> None:
    async with open_network(near=[["172.18.3.4"]]) as network:
        opened = [ipaddress.ip_network("172.18.0.0/16")]
        open_client = Client(
            may_call=lambda address: may_call(address, opened),
            resolve=network.client.resolve,
            dial=network.receiver.dial,
        )

        assert (await network.post("near.test")).error_class == "blocked_address"
        reply = await open_client.send("POST", Target.of("http://near.test/"), (), b"{}")
        assert (reply.status, reply.remote_ip) == (200, "172.18.3.4")


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"\0", b"\0" * 12, b"\xff" * 512, b"HTTP/1.1 200 OK\r\n\r\n", b"\xc0\x0c" * 100],
    ids=["empty", "short", "zeros", "ones", "http", "pointers"],
)
async def test_rubbish_instead_of_an_answer_is_a_dns_error(rubbish: bytes, mock_clock: MockClock) -> None:
    async with open_network(rubbish=[rubbish], shop=[PUBLIC]) as network:
        assert (await network.post("rubbish.test")).error_class == "dns_error"
        assert (await network.post("shop.test")).status == 200
        assert network.dialled == PUBLIC


async def test_an_answer_without_end_is_vetted_and_called_only_so_far(mock_clock: MockClock) -> None:
    many = [f"93.184.{number // 250}.{number % 250}" for number in range(4000)]
    async with open_network(many=[many], shop=[PUBLIC]) as network:
        assert (await network.post("many.test")).status == 200

        assert network.vetted == many[:ADDRESSES_MAX]
        assert network.dialled == many[:1]


async def test_a_server_that_never_answers_costs_only_those_who_ask_for_its_names(
    mock_clock: MockClock,
) -> None:
    hung: list[Reply] = []

    async def post(host: str) -> None:
        hung.append(await network.post(host))

    zone: dict[str, list[Turn]] = {f"tarpit{number}": [None] for number in range(40)}
    async with open_network(shop=[PUBLIC], **zone) as network:
        async with trio.open_nursery() as asking:
            for number in range(40):
                asking.start_soon(post, f"tarpit{number}.test")
            await wait_all_tasks_blocked()
            healthy = await network.post("shop.test")
            assert hung == []
            mock_clock.jump(DNS_DEADLINE_S)

        assert (healthy.status, healthy.timing.dns_ms) == (200, 0)
        assert {(reply.error_class, reply.duration_ms) for reply in hung} == {("dns_error", 5000)}
        assert {reply.timing for reply in hung} == {Timing()}
        assert len(hung) == 40


async def test_a_name_that_nobody_has_is_a_dns_error(mock_clock: MockClock) -> None:
    async with open_network() as network:
        assert (await network.post("nobody.test")).error_class == "dns_error"
        with pytest.raises(DnsFailed, match=r"nobody\.test"):
            await network.client.resolve("nobody.test")
