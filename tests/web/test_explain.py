"""What the server knows of a delivery that does not verify, on deliveries that really were sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from payd.core.diagnosis import Received
from payd.core.event import iso_ms
from payd.core.signature import make_secret, sign
from payd.store.endpoints import listen_secret
from payd.web.explain import Explained, explain
from tests.web.hooked import ENDPOINT, Hooked, open_hooked

HOUR_S = 3600


@pytest.fixture
async def hooked(tmp_path: Path) -> AsyncIterator[Hooked]:
    async with open_hooked(tmp_path) as opened:
        yield opened


async def sent(hooked: Hooked) -> Received:
    """One delivery, as it arrived."""
    await hooked.shop.pay()
    await hooked.drained()
    last = hooked.receiver.received[-1]
    message_id, timestamp, signature = (
        last.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature")
    )
    return Received(message_id, timestamp, signature, last.body)


async def asked(hooked: Hooked, received: Received, secret: str | None = None) -> Explained:
    digest = None if secret is None else hashlib.sha256(secret.encode()).hexdigest()
    return await explain(hooked.shop.realm, hooked.shop.account_id, received, digest)


async def rotated(hooked: Hooked) -> str:
    return str((await hooked.shop.call("POST", f"{ENDPOINT}/rotate")).body["secret"])


async def test_a_delivery_is_recognised_with_its_secret_and_its_state(hooked: Hooked) -> None:
    made_at = iso_ms(hooked.shop.realm.clock.now_ms())
    secret = (await hooked.register())["secret"]
    said = await asked(hooked, await sent(hooked), secret)
    [delivery] = await hooked.deliveries()
    assert (said.match, said.created_at, said.rotated_at, said.expires_at) == ("current", made_at, None, None)
    assert said.given is not None
    assert said.given.standing == "current"
    assert (said.delivery_id, said.delivery_state) == (delivery["id"], "succeeded")
    assert said.body_changed is False
    assert secret not in str(msgspec.to_builtins(said))


async def test_the_delivery_is_that_of_the_very_event(hooked: Hooked) -> None:
    await hooked.register()
    created = await sent(hooked)
    payment_id = msgspec.json.decode(created.body)["data"]["payment_id"]
    assert (await hooked.shop.call("POST", f"/v1/payments/{payment_id}/cancel")).status == 200
    await hooked.drained()
    deliveries = {one["eventType"]: one["id"] for one in await hooked.deliveries()}
    assert len(deliveries) == 2
    assert (await asked(hooked, created)).delivery_id == deliveries["payment.created"]


async def test_a_rotated_secret_is_told_with_when_it_stops(hooked: Hooked) -> None:
    first = (await hooked.register())["secret"]
    before = await sent(hooked)
    await hooked.advance(HOUR_S)
    at_ms = hooked.shop.realm.clock.now_ms()
    second = await rotated(hooked)

    said = await asked(hooked, before, second)
    assert (said.match, said.rotated_at) == ("previous", iso_ms(at_ms))
    assert said.expires_at == iso_ms(at_ms + 24 * HOUR_S * 1000)
    assert said.given is not None
    assert said.given.standing == "current"

    await hooked.advance(25 * HOUR_S)
    said = await asked(hooked, await sent(hooked), first)
    assert said.match == "current"
    assert said.given is not None
    assert (said.given.standing, said.given.rotated_at) == ("expired", iso_ms(at_ms))
    assert (await asked(hooked, before)).match == "expired"


async def test_what_was_signed_with_another_secret_is_nobodys(hooked: Hooked) -> None:
    await hooked.register()
    received = await sent(hooked)
    other = make_secret(b"o" * 32)
    signed = sign([other], received.message_id, int(received.timestamp), received.body)
    said = await asked(hooked, msgspec.structs.replace(received, signature=signed), other)
    assert (said.match, said.given, said.body_changed) == (None, None, False)
    assert said.delivery_state == "succeeded", "the event is known all the same"


async def test_a_body_that_was_changed_beyond_repair_is_told_from_what_was_sent(hooked: Hooked) -> None:
    await hooked.register()
    received = await sent(hooked)
    doubled = json.loads(received.body)
    doubled["data"]["amount"]["value"] = 2500.0
    changed = msgspec.structs.replace(received, body=json.dumps(doubled, sort_keys=True).encode())
    said = await asked(hooked, changed)
    assert (said.match, said.body_changed) == ("current", True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"id":1,"data":{"payment_id":2}}',
        b'{"id":"evt_1","data":[]}',
        b"[" * 9999,
    ],
)
async def test_a_body_that_names_no_event_is_no_trouble(hooked: Hooked, body: bytes) -> None:
    await hooked.register()
    said = await asked(hooked, Received("msg_1", "1", "v1,AAAA", body))
    assert (said.match, said.delivery_id, said.delivery_state) == (None, None, None)


async def test_nothing_is_said_of_another_accounts_event(hooked: Hooked) -> None:
    await hooked.register()
    received = await sent(hooked)
    other = await hooked.shop.call("PUT", ENDPOINT, {"url": "http://b.test/"}, key=hooked.shop.other_key)
    assert other.status == 200
    [theirs] = [one for one in hooked.shop.house.accounts if one != hooked.shop.account_id]
    said = await explain(hooked.shop.realm, theirs, received)
    assert (said.match, said.delivery_id) == (None, None)


async def test_what_a_listener_signed_is_recognised_with_and_without_an_endpoint(hooked: Hooked) -> None:
    secret = listen_secret(hooked.shop.realm.seal, hooked.shop.account_id)
    received = Received("msg_1", "1", sign([secret], "msg_1", 1, b"{}"), b"{}")
    said = await asked(hooked, received)
    assert (said.match, said.by_listener, said.has_endpoint) == (None, True, False)
    await hooked.register()
    said = await asked(hooked, received)
    assert (said.match, said.by_listener, said.has_endpoint) == (None, True, True)


async def test_without_an_endpoint_nothing_is_known_of_what_others_signed(hooked: Hooked) -> None:
    said = await asked(hooked, Received("msg_1", "1", "v1,AAAA", b"{}"), make_secret(b"o" * 32))
    assert (said.match, said.by_listener, said.has_endpoint, said.given) == (None, False, False, None)
