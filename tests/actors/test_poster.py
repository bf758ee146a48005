"""An attempt is sent: what is sent, with which signatures, and how its end is judged."""

from __future__ import annotations

import ipaddress
from functools import partial

import pytest
import trio

from payd.actors.poster import WebhookRules, verdict, webhook_client
from payd.core.errors import SealBroken
from payd.core.signature import make_secret
from payd.net.http import Reply, Target
from payd.store.db import Database
from payd.store.endpoints import rotate_secret
from payd.store.seal import Seal
from tests.outbox import make_outbox, open_outbox
from tests.receiver import CA_FILE, Does, Receiver, in_turn, server_tls


def reply(status: int | None, error_class: str | None = None) -> Reply:
    return Reply(status, error_class, "", (), b"", True, None, 0)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_a_2xx_is_a_success(status: int) -> None:
    assert verdict(reply(status)) is None


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 308, 399])
def test_a_redirect_is_none(status: int) -> None:
    assert verdict(reply(status)) == "redirect"


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503, 599])
def test_any_other_status_is_none(status: int) -> None:
    assert verdict(reply(status)) == "http_status"


def test_no_status_keeps_the_networks_word() -> None:
    assert verdict(reply(None, "dns_error")) == "dns_error"


async def test_the_timestamp_is_real_though_the_realms_clock_is_ahead(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        endpoint, _ = await outbox.register("a.test")
        outbox.clock.move_to_offset(5 * 24 * 3600 * 1000)
        await outbox.deliveries.send_test(endpoint, "payment.created")

        [received] = receiver.received
        stamp = received.headers["webhook-timestamp"]
        assert stamp == str(outbox.clock.real_ms() // 1000)
        assert stamp.isdigit()


async def test_the_headers_are_the_schemes_and_ours(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        endpoint, _ = await outbox.register("a.test")
        await outbox.deliveries.send_test(endpoint, "payment.created")

        [received] = receiver.received
        assert set(received.headers) == {
            "host",
            "content-length",
            "accept-encoding",
            "content-type",
            "user-agent",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
        }
        assert received.headers["user-agent"] == "payd/test"
        assert received.headers["webhook-id"].startswith("msg_")
        assert "." not in received.headers["webhook-id"]
        assert received.headers["webhook-signature"].startswith("v1,")


async def test_an_http_endpoint_from_before_is_not_called_once_http_is_closed(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        endpoint, _ = await outbox.register("a.test")
    async with open_outbox(realm_db, rules=WebhookRules()) as outbox:
        receiver = outbox.host("a.test")
        result = await outbox.deliveries.send_test(endpoint, "payment.created")

        assert (result.end.status, result.end.error_class) == (None, "blocked_address")
        assert receiver.received == []


async def test_an_address_that_became_private_is_not_called(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        endpoint, _ = await outbox.register("a.test")

        async def rebound(_host: str) -> list[str]:
            await trio.lowlevel.checkpoint()
            return ["127.0.0.1"]

        outbox.deliveries.http.resolve = rebound
        result = await outbox.deliveries.send_test(endpoint, "payment.created")

        assert (result.end.status, result.end.error_class) == (None, "blocked_address")
        assert receiver.received == []


async def test_a_secret_of_another_seal_key_signs_nothing(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        endpoint, _ = await outbox.register("a.test")
    async with trio.open_nursery() as nursery:
        other = make_outbox(realm_db, nursery, seal=Seal(bytes([7] * 32)))
        await nursery.start(other.deliveries.run)
        receiver = other.host("a.test")
        with pytest.raises(SealBroken):
            await other.deliveries.send_test(endpoint, "payment.created")

        assert receiver.received == []
        nursery.cancel_scope.cancel()


async def test_after_a_new_seal_key_the_rotated_secret_signs_alone(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        endpoint, _ = await outbox.register("a.test")
    async with trio.open_nursery() as nursery:
        seal = Seal(bytes([7] * 32))
        other = make_outbox(realm_db, nursery, seal=seal)
        await nursery.start(other.deliveries.run)
        receiver = other.host("a.test")
        fresh = make_secret(bytes(32))
        rotate = partial(
            rotate_secret,
            endpoint_id=endpoint.id,
            account_id=endpoint.account_id,
            sealed=seal.seal(fresh.encode(), endpoint.id),
            now_ms=other.clock.now_ms(),
            actor="test",
        )
        await realm_db.write(rotate)
        result = await other.deliveries.send_test(endpoint, "payment.created")

        assert result.end.status == 200
        [request] = receiver.received
        assert len(request.headers["webhook-signature"].split()) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_the_realms_client_verifies_tls_and_asks_the_realms_rules(realm_db: Database) -> None:

    async with trio.open_nursery() as nursery:
        target = Target.of(f"https://127.0.0.1:{await Receiver(nursery, tls=server_tls()).listen()}/")
        loopback = (ipaddress.ip_network("127.0.0.0/8"),)
        opened = webhook_client(WebhookRules(allow_networks=loopback, ca_file=CA_FILE))
        untrusting = webhook_client(WebhookRules(allow_networks=loopback))
        closed = webhook_client(WebhookRules(ca_file=CA_FILE))
        ends = [await client.send("POST", target, (), b"{}") for client in (opened, untrusting, closed)]
        await opened.aclose()
        nursery.cancel_scope.cancel()

    assert [(end.status, end.error_class) for end in ends] == [
        (200, None),
        (None, "tls_error"),
        (None, "blocked_address"),
    ]


async def test_a_receivers_date_is_compared_with_our_clock_once_a_minute(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        dates = ["Thu, 28 May 2026 20:24:40 GMT", "nonsense", "Thu, 28 May 2026 20:26:40 GMT"]
        outbox.host("a.test", in_turn(*(Does(headers=(("Date", date),)) for date in dates)))
        await outbox.register("a.test")
        stats = outbox.deliveries.stats
        await outbox.happen()
        await outbox.drained()
        assert stats.skew_s == 120, "our clock is ahead of its"
        await outbox.happen()
        await outbox.drained()
        assert stats.skew_s == 120
        await trio.sleep(61)
        await outbox.happen()
        await outbox.drained()
        assert stats.skew_s == 61
