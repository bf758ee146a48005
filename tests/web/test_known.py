"""What is known of requests with one head: as long as it holds, and not a moment longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import trio

from payd.store.db import Tx
from payd.store.keys import revoke_key
from payd.web import auth, dispatch
from payd.web.call import Answer, Call, Request
from payd.web.driver import Driver
from payd.web.limits import RateLimit
from payd.web.routes import ROUTES
from tests.shop import Got, Shop

PREVIEW = "2026-02-19.preview"
STATUS = next(route for route in ROUTES if route.path == "/v1/payments/{id}/status")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were looked at."""
    keys: list[str] = []

    def authenticate(house: Any, headers: Any, *, gateway: bool) -> auth.Caller:
        keys.append(headers.get("api-key", ""))
        return auth.authenticate(house, headers, gateway=gateway)

    monkeypatch.setattr(dispatch, "authenticate", authenticate)
    return keys


async def status(shop: Shop, payment_id: str, **more: Any) -> Got:
    return await shop.call("GET", f"/v1/payments/{payment_id}/status", merchant_id=shop.merchant_id, **more)


async def test_who_asks_again_is_known_and_hears_what_is_so_now(shop: Shop, looked: list[str]) -> None:
    payment_id = await shop.pay()
    looked.clear()
    assert (await status(shop, payment_id)).body["status"] == "requires_action"
    again = await status(shop, payment_id)
    cancelled = await shop.call("POST", f"/v1/payments/{payment_id}/cancel")
    after = await status(shop, payment_id)

    assert again.body["status"] == "requires_action"
    assert cancelled.status == 200
    assert after.body["status"] == "cancelled"
    assert after.headers.keys() == again.headers.keys()
    assert after.headers["request-id"] != again.headers["request-id"]
    assert looked == [shop.key, shop.key]  # for the first status, and for the cancel


async def test_another_head_is_looked_at_for_itself(shop: Shop, looked: list[str]) -> None:
    payment_id = await shop.pay()
    assert (await status(shop, payment_id)).status == 200
    looked.clear()

    assert (await status(shop, payment_id, key=shop.other_key)).status == 404
    assert (await status(shop, payment_id, service_version=PREVIEW)).headers["service-version"] == PREVIEW
    assert (await shop.call("GET", f"/v1/payments/{payment_id}/status")).code == "missing_merchant_id"

    assert looked == [shop.other_key, shop.key, shop.key]


async def test_a_revoked_key_opens_nothing_from_the_next_request_on(shop: Shop) -> None:
    payment_id, key = await shop.pay(), await shop.new_key(account_id=shop.account_id)
    assert (await status(shop, payment_id, key=key)).status == 200
    assert (await status(shop, payment_id, key=key)).status == 200
    key_id = await shop.realm.db.read(_newest_key)
    await shop.realm.db.write(revoke_key, account_id=shop.account_id, key_id=key_id, actor="", now_ms=0)

    assert (await status(shop, payment_id, key=key)).code == "invalid_api_key"


def _newest_key(tx: Tx) -> str:
    (key_id,) = tx.execute("SELECT id FROM api_keys ORDER BY rowid DESC LIMIT 1").fetchone()
    return str(key_id)


async def test_the_version_is_the_accounts_own_from_the_next_request_on(shop: Shop) -> None:
    payment_id = await shop.pay()
    before = [(await status(shop, payment_id)).headers["service-version"] for _ in range(2)]
    account = shop.house.accounts[shop.account_id]
    shop.house.versions = (*shop.house.versions, "2027-01-01")
    shop.house.accounts[shop.account_id] = msgspec.structs.replace(account, api_version="2027-01-01")

    assert before == [account.api_version] * 2
    assert (await status(shop, payment_id)).headers["service-version"] == "2027-01-01"


async def test_what_is_known_has_its_rate_as_before(shop: Shop) -> None:
    payment_id = await shop.pay()
    shop.house.limits = replace(shop.house.limits, per_key=RateLimit(1, burst=3, now_s=lambda: 0.0))

    answered = [(await status(shop, payment_id)).status for _ in range(5)]

    assert answered == [200, 200, 200, 429, 429]


async def test_a_request_that_was_refused_is_looked_at_again(shop: Shop, looked: list[str]) -> None:
    payment_id = await shop.pay()
    looked.clear()
    for _ in range(2):
        assert (await status(shop, payment_id, service_version="1999-01-01")).status == 400
    for _ in range(2):
        assert (await shop.call("GET", "/v1/payments?limit=x")).status == 400
        assert (await shop.call("GET", "/v1/payments?limi=1")).status == 400

    # A route's own refusals come from somebody who is known; those before it do not.
    assert looked == [shop.key] * 5


async def test_what_a_handler_adds_to_its_call_is_not_shared(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await shop.pay()
    shared: list[bool] = []

    async def handler(call: Call) -> Answer:
        shared.append("added" in call.params)
        call.params["added"] = "1"
        return await STATUS.handler(call)

    route = replace(STATUS, handler=handler)
    monkeypatch.setattr(dispatch, "match_route", lambda *_: (route, {"id": payment_id}))
    for _ in range(3):
        assert (await status(shop, payment_id)).status == 200

    assert shared == [False, False, False]


async def test_who_shows_no_key_is_looked_at_each_time(shop: Shop) -> None:
    payment_id = await shop.pay()
    shop.seen.clear()
    app: dict[str, Any] = {"app_id": shop.realm.checkout_app_id, "client_id": "c"}
    path = f"/v1/gateway/payment/{payment_id}/status"
    assert (await shop.call("GET", path, key=None, **app)).status == 200
    assert (await shop.call("GET", f"/pay/{payment_id}/status", key=None)).status == 200
    assert [seen.known for seen in shop.seen.values()] == [None, None]

    assert (await shop.call("GET", path)).status == 200
    assert [seen.known is None for seen in shop.seen.values()] == [True, True, False]


PROMPT = [route.path for route in ROUTES if route.prompt and route.method == "GET"]
COMMITS = [route.path for route in ROUTES if route.prompt and route.method == "POST"]
ORDER = b'{"referenceId":"1","amount":{"unit":"iso4217/EUR","value":"100"}}'


class Door:
    """The door of those who have no task, and what it was told after a commit."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.driver: Driver[Answer] = Driver()
        self.told: list[Answer | Exception] = []

    def ask(self, method: str, path: str, body: bytes = b"", key: str = "") -> Answer | None:
        """What is answered at once; None where there is a commit to wait for."""
        head = {"api-key": self.shop.key, "merchant-id": self.shop.merchant_id, "idempotency-key": key}
        request = Request(method, path, headers={name: value for name, value in head.items() if value})
        request.body = body
        found = self.driver.start(dispatch.answer(self.shop.house, request), self.told.append)
        assert not isinstance(found, Exception)
        return found

    def status(self, method: str, path: str, body: bytes = b"") -> int:
        """Of an answer that nothing is waited for."""
        found = self.ask(method, path, body)
        assert found is not None
        return found.status

    async def create(self, path: str, body: bytes = ORDER, key: str = "") -> Answer:
        """An answer that a commit is waited for."""
        assert self.ask("POST", path, body, key) is None
        while not self.told:
            await trio.sleep(0.001)
        found = self.told.pop()
        assert isinstance(found, Answer)
        return found


@pytest.fixture
async def door(shop: Shop) -> AsyncIterator[Door]:
    async with trio.open_nursery() as nursery:
        opened = Door(shop)
        nursery.start_soon(opened.driver.run)
        yield opened
        nursery.cancel_scope.cancel()
    assert opened.told == []


@pytest.mark.parametrize("path", PROMPT)
async def test_what_is_prompt_waits_for_nothing_whatever_comes_of_it(
    shop: Shop, door: Door, path: str
) -> None:
    payment_id = await shop.pay()
    asleep = path.replace("{id}", payment_id.replace("pay_t0", "pay_t1"))
    there = path.replace("{id}", payment_id)
    shop.realm.payments.turns.forget_all()

    assert door.status("GET", there) == 200
    assert door.status("GET", there) == 200
    assert door.status("GET", asleep) == 404
    shop.house.limits = replace(shop.house.limits, per_key=RateLimit(1, burst=0.5, now_s=lambda: 0.0))
    assert door.status("GET", there) == 429
    shop.key = "svc_test_" + "0" * 52
    assert door.status("GET", there) == 401


@pytest.mark.parametrize("path", COMMITS)
async def test_what_creates_waits_for_its_commit_alone_whatever_comes_of_it(
    shop: Shop, door: Door, path: str
) -> None:
    made = await door.create(path, key="k")
    again = await door.create(path, key="k")
    other = await door.create(path, ORDER.replace(b"100", b"200"), key="k")
    assert (made.status, again.status, other.status) == (201, 201, 409)
    assert made.body == again.body
    assert dict(again.headers)["Idempotent-Replayed"] == "true"
    assert door.status("POST", path, b"{}") == 400
    assert door.status("POST", path, b"{") == 400

    async with shop.after_writes(0):
        refused = door.ask("POST", path, ORDER)
        assert refused is not None
        assert refused.status == 503
    await shop.realm.db.write(disable_all)
    assert (await door.create(path)).status == 400
    shop.key = "svc_test_" + "0" * 52
    assert door.status("POST", path, ORDER) == 401


def disable_all(tx: Tx) -> None:
    tx.execute("UPDATE merchants SET status = 'paused'")


def test_what_is_asked_for_all_day_is_prompt() -> None:
    assert set(PROMPT) == {
        "/v1/payments/{id}", "/v1/payments/{id}/status", "/v1/merchant/payment/{id}/status",
    }  # fmt: skip
    assert set(COMMITS) == {"/v1/payments", "/v1/merchant/payment"}
