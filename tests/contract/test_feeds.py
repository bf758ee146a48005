"""The feeds: a payment's snapshots for a page, and an account's events for a developer.

Source: DESIGN.md, "8. Feed"
"""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from tests.contract.outside import (
    ISO_MS,
    PATIENCE_S,
    Caller,
    Server,
    Shop,
    assert_refused,
    fresh_buyer,
    magic_buyer,
    ok,
    open_server,
)

SNAPSHOT = {"version", "status", "isFinal", "pollInMs", "expiresAt", "serverTime", "info"}


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@asynccontextmanager
async def dial(
    server: Server, path: str, headers: Mapping[str, str] | None = None
) -> AsyncIterator[WebSocketConnection]:
    """Open a websocket to a path; its TCP connection is closed with it, whoever closed the websocket."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    async with await trio.open_tcp_stream(host, int(port)) as stream, trio.open_nursery() as nursery:
        with trio.fail_after(PATIENCE_S):
            socket = await wrap_client_stream(nursery, stream, server.url, path, extra_headers=extra)
        yield socket
        with trio.fail_after(PATIENCE_S):
            await socket.aclose()


async def read(socket: WebSocketConnection) -> Any:
    """Return the next message."""
    with trio.fail_after(PATIENCE_S):
        return json.loads(await socket.get_message())


async def drain(socket: WebSocketConnection) -> None:
    """Read until the websocket is closed."""
    while True:
        await socket.get_message()


async def close_code(socket: WebSocketConnection) -> int:
    """Read until the server closes, and return its code."""
    with trio.fail_after(PATIENCE_S), pytest.raises(ConnectionClosed) as closed:
        await drain(socket)
    assert closed.value.reason is not None
    return int(closed.value.reason.code)


def knock(caller: Caller, path: str) -> httpx.Response:
    """Ask for an upgrade that must not come, on a connection of its own, and return the answer."""
    with httpx.Client(base_url=caller.http.base_url) as fresh:
        return fresh.get(path, headers={**caller.headers, **UPGRADE})


@pytest.mark.real_time
async def test_a_feed_begins_with_the_current_snapshot(server: Server, shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    async with dial(server, f"/v1/payments/{payment_id}/feed") as socket:
        first = await read(socket)
    assert set(first) == SNAPSHOT
    assert (first["version"], first["status"], first["isFinal"]) == (0, "requires_action", False)
    assert type(first["pollInMs"]) is int
    assert first["expiresAt"] == shop.detail(payment_id)["expiresAt"]
    assert first["info"] is None
    assert first["serverTime"]


@pytest.mark.real_time
async def test_a_feed_follows_a_payment_to_its_end_and_closes_1000(
    server: Server, shop: Shop, merchant_id: str
) -> None:
    payment_id = shop.payment(merchant_id)
    async with dial(server, f"/v1/payments/{payment_id}/feed") as socket:
        seen = [await read(socket)]
        await trio.to_thread.run_sync(shop.pay, payment_id, magic_buyer(4))
        seen.append(await read(socket))
        await trio.to_thread.run_sync(shop.simulate, payment_id, "succeeded")
        seen.append(await read(socket))
        assert await close_code(socket) == 1000
    assert [message["status"] for message in seen] == ["requires_action", "processing", "succeeded"]
    assert [message["version"] for message in seen] == [0, 1, 2]
    assert [message["isFinal"] for message in seen] == [False, False, True]
    assert seen[-1]["pollInMs"] is None
    assert seen[-1]["info"]["txId"] == f"test:{payment_id}"


@pytest.mark.real_time
async def test_a_feed_of_a_final_payment_says_so_and_closes(
    server: Server, shop: Shop, merchant_id: str
) -> None:
    payment_id = shop.payment(merchant_id)
    shop.simulate(payment_id, "failed")
    async with dial(server, f"/v1/payments/{payment_id}/feed") as socket:
        assert (await read(socket))["status"] == "failed"
        assert await close_code(socket) == 1000


@pytest.mark.real_time
async def test_all_readers_of_a_payment_get_the_same(server: Server, shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    path = f"/v1/payments/{payment_id}/feed"
    async with dial(server, path) as one, dial(server, path) as two:
        await read(one)
        await read(two)
        await trio.to_thread.run_sync(shop.simulate, payment_id, "cancelled")
        first, second = await read(one), await read(two)
    assert first == second
    assert (first["status"], first["isFinal"]) == ("cancelled", True)


@pytest.mark.real_time
async def test_data_from_a_reader_closes_1008(server: Server, shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    async with dial(server, f"/v1/payments/{payment_id}/feed") as socket:
        await read(socket)
        await socket.send_message("hello")
        assert await close_code(socket) == 1008


@pytest.mark.real_time
async def test_a_ping_is_answered(server: Server, shop: Shop, merchant_id: str) -> None:
    async with dial(server, f"/v1/payments/{shop.payment(merchant_id)}/feed") as socket:
        await read(socket)
        with trio.move_on_after(PATIENCE_S) as patience:
            await socket.ping(b"there?")  # returns with the pong
    assert not patience.cancelled_caught


@pytest.mark.real_time
async def test_any_origin_may_read_a_payment_feed(server: Server, shop: Shop, merchant_id: str) -> None:
    path = f"/v1/payments/{shop.payment(merchant_id)}/feed"
    async with dial(server, path, {"Origin": "https://shop.example"}) as socket:
        assert (await read(socket))["status"] == "requires_action"


@pytest.mark.parametrize("payment_id", ["pay_t" + "0" * 36, "pay_l" + "0" * 36, "pay_x", "nonsense"])
def test_an_unknown_payment_is_404_before_the_upgrade(nobody: Caller, payment_id: str) -> None:
    assert_refused(knock(nobody, f"/v1/payments/{payment_id}/feed"), 404, "payment_not_found")


@pytest.mark.parametrize("path", ["/v1/payments/pay_tx/feed", "/v1/feed", "/livez", "/v1/merchants"])
def test_a_refused_upgrade_on_a_kept_connection_is_told_and_does_no_harm(server: Server, path: str) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE_S)
    try:
        for headers in ({}, UPGRADE, {}):
            asked = path if headers else "/livez"
            # Connects anew only when the answer before said that its connection closes.
            connection.request("GET", asked, headers=headers)
            answer = connection.getresponse()
            body = json.loads(answer.read())
            if headers and path != "/livez":
                assert body["details"]["requestId"] == answer.headers["Request-Id"]
    finally:
        connection.close()


@pytest.mark.real_time
async def test_a_feed_shows_nothing_that_a_buyer_must_not_see(
    server: Server, shop: Shop, merchant_id: str
) -> None:
    payment_id = shop.payment(merchant_id, referenceId="private-reference")
    async with dial(server, f"/v1/payments/{payment_id}/feed") as socket:
        text = json.dumps(await read(socket))
    assert "private-reference" not in text
    assert merchant_id not in text


def test_the_accounts_feed_needs_a_key(nobody: Caller) -> None:
    assert_refused(knock(nobody, "/v1/feed"), 401, "missing_api_key")
    assert_refused(knock(nobody.having(Api_Key="svc_test_nothing"), "/v1/feed"), 401, "invalid_api_key")


@pytest.mark.real_time
async def test_the_accounts_feed_resumes_from_a_cursor(server: Server, shop: Shop, merchant_id: str) -> None:
    async with dial(server, "/v1/feed", shop.api.headers) as socket:
        first_id = await trio.to_thread.run_sync(shop.payment, merchant_id)
        first = await about(socket, first_id)
        second_id = await trio.to_thread.run_sync(shop.payment, merchant_id)
        second = await about(socket, second_id)
    assert set(first) == {"cursor", "event"}
    assert first["event"]["type"] == "payment.created"
    shown = ok(shop.api.get(f"/v1/events/{first['event']['id']}"))
    assert shown["envelope"] == first["event"]
    assert ISO_MS.fullmatch(first["event"]["created_at"])
    third_id = shop.payment(merchant_id)
    cursor = str(first["cursor"])
    async with dial(server, f"/v1/feed?after={cursor}", shop.api.headers) as socket:
        resumed = [await read(socket), await read(socket)]
    assert [message["event"]["data"]["payment_id"] for message in resumed] == [second_id, third_id]
    assert resumed[0] == second


async def about(socket: WebSocketConnection, payment_id: str) -> Any:
    """Read until a message is about this payment."""
    while (message := await read(socket))["event"]["data"]["payment_id"] != payment_id:
        pass
    return message


@pytest.mark.real_time
async def test_an_accounts_feed_has_nothing_of_another_account(
    server: Server, shop: Shop, other: Shop, merchant_id: str
) -> None:
    theirs = await trio.to_thread.run_sync(other.merchant)
    async with dial(server, "/v1/feed", shop.api.headers) as socket:
        foreign = await trio.to_thread.run_sync(other.payment, theirs)
        mine = await trio.to_thread.run_sync(shop.payment, merchant_id)
        heard: set[str] = set()  # of the shop's earlier payments, something may happen still
        while mine not in heard:
            heard.add((await read(socket))["event"]["data"]["payment_id"])
    assert foreign not in heard


def test_a_cursor_that_makes_no_sense_is_refused_before_the_upgrade(shop: Shop) -> None:
    assert_refused(knock(shop.api, "/v1/feed?after=nonsense"), 400, "invalid_params")


@pytest.mark.real_time
async def test_a_server_that_stops_closes_its_feeds_with_1012(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    entered = open_server(tmp_path_factory.mktemp("stopping"), "")
    small = entered.__enter__()
    left = False
    try:
        with httpx.Client(base_url=small.url) as http:
            shop = small.shop("short-lived", http)
            payment_id = shop.payment(shop.merchant())
            shop.options(payment_id, fresh_buyer())
        async with dial(small, f"/v1/payments/{payment_id}/feed") as socket:
            await read(socket)
            async with trio.open_nursery() as nursery:
                left = True
                nursery.start_soon(trio.to_thread.run_sync, entered.__exit__, None, None, None)
                assert await close_code(socket) == 1012
    finally:
        if not left:
            entered.__exit__(None, None, None)
