"""The whole process: it starts, stops in order, refuses a second one, and survives a disk that gives up."""

from __future__ import annotations

import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import pytest
import trio

from payd.actors.clock_check import LOOKS_MIN
from payd.actors.lane import IN_FLIGHT_MAX
from payd.actors.maintenance import DAY_MS, EVERY_S, FIRST_S
from payd.actors.payments import PaymentActor
from payd.config import Config, load
from payd.core.payment import CANCELLED_BY_MERCHANT, PaymentCancelled
from payd.server import TURNS_MAX_S, _open_turns, open_house, serve, webhook_rules
from payd.store.db import Database, Tx
from payd.web.house import House
from tests.crash.client import Client
from tests.crash.process import Server as FurnishedServer
from tests.crash.process import furnish
from tests.process import Server, free_port, running_server
from tests.receiver import Does, Receiver, always
from tests.shop import START_MS, open_shop
from tests.virtual_wall import VirtualWall

PATIENCE_S: Final = 20.0
UPGRADE: Final = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def wait_until(happened: Callable[[], bool]) -> None:
    """Look until it has happened; a process tells nobody."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path / "data") as running:
        yield running


@pytest.fixture
def key(server: Server) -> str:
    server.payd("account", "create", "main")
    return str(server.payd("key", "create", "--mode", "test")["apiKey"])


def merchant(server: Server, key: str, idempotency_key: str) -> tuple[int, dict[str, object]]:
    body = {"merchantName": "Shop", "merchantEmail": "shop@example.com"}
    status, answer, _ = server.request(
        "POST", "/v1/merchants", body, {"Api-Key": key, "Idempotency-Key": idempotency_key}
    )
    return status, answer


def test_it_answers_and_ends_in_order_on_sigterm(server: Server) -> None:
    assert server.get("/livez") == (200, {"status": "ok"})
    assert server.stop() == 0
    assert not (server.folder / "admin.sock").exists()


def test_files_with_secrets_are_for_the_owner_only(server: Server, key: str) -> None:
    for name in ("seal.key", "admin.sock", "test.db", "office.db"):
        mode = stat.S_IMODE((server.folder / name).stat().st_mode)
        assert mode & 0o077 == 0, name


def test_a_request_under_way_is_finished_and_a_held_poll_answered_when_it_stops(
    server: Server, key: str
) -> None:
    merchant_id = str(merchant(server, key, "a")[1]["merchant"]["id"])  # type: ignore[index]
    server.payd("merchant", "add-destination", merchant_id, *USDC)
    _, made, _ = server.request(
        "POST",
        "/v1/payments",
        {"referenceId": "1", "amount": {"unit": "iso4217/USD", "value": "100"}},
        {"Api-Key": key, "Merchant-Id": merchant_id},
    )
    held: list[tuple[int, object]] = []
    poll = threading.Thread(
        target=lambda: held.append(
            server.get(
                f"/v1/payments/{made['paymentId']}/status?maxPollMs=50000",
                Api_Key=key,
                Merchant_Id=merchant_id,
            )
        )
    )
    poll.start()
    wait_until(lambda: "payd_long_polls 1.0" in server.get("/metrics")[1])
    code = server.stop()
    poll.join()

    assert code == 0
    assert held[0][0] == 200


def test_a_second_signal_ends_it_at_once(server: Server, key: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /v1/merchants HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        wait_until(lambda: "payd_connections 2.0" in server.get("/metrics")[1])
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "server.stopping" in server.log.read_text())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 128 + signal.SIGTERM


def test_a_second_process_on_the_same_data_is_refused_and_told_who_has_it(server: Server) -> None:
    other = Server(server.folder)
    with pytest.raises(AssertionError, match=str(server.pid)):
        other.start()
    assert server.get("/readyz")[0] == 200


def test_a_taken_port_is_said_in_words(server: Server, tmp_path: Path) -> None:
    other = Server(tmp_path / "other", {"PAYD_LISTEN": f"127.0.0.1:{server.port}"})
    with pytest.raises(AssertionError, match=str(server.port)) as caught:
        other.start()
    assert "Traceback" not in str(caught.value)


def test_a_key_is_shown_once_and_nowhere_else(server: Server, key: str) -> None:
    merchant(server, key, "a")
    server.request("GET", "/v1/merchants", headers={"Api-Key": key + "x"})
    listed = server.payd("key", "list", "--mode", "test")
    server.stop()

    assert key not in str(listed)
    assert key not in server.log.read_text()
    for path in server.folder.iterdir():
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path.name


def test_what_was_acknowledged_is_there_after_a_kill(server: Server, key: str) -> None:
    ids = [str(merchant(server, key, str(number))[1]["merchant"]["id"]) for number in range(20)]  # type: ignore[index]
    server.kill()
    server.start()

    listed = server.get("/v1/merchants?limit=100", Api_Key=key)[1]
    assert [one["id"] for one in listed["data"]] == sorted(ids), "two of one millisecond have no order"


def test_it_serves_where_nothing_can_be_printed(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [sys.executable, "-m", "payd", "serve", "--demo"], env=server.env, stdout=full, stderr=full
        ) as process,
    ):
        wait_until(lambda: process.poll() is not None or _answers(server))
        assert server.get("/readyz")[0] == 200
        process.send_signal(signal.SIGTERM)


def _answers(server: Server) -> bool:
    with suppress(OSError):
        return server.get("/livez")[0] == 200
    return False


def test_a_disk_that_takes_no_more_is_said_and_recovered_from(server: Server, key: str) -> None:
    """The kernel refuses to let the files grow, as a full disk does; then it has room again."""
    assert merchant(server, key, "before")[0] == 201
    unlimited = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in server.folder.iterdir() if path.suffix != ".log")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest, unlimited[1]))
    refused: list[tuple[int, str]] = []
    for number in range(400):
        status, body = merchant(server, key, f"during-{number}")
        if status != 201:
            refused.append((status, str(body["code"])))
            break
    assert refused, "the files could grow all the same"
    assert refused[0] in ((500, "internal_error"), (503, "internal_error"))
    not_ready, problems = server.get("/readyz")
    assert (not_ready, problems["status"]) == (503, "failing")
    assert server.get("/livez")[0] == 200

    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
    wait_until(lambda: server.get("/readyz")[0] == 200)

    assert merchant(server, key, "after")[0] == 201
    total = server.get("/v1/merchants", Api_Key=key)[1]["totalCount"]
    repeated = merchant(server, key, "before")[1]
    assert server.get("/v1/merchants", Api_Key=key)[1]["totalCount"] == total
    assert repeated["merchant"]


async def never(address: str, port: int) -> trio.abc.Stream:
    await trio.sleep_forever()
    raise AssertionError


async def owed_much(folder: Path) -> Config:
    """A house that owes one receiver more than it sends at a time; gives what it is opened with."""
    async with open_shop(folder, PAYD_WEBHOOKS_TEST_ALLOW_HTTP="true") as shop:
        await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "http://93.184.216.34/"})
        shop.realm.deliveries.http.dial = never
        for number in range(3 * IN_FLIGHT_MAX):
            await shop.pay(str(number))
    return load(
        None,
        {
            "PAYD_DATA_DIR": str(folder),
            "PAYD_LISTEN": f"127.0.0.1:{free_port()}",
            "PAYD_WEBHOOKS_TEST_ALLOW_HTTP": "true",
            "PAYD_WEBHOOKS_CANARY": "false",
        },
    )


async def test_connections_and_deliveries_end_under_one_deadline(tmp_path: Path) -> None:
    """A client that never ends its request, and a receiver that never answers, delivery after delivery."""
    config = await owed_much(tmp_path / "data")
    stop, ready, ended = trio.Event(), trio.Event(), trio.Event()

    async def announce(house: House) -> None:
        ready.set()

    async def run(house: House) -> None:
        await serve(house, config, stop, announce)
        ended.set()

    async with open_house(config, inline=True, wall=VirtualWall(START_MS)) as house:
        deliveries = house.realms["test"].deliveries
        deliveries.http.dial = never
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, house)
            await ready.wait()
            slow = await trio.open_tcp_stream("127.0.0.1", int(config.listen.port))
            async with slow:
                await slow.send_all(b"POST /v1/merchants HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
                # How many depends on how far the clock jumped while real sockets were waited for.
                while not deliveries.in_flight:
                    await trio.lowlevel.checkpoint()
                started_s = trio.current_time()
                stop.set()
                await ended.wait()
                took_s = trio.current_time() - started_s

    assert took_s < 16


async def test_live_deliveries_are_spread_and_test_ones_keep_to_their_schedule(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        drawn = {
            name: {realm.deliveries._draw_jitter() for _ in range(9)}
            for name, realm in shop.house.realms.items()
        }

    assert drawn["test"] == {0.0}
    assert len(drawn["live"]) == 9


async def test_a_served_house_forgets_nothing_by_a_clock_that_is_ahead_as_nodes_say(tmp_path: Path) -> None:
    data, stop = tmp_path / "data", trio.Event()
    async with open_shop(data) as shop:
        await shop.pay()
    config = load(None, {"PAYD_DATA_DIR": str(data), "PAYD_LISTEN": f"127.0.0.1:{free_port()}"})
    async with open_house(config, inline=True, wall=VirtualWall(START_MS)) as house:
        realm = house.realms["test"]
        realm.clock.move_to_offset(40 * DAY_MS)

        def say(ahead_s: float) -> None:
            for _ in range(LOOKS_MIN):
                realm.clock_check._settle(ahead_s)

        def left() -> int:
            made = "SELECT count(*) FROM events WHERE type = 'payment.created'"
            return int(realm.db.point(lambda tx: tx.execute(made).fetchone()[0]))

        say(40 * DAY_MS / 1000)
        async with trio.open_nursery() as serving:
            serving.start_soon(serve, house, config, stop)
            await trio.sleep(FIRST_S + 60)
            assert left() == 1
            say(0)
            await trio.sleep(EVERY_S)
            assert left() == 0
            stop.set()


async def test_deliveries_under_way_at_the_stop_are_finished_and_no_others_begun(tmp_path: Path) -> None:
    config = await owed_much(tmp_path / "data")
    stop, ready = trio.Event(), trio.Event()

    async def announce(house: House) -> None:
        ready.set()

    async with open_house(config, inline=True, wall=VirtualWall(START_MS)) as house:
        realm = house.realms["test"]
        async with trio.open_nursery() as nursery:
            receiver = Receiver(nursery, always(Does(delay_s=5)))
            realm.deliveries.http.dial = receiver.dial
            async with trio.open_nursery() as serving:
                serving.start_soon(serve, house, config, stop, announce)
                # How many are sent by then depends on how far the clock jumped while sockets were opened.
                await ready.wait()
                await receiver.count(len(receiver.received) + 1)
                before, under_way = realm.db.point(succeeded), realm.deliveries.in_flight
                stop.set()
            nursery.cancel_scope.cancel()
        finished = realm.db.point(succeeded)

    assert 0 < under_way <= IN_FLIGHT_MAX
    assert before < finished == len(receiver.received) <= before + under_way


def succeeded(tx: Tx) -> int:
    (count,) = tx.execute("SELECT count(*) FROM deliveries WHERE state = 'succeeded'").fetchone()
    return int(count)


async def test_a_turn_under_way_at_the_end_stores_what_it_decided(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        payment = await shop.pay()

        async def slowly(actor: PaymentActor) -> None:
            await trio.sleep(1)
            await actor.move(PaymentCancelled(CANCELLED_BY_MERCHANT))

        with trio.move_on_after(0.5):
            await shop.realm.payments.ask(payment, slowly)

    async with open_shop(tmp_path / "data") as later:
        assert later.realm.payments.find(payment).status.value == "cancelled"


async def test_what_only_waits_for_its_turn_to_come_holds_up_no_end() -> None:
    class Idle(Database):
        async def close(self) -> None:
            await trio.lowlevel.checkpoint()

    started_s = trio.current_time()
    async with _open_turns(Idle("x.db", 1, inline=True)) as turns:
        turns.start_soon(trio.sleep, 60)

    assert trio.current_time() == started_s


async def test_a_turn_that_a_dead_disk_holds_ends_with_its_database() -> None:
    held = trio.Event()

    async def write_on_a_dead_disk() -> None:
        with trio.CancelScope(shield=True):
            await held.wait()

    class Dead(Database):
        async def close(self) -> None:
            held.set()

    started_s = trio.current_time()
    async with _open_turns(Dead("x.db", 1, inline=True)) as turns:
        turns.start_soon(write_on_a_dead_disk)
        await trio.testing.wait_all_tasks_blocked()

    assert trio.current_time() - started_s == TURNS_MAX_S


USDC = (
    "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
)


@pytest.mark.real_time
async def test_one_link_in_many_hands_leaves_other_payments_their_feeds(tmp_path: Path) -> None:
    at = await furnish(tmp_path, None)
    server = FurnishedServer(tmp_path, {"PAYD_FEEDS_PER_PAYMENT": "2"})
    body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}
    try:
        await server.start()
        async with AsyncExitStack() as pages, Client(server.port) as shop:
            made = [(await shop.ask("POST", "/v1/payments", body, at.headers)).body for _ in range(2)]
            mine, other = (f"/v1/payments/{one['paymentId']}/feed" for one in made)
            answered = [
                await (await pages.enter_async_context(Client(server.port))).ask("GET", path, None, UPGRADE)
                for path in (mine, mine, mine, other)
            ]
    finally:
        await server.put_away()

    assert [one.status for one in answered] == [101, 101, 429, 101]


def test_two_thousand_pages_fit_as_shipped(tmp_path: Path) -> None:
    shipped = load(None, {"PAYD_DATA_DIR": str(tmp_path)})

    assert min(shipped.feeds.max, shipped.feeds.per_payment) >= 2000
    assert shipped.feeds.max < shipped.http.connections_max, "who follows leaves room for who asks"
    assert shipped.feeds.per_payment * 10 <= shipped.feeds.max, "one link takes a tenth"


def test_what_is_opened_for_test_webhooks_is_not_opened_for_live_ones(tmp_path: Path) -> None:
    opened = {"PAYD_WEBHOOKS_TEST_ALLOW_HTTP": "true", "PAYD_WEBHOOKS_TEST_ALLOW_NETWORKS": "127.0.0.0/8"}
    config = load(None, {"PAYD_DATA_DIR": str(tmp_path), **opened})
    test, live = webhook_rules(config, "test"), webhook_rules(config, "live")

    assert (test.allow_http, len(test.allow_networks)) == (True, 1)
    assert (live.allow_http, live.allow_networks) == (False, ())
