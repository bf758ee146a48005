"""The client against peers of every kind, in memory and virtual time."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from payd.net.dns import DnsFailed
from payd.net.http import BODY_BYTES_MAX, Client, Reply, Target, Timing, tls_context
from tests.receiver import CA_FILE, Does, Receiver, Script, always, in_turn

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
HOOK = Target.of("http://a.test/hook?x=1")


async def resolve_public(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["93.184.216.34"]


@asynccontextmanager
async def open_pair(script: Script) -> AsyncIterator[tuple[Client, Receiver]]:
    """A client that reaches one receiver in memory, whatever the host."""
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, script)
        client = Client(may_call=lambda _: True, resolve=resolve_public, dial=receiver.dial)
        yield client, receiver
        await client.aclose()
        nursery.cancel_scope.cancel()


async def post(client: Client, target: Target = HOOK, body: bytes = b"{}") -> Reply:
    return await client.send("POST", target, [("content-type", "application/json")], body)


async def fate(raw: bytes) -> Reply:
    """The reply when the peer sends these bytes and closes."""
    async with open_pair(always(Does(raw=raw))) as (client, _):
        return await post(client)


async def test_a_request_says_what_it_is_and_asks_for_no_encoding() -> None:
    async with open_pair(always(Does(status=202, headers=(("x-one", "1"),), body=b"yes"))) as (
        client,
        receiver,
    ):
        reply = await post(client)

        [received] = receiver.received
        assert (received.method, received.path, received.body) == ("POST", "/hook?x=1", b"{}")
        assert next(iter(received.headers.items())) == ("host", "a.test")
        assert received.headers["content-length"] == "2"
        assert received.headers["accept-encoding"] == "identity"
        assert (reply.status, reply.error_class, reply.body, reply.is_whole) == (202, None, b"yes", True)
        assert reply.remote_ip == "93.184.216.34"
        assert reply.header("x-one") == "1"


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://a.test/", "a.test"),
        ("https://a.test:8443/", "a.test:8443"),
        ("http://[2001:db8::1]/", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080"),
    ],
)
def test_the_host_header_names_the_host_and_an_unusual_port(url: str, authority: str) -> None:
    assert Target.of(url).authority == authority


def test_a_fragment_is_not_sent() -> None:
    assert Target.of("https://a.test/hook?a=b#part").path == "/hook?a=b"
    assert Target.of("https://a.test").path == "/"


async def test_a_connection_is_used_again() -> None:
    async with open_pair(always(Does())) as (client, receiver):
        for _ in range(3):
            assert (await post(client)).status == 200

        assert receiver.connections == 1


async def test_a_connection_is_not_used_for_longer_than_a_minute() -> None:
    async with open_pair(always(Does())) as (client, receiver):
        for _ in range(4):
            assert (await post(client)).status == 200
            await trio.sleep(25)

        assert receiver.connections == 2


async def test_a_kept_connection_that_died_is_replaced_without_a_word() -> None:
    async with open_pair(always(Does(raw=OK))) as (client, receiver):
        assert (await post(client)).status == 200
        await trio.testing.wait_all_tasks_blocked()
        assert (await post(client)).status == 200

        assert receiver.connections == 2
        assert len(receiver.received) == 2


async def test_a_kept_connection_that_dies_within_an_answer_is_not_tried_again() -> None:
    async with open_pair(in_turn(Does(), Does(raw=b"HTTP/1.1 2"))) as (client, receiver):
        await post(client)
        reply = await post(client)

        assert reply.error_class == "protocol_error"
        assert len(receiver.received) == 2


async def test_a_fresh_connection_that_is_closed_without_an_answer_is_not_tried_again() -> None:
    async with open_pair(always(Does(resets=True))) as (client, receiver):
        reply = await post(client)

        assert reply.error_class == "connection_reset"
        assert len(receiver.received) == 1


async def test_a_redirect_is_reported_and_not_followed() -> None:
    async with open_pair(always(Does(status=302, headers=(("location", "http://b.test/"),)))) as (
        client,
        receiver,
    ):
        reply = await post(client)

        assert reply.status == 302
        assert len(receiver.received) == 1


async def test_silence_ends_after_the_deadline() -> None:
    async with open_pair(always(Does(hangs=True))) as (client, receiver):
        started_s = trio.current_time()
        reply = await post(client)
        await trio.testing.wait_all_tasks_blocked()

        assert reply.error_class == "timeout_response"
        assert trio.current_time() - started_s == pytest.approx(15)
        assert reply.duration_ms == 15_000
        assert receiver.open == 0


async def test_a_slow_body_changes_no_verdict_and_costs_two_seconds() -> None:
    async with open_pair(always(Does(body=b"drip", drips=True))) as (client, receiver):
        started_s = trio.current_time()
        reply = await post(client)
        elapsed_s = trio.current_time() - started_s
        await trio.sleep(2)

        assert (reply.status, reply.is_whole, reply.duration_ms) == (200, False, 0)
        assert reply.body.startswith(b"drip")
        assert elapsed_s == pytest.approx(2)
        assert receiver.open == 0


async def test_a_long_body_is_cut() -> None:
    async with open_pair(always(Does(body=b"x" * 1_000_000))) as (client, _):
        reply = await post(client)

        assert (reply.status, len(reply.body), reply.is_whole) == (200, BODY_BYTES_MAX, False)


async def test_a_body_of_exactly_the_limit_is_whole() -> None:
    async with open_pair(always(Does(body=b"x" * BODY_BYTES_MAX))) as (client, _):
        reply = await post(client)

        assert (len(reply.body), reply.is_whole) == (BODY_BYTES_MAX, True)


async def test_a_body_that_is_cut_off_changes_no_verdict() -> None:
    reply = await fate(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")

    assert (reply.status, reply.error_class, reply.body, reply.is_whole) == (200, None, b"half", False)


async def test_informational_answers_are_passed_over() -> None:
    reply = await fate(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3 + OK)

    assert reply.status == 200


async def test_endless_informational_answers_are_not() -> None:
    reply = await fate(b"HTTP/1.1 100 Continue\r\n\r\n" * 100 + OK)

    assert reply.error_class == "protocol_error"


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\n" + b"x-long: y\r\n" * 10_000,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"\0" * 1000,
    ],
    ids=["endless headers", "ssh", "negative length", "another version", "zeros"],
)
async def test_what_is_not_http_is_a_protocol_error(raw: bytes) -> None:
    reply = await fate(raw)

    assert (reply.status, reply.error_class) == (None, "protocol_error")


async def test_a_compressed_body_stays_compressed() -> None:
    async with open_pair(always(Does(headers=(("content-encoding", "gzip"),), body=b"\x1f\x8bbomb"))) as (
        client,
        _,
    ):
        assert (await post(client)).body == b"\x1f\x8bbomb"


async def test_one_address_that_may_not_be_called_refuses_the_host() -> None:
    dialled: list[str] = []

    async def resolve(_host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["93.184.216.34", "10.0.0.1"]

    async def dial(address: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        dialled.append(address)
        raise OSError

    client = Client(may_call=lambda address: address != "10.0.0.1", resolve=resolve, dial=dial)
    reply = await post(client)

    assert reply.error_class == "blocked_address"
    assert "10.0.0.1" not in reply.detail
    assert dialled == []


async def test_the_address_that_was_asked_about_is_the_one_that_is_called() -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    asked: list[str] = []
    dialled: list[str] = []

    async def rebinding(_host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return answers.pop(0)

    async def dial(address: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        dialled.append(address)
        raise ConnectionRefusedError

    def may_call(address: str) -> bool:
        asked.append(address)
        return address != "127.0.0.1"

    client = Client(may_call=may_call, resolve=rebinding, dial=dial)
    first, second = await post(client), await post(client)

    assert (first.error_class, second.error_class) == ("connection_refused", "blocked_address")
    assert dialled == ["93.184.216.34"]
    assert asked == ["93.184.216.34", "127.0.0.1"]


async def test_a_name_that_is_not_found_or_not_answered_is_a_dns_error() -> None:
    async def gone(_host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise DnsFailed("gone")

    async def silent(_host: str) -> list[str]:
        await trio.sleep_forever()
        raise AssertionError

    not_found = await post(Client(may_call=lambda _: True, resolve=gone))
    not_answered = await post(Client(may_call=lambda _: True, resolve=silent))

    assert (not_found.error_class, not_answered.error_class) == ("dns_error", "dns_error")
    assert not_answered.duration_ms == 5000


async def test_an_address_that_never_connects_is_left_after_five_seconds() -> None:
    async def dial(_address: str, _port: int) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    reply = await post(Client(may_call=lambda _: True, resolve=resolve_public, dial=dial))

    assert (reply.error_class, reply.duration_ms) == ("timeout_connect", 5000)


async def test_a_cancelled_request_leaves_no_connection_behind() -> None:
    async with open_pair(always(Does(hangs=True))) as (client, receiver):
        with trio.move_on_after(1):
            await post(client)
        await trio.testing.wait_all_tasks_blocked()

        assert receiver.open == 0
        receiver.script = always(Does())
        assert (await post(client)).status == 200


async def test_a_longer_answer_can_be_asked_for() -> None:
    async with open_pair(always(Does(body=b"x" * 100_000, delay_s=20))) as (client, _):
        reply = await client.send(
            "POST", HOOK, (), b"{}", deadline_s=30, body_bytes_max=200_000, body_wait_s=30
        )

        assert (reply.status, len(reply.body), reply.is_whole) == (200, 100_000, True)


async def test_a_request_without_a_body_is_possible() -> None:
    async with open_pair(always(Does())) as (client, receiver):
        reply = await client.send("GET", HOOK, ())

        assert (reply.status, receiver.received[0].method) == (200, "GET")


@asynccontextmanager
async def open_slow(*acts: Does) -> AsyncIterator[Client]:
    """A client whose names take 0.3 s and whose connections take 0.2 s; every request arrives."""
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, in_turn(*acts))

        async def resolve(host: str) -> list[str]:
            await trio.sleep(0.3)
            if host == "gone.test":
                raise DnsFailed(host)
            return ["93.184.216.34"]

        async def dial(address: str, port: int) -> trio.abc.Stream:
            await trio.sleep(0.2)
            if port == 81:
                raise ConnectionRefusedError
            return await receiver.dial(address, port)

        client = Client(may_call=lambda _: True, tls=tls_context(CA_FILE), resolve=resolve, dial=dial)
        yield client
        await client.aclose()
        nursery.cancel_scope.cancel()


async def test_a_reply_says_what_its_time_went_to() -> None:
    async with open_slow(Does(delay_s=1.5), Does(delay_s=0.1)) as client:
        first, second = await post(client), await post(client)

        assert first.timing == Timing(dns_ms=300, connect_ms=200)
        assert first.duration_ms == 2000
        assert (second.timing, second.duration_ms) == (Timing(), 100)


async def test_a_slow_body_is_in_no_time_of_the_reply() -> None:
    async with open_slow(Does(body=b"drip", drips=True)) as client:
        dripped = await post(client)
        assert (dripped.timing, dripped.duration_ms) == (Timing(dns_ms=300, connect_ms=200), 500)


async def test_a_phase_that_did_not_end_has_no_time() -> None:
    async with open_slow(Does(hangs=True)) as client:
        gone = await post(client, Target.of("http://gone.test/"))
        refused = await post(client, Target.of("http://a.test:81/"))
        no_tls = await post(client, Target.of("https://receiver.test/"))
        silent = await post(client)

        assert (gone.error_class, gone.timing, gone.duration_ms) == ("dns_error", Timing(), 300)
        assert (refused.error_class, refused.timing) == ("connection_refused", Timing(dns_ms=300))
        assert no_tls.error_class == "tls_error"
        assert no_tls.timing == Timing(dns_ms=300, connect_ms=200)
        assert (silent.error_class, silent.timing) == (
            "timeout_response",
            Timing(dns_ms=300, connect_ms=200),
        )


async def test_a_stale_connection_leaves_the_times_of_the_one_that_replaced_it() -> None:
    async with open_slow(Does(raw=OK), Does()) as client:
        await post(client)
        await trio.testing.wait_all_tasks_blocked()

        again = await post(client)
        assert (again.timing, again.duration_ms) == (Timing(dns_ms=300, connect_ms=200), 500)


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("does", "error_class"),
    [
        (Does(resets=True), "connection_reset"),
        (Does(raw=b"HTTP/1.1 200"), "protocol_error"),
        (Does(raw=b""), "connection_reset"),
    ],
)
async def test_the_network_fails_as_it_does_in_memory(does: Does, error_class: str) -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, always(does))
        client = Client(may_call=lambda _: True)
        over_tcp = await post(client, Target.of(f"http://127.0.0.1:{await receiver.listen()}/hook"))
        nursery.cancel_scope.cancel()
    async with open_pair(always(does)) as (client, _):
        in_memory = await post(client)

    assert (over_tcp.error_class, in_memory.error_class) == (error_class, error_class)


@pytest.mark.real_time
async def test_a_closed_port_is_refused_and_plain_http_is_no_tls() -> None:
    async with trio.open_nursery() as nursery:
        port = await Receiver(nursery).listen()
        client = Client(may_call=lambda _: True)
        plain = await post(client, Target.of(f"https://127.0.0.1:{port}/"))
        nursery.cancel_scope.cancel()
    closed = await post(client, Target.of(f"http://127.0.0.1:{port}/"))

    assert plain.error_class == "tls_error"
    assert closed.error_class == "connection_refused"


@pytest.mark.parametrize(
    ("number", "error_class"),
    [
        (errno.EMFILE, "system_error"),
        (errno.ENFILE, "system_error"),
        (errno.ENOBUFS, "system_error"),
        (errno.EPERM, "system_error"),
        (errno.EHOSTUNREACH, "network_unreachable"),
        (errno.EADDRNOTAVAIL, "network_unreachable"),
        (errno.EHOSTDOWN, "network_unreachable"),
        (errno.ECONNREFUSED, "connection_refused"),
    ],
)
async def test_no_receiver_is_blamed_for_what_its_own_system_did_to_the_sender(
    number: int, error_class: str
) -> None:
    async def dial(_address: str, _port: int) -> trio.abc.Stream:
        raise OSError(number, os.strerror(number))

    reply = await post(Client(may_call=lambda _: True, dial=dial), Target.of("http://192.0.2.1/"))

    assert (reply.error_class, reply.detail) == (error_class, os.strerror(number))


async def test_who_cannot_be_vetted_for_want_of_sockets_is_not_called_and_not_blamed() -> None:
    def may_call(_address: str) -> bool:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    reply = await post(Client(may_call=may_call), Target.of("http://192.0.2.1/"))

    assert (reply.error_class, reply.detail) == ("system_error", os.strerror(errno.EMFILE))


@pytest.mark.real_time
async def test_an_answer_that_comes_before_the_request_is_read_counts() -> None:
    async def answer_unread(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await trio.sleep(0.05)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer_unread, listeners)
        port = listeners[0].socket.getsockname()[1]
        client = Client(may_call=lambda _: True)
        reply = await post(client, Target.of(f"http://127.0.0.1:{port}/"), b"x" * 60_000)
        nursery.cancel_scope.cancel()

    assert reply.status == 413


async def test_a_greeting_sends_nothing_and_leaves_no_connection() -> None:
    async with open_pair(always(Does())) as (client, receiver):
        greeting = await client.greet(HOOK)
        await trio.testing.wait_all_tasks_blocked()
        assert (greeting.error_class, greeting.remote_ip) == (None, "93.184.216.34")
        assert (receiver.received, receiver.connections, receiver.open) == ([], 1, 0)


async def test_a_greeting_calls_no_address_that_may_not_be_called() -> None:
    async with open_pair(always(Does())) as (_, receiver):
        client = Client(may_call=lambda _: False, resolve=resolve_public, dial=receiver.dial)
        greeting = await client.greet(HOOK)
        assert (greeting.error_class, greeting.remote_ip) == ("blocked_address", None)
        assert receiver.connections == 0
