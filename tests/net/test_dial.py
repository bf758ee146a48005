"""The race between a host's addresses."""

from __future__ import annotations

import errno

import pytest
import trio
from trio.testing import memory_stream_pair

from payd.net.dial import ADDRESSES_MAX, check_sources, connect_any, dial_from, reason_of
from payd.net.http import Client, Target
from tests.receiver import Receiver


class Network:
    """Addresses that connect after some seconds, or are refused when that is negative."""

    def __init__(self, delays_s: dict[str, float]) -> None:
        self.delays_s = delays_s
        self.dialled: list[tuple[str, float]] = []
        self.ours: dict[str, trio.abc.Stream] = {}

    async def dial(self, address: str, port: int) -> trio.abc.Stream:
        self.dialled.append((address, trio.current_time()))
        await trio.sleep(abs(self.delays_s[address]))
        if self.delays_s[address] < 0:
            raise ConnectionRefusedError(address)
        self.ours[address] = memory_stream_pair()[0]
        return self.ours[address]


async def test_the_first_address_wins_when_it_answers_soon() -> None:
    network = Network({"1.1.1.1": 0.1, "2.2.2.2": 0.0})
    _, address = await connect_any(["1.1.1.1", "2.2.2.2"], 443, network.dial)

    assert address == "1.1.1.1"
    assert [who for who, _ in network.dialled] == ["1.1.1.1"]


async def test_a_silent_address_keeps_the_next_waiting_for_a_quarter_second() -> None:
    network = Network({"1.1.1.1": 60.0, "2.2.2.2": 0.0})
    started_s = trio.current_time()
    _, address = await connect_any(["1.1.1.1", "2.2.2.2"], 443, network.dial)

    assert address == "2.2.2.2"
    assert trio.current_time() - started_s == pytest.approx(0.25)


async def test_a_refusal_gives_way_at_once() -> None:
    network = Network({"1.1.1.1": -0.01, "2.2.2.2": 0.0})
    started_s = trio.current_time()
    _, address = await connect_any(["1.1.1.1", "2.2.2.2"], 443, network.dial)

    assert address == "2.2.2.2"
    assert trio.current_time() - started_s < 0.1


async def test_when_all_refuse_the_first_refusal_is_raised() -> None:
    network = Network({"1.1.1.1": -0.1, "2.2.2.2": -0.1})
    with pytest.raises(ConnectionRefusedError, match=r"1\.1\.1\.1"):
        await connect_any(["1.1.1.1", "2.2.2.2"], 443, network.dial)


async def test_the_error_is_of_the_first_address_that_was_called_whichever_fails_first() -> None:
    """A far receiver refuses later than a family that is not there."""

    async def dial(address: str, port: int) -> trio.abc.Stream:
        if ":" in address:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        if address == "2.2.2.2":
            raise OSError(None, "no source address")
        await trio.sleep(0.4)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    for addresses in (["1.1.1.1", "2606:4700::1"], ["2.2.2.2", "1.1.1.1"]):
        with pytest.raises(ConnectionRefusedError):
            await connect_any(addresses, 443, dial)


async def test_an_endless_list_of_addresses_is_not_tried_to_its_end() -> None:
    addresses = [f"1.1.1.{number}" for number in range(50)]
    network = Network(dict.fromkeys(addresses, -0.01))
    with pytest.raises(ConnectionRefusedError):
        await connect_any(addresses, 443, network.dial)

    assert len(network.dialled) == ADDRESSES_MAX


async def test_neither_family_keeps_the_other_from_its_turn() -> None:
    """Large services have eight addresses of IPv6, and many machines a way there that leads nowhere."""
    silent = [f"2606:4700::{number}" for number in range(1, 9)]
    network = Network(dict.fromkeys(silent, 60.0) | {"1.1.1.1": 0.0, "1.1.1.2": 0.0})
    started_s = trio.current_time()
    _, address = await connect_any([*silent, "1.1.1.1", "1.1.1.2"], 443, network.dial)

    assert address == "1.1.1.1"
    assert trio.current_time() - started_s == pytest.approx(0.25)
    assert network.dialled[0][0] == silent[0], "the system's order says which family is first"


async def test_a_winner_that_nobody_waits_for_any_more_is_closed() -> None:
    ours, theirs = memory_stream_pair()

    async def dial(_address: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        scope.cancel()
        return ours

    with trio.CancelScope() as scope:
        await connect_any(["1.1.1.1", "2.2.2.2"], 443, dial)

    assert scope.cancelled_caught
    with trio.fail_after(1):
        assert await theirs.receive_some() == b""


async def test_a_client_without_a_proxy_calls_the_second_address_while_the_first_is_silent() -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery)

        async def dial(address: str, port: int) -> trio.abc.Stream:
            if ":" in address:
                await trio.sleep_forever()
            return await receiver.dial(address, port)

        async def resolve(_host: str) -> list[str]:
            await trio.lowlevel.checkpoint()
            return ["2606:4700::1", "93.184.216.34"]

        client = Client(may_call=lambda _: True, resolve=resolve, dial=dial)
        reply = await client.send("POST", Target.of("http://a.test/"), (), b"{}")
        nursery.cancel_scope.cancel()

    assert (reply.status, reply.remote_ip, reply.timing.connect_ms) == (200, "93.184.216.34", 250)


@pytest.mark.real_time
async def test_it_dials_from_the_source_address_that_is_configured() -> None:
    async with trio.open_nursery() as nursery:
        port = await Receiver(nursery).listen()
        stream = await dial_from(["127.0.0.5"])("127.0.0.1", port)

        assert isinstance(stream, trio.SocketStream)
        assert stream.socket.getsockname()[0] == "127.0.0.5"
        await stream.aclose()
        nursery.cancel_scope.cancel()


async def test_without_a_source_address_of_the_family_nothing_is_dialled() -> None:
    with pytest.raises(OSError, match="source address") as refused:
        await dial_from(["127.0.0.5"])("::1", 1)
    assert reason_of(refused.value) == "no source address for IPv6 is configured"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.0.0.77"])
def test_a_source_address_of_this_machine_is_taken(address: str) -> None:
    check_sources([address])


def test_one_of_another_machine_is_named() -> None:
    with pytest.raises(OSError) as refused:
        check_sources(["127.0.0.1", "203.0.113.7"])
    assert refused.value.filename == "203.0.113.7"
