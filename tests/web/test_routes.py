"""The route table under attack: every route × everyone who may not use it, from one table of expectations.

A refused request gets its clear error and changes nothing. A route without a row here is a failure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from payd.clock import system_wall_ms
from payd.core.event import iso_ms
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.entropy import new_id, system_entropy
from payd.store.apps import insert_app
from payd.store.db import Tx
from payd.store.keys import SCOPES, list_keys, revoke_key
from payd.web.routes import ROUTES, Route, match_route
from tests.receiver import Does, Receiver, always
from tests.shop import APPROVES, Got, Shop, open_shop
from tests.web.rows import FAULTS, FORBIDDEN, HOOK, HOOKS, NEW_PAYMENT, NO_OBJECT, NO_PAYMENT, TABLE, Expected

CLOSED = tuple(route for route in ROUTES if route.family != "open")
ON_KEYS = tuple(route for route in ROUTES if route.family == "key")
ON_GATEWAY = tuple(route for route in ROUTES if route.family == "gateway")
SCOPED = tuple(route for route in CLOSED if route.scope is not None)


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


Things = dict[str, str]


async def things_of(shop: Shop, key: str, merchant: str) -> Things:
    """One of everything that a path can name, of one account."""
    settlements = await shop.call("GET", f"/v1/merchants/{merchant}/settlements", key=key)
    made = await shop.call("PUT", f"{HOOKS}/endpoint", {"url": HOOK}, key=key)
    assert made.status == 200, made.body
    payments = []
    for _ in range(2):
        created = await shop.call("POST", "/v1/payments", NEW_PAYMENT, key=key, merchant_id=merchant)
        payments.append(str(created.body["paymentId"]))
    await shop.call("POST", f"/v1/test/payments/{payments[1]}/simulate", {"to": "succeeded"}, key=key)
    options = await shop.call("POST", f"/v1/gateway/payment/{payments[0]}/options", [APPROVES], key=key)
    now_ms = shop.realm.clock.now_ms()
    await shop.realm.deliveries.drained(now_ms)
    job = await shop.call("POST", f"{HOOKS}/recover", {"since": iso_ms(now_ms)}, key=key)
    await shop.realm.deliveries.drained(now_ms)
    fault = {"fault": "drop", "paymentId": payments[0], "events": ["payment.expired"]}
    injected = await shop.call("POST", FAULTS, fault, key=key)
    events = await shop.call("GET", "/v1/events", key=key)
    deliveries = await shop.call("GET", f"{HOOKS}/deliveries", key=key)
    return {
        "merchant": merchant,
        "settlement": settlements.body["crypto"][0]["id"],
        "payment": payments[0],
        "paid": payments[1],
        "option": options.body["options"][0]["id"],
        "event": events.body["data"][0]["id"],
        "delivery": deliveries.body["data"][0]["id"],
        "job": job.body["id"],
        "fault": injected.body["id"],
        "now": iso_ms(now_ms),
    }


@dataclass
class Street:
    """A shop with one of everything, for each of two accounts."""

    shop: Shop
    own: Things
    foreign: Things
    second_merchant: str

    async def send(
        self,
        route: Route,
        *,
        key: str | None = "",
        things: Things | None = None,
        no_merchant: bool = False,
        **headers: str,
    ) -> Got:
        """The row's request, as somebody sends it."""
        row, filled = TABLE[name_of(route)], self.own | (things or {})
        if route.merchant == "required" and not no_merchant:
            headers.setdefault("merchant_id", self.own["merchant"])
        if route.idempotency == "required":
            headers.setdefault("idempotency_key", new_id("k", 0))
        return await self.shop.call(
            route.method, row.target.format_map(filled), fill(row.body, filled), key=key, raw=None, **headers
        )

    async def dump(self) -> list[Any]:
        """Everything that the test realm stores, but the audit and the clock."""
        await trio.testing.wait_all_tasks_blocked(0)
        return await self.shop.realm.db.read(everything)


def fill(body: Any, things: Mapping[str, str]) -> Any:
    """The body with the names of things in braces filled in."""
    if isinstance(body, dict):
        return {name: fill(value, things) for name, value in body.items()}
    if isinstance(body, str):
        return body.format_map(things)
    return body


def everything(tx: Tx) -> list[Any]:
    tables = tx.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [
        (name, tx.execute(f"SELECT * FROM {name}").fetchall())
        for (name,) in tables
        if name not in ("audit", "clock")
    ]


async def resolve(host: str) -> list[str]:
    """Every name is public."""
    await trio.lowlevel.checkpoint()
    return [host] if host[0].isdigit() else ["93.184.216.34"]


@asynccontextmanager
async def open_street(folder: Path) -> AsyncIterator[Street]:
    opened = open_shop(folder / "data", live=True, PAYD_WEBHOOKS_TEST_ALLOW_HTTP="true")
    async with trio.open_nursery() as nursery, opened as shop:
        receiver = Receiver(nursery, always(Does()))
        shop.realm.deliveries.http.resolve, shop.realm.deliveries.http.dial = resolve, receiver.dial
        own = await things_of(shop, shop.key, shop.merchant_id)
        other_merchant = await shop.new_merchant(key=shop.other_key)
        foreign = await things_of(shop, shop.other_key, other_merchant)
        yield Street(shop, own, foreign, await shop.new_merchant())
        nursery.cancel_scope.cancel()


@pytest.fixture
async def street(tmp_path: Path) -> AsyncIterator[Street]:
    async with open_street(tmp_path) as opened:
        yield opened


class Outcomes:
    """Collects what came out otherwise than the table says, and what was changed by a refused request."""

    def __init__(self, street: Street) -> None:
        self.street = street
        self.wrong: list[str] = []
        self.before: list[Any] = []

    async def expect(self, route: Route, expected: Expected, found: Got) -> None:
        code = found.code if expected[1] and isinstance(found.body, dict) and "code" in found.body else ""
        if (found.status, code) != expected:
            self.wrong.append(f"{name_of(route)}: {found.status} {found.body}, not {expected}")
        elif expected[1]:
            if found.headers["request-id"] != found.body["details"]["requestId"]:
                self.wrong.append(f"{name_of(route)}: the refusal names another request")
            if self.before != await self.street.dump():
                self.wrong.append(f"{name_of(route)}: a refused request changed something")
        self.before = await self.street.dump()

    async def start(self) -> Outcomes:
        self.before = await self.street.dump()
        return self


def test_every_route_has_its_row() -> None:
    names = [name_of(route) for route in ROUTES]
    assert len(set(names)) == len(names)
    assert set(names) == TABLE.keys()


LAST = (
    "POST /v1/webhooks/endpoint/disable",
    "DELETE /v1/webhooks/endpoint",
    "DELETE /v1/merchants/{merchantId}",
)


def takes_away(route: Route) -> int:
    """What takes something away comes after what needs it."""
    return LAST.index(name_of(route)) + 1 if name_of(route) in LAST else 0


async def test_the_right_sender_is_let_in(street: Street) -> None:
    wrong = []
    for route in sorted(ROUTES, key=takes_away):
        row, things = TABLE[name_of(route)], {}
        if "payment" in things_in(route):
            things["payment"] = await street.shop.pay()
            if "{option}" in str(row.body):
                things["option"] = (await street.shop.options(things["payment"]))[0]["id"]
        found = await street.send(route, things=things)
        if (found.status, found.code if row.own[1] else "") != row.own:
            wrong.append(f"{name_of(route)}: {found.status} {found.body}, not {row.own}")
    assert not wrong, "\n".join(wrong)


async def test_without_a_key_nobody_gets_in(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        await outcomes.expect(route, (401, "missing_api_key"), await street.send(route, key=None))
        found = await street.send(route, key=None, api_key="")
        await outcomes.expect(route, (401, "missing_api_key"), found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_an_unknown_key_opens_nothing(street: Street) -> None:
    never_made = make_api_key("test", system_entropy(KEY_ENTROPY_BYTES))
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        for key in (never_made, "svc_test_x", "é", street.shop.key + "x", street.shop.key[4:]):
            await outcomes.expect(route, (401, "invalid_api_key"), await street.send(route, key=key))
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_a_revoked_key_opens_nothing(street: Street) -> None:
    db, account = street.shop.realm.db, street.shop.account_id
    known = {key.id for key in await db.read(list_keys, account)}
    key = await street.shop.new_key()
    (fresh,) = {key.id for key in await db.read(list_keys, account)} - known
    await db.write(revoke_key, account_id=account, key_id=fresh, actor="test", now_ms=0)
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        await outcomes.expect(route, (401, "invalid_api_key"), await street.send(route, key=key))
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_a_live_key_sees_nothing_of_the_test_realm(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        before = await street.dump()
        found = await street.send(route, key=street.shop.keys["live.one"])
        await outcomes.expect(route, TABLE[name_of(route)].live, found)
        assert before == await street.dump(), name_of(route)
        for thing in street.own.values():
            assert thing == street.own["now"] or thing not in found.raw.decode(), name_of(route)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_an_app_id_opens_the_gateway_and_nothing_else(street: Street) -> None:
    app = street.shop.realm.checkout_app_id
    outcomes = await Outcomes(street).start()
    for route in ON_KEYS:
        found = await street.send(route, key=None, app_id=app, client_id="c")
        await outcomes.expect(route, (401, "missing_api_key"), found)
        await outcomes.expect(route, (401, "invalid_api_key"), await street.send(route, key=app))
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_both_kinds_of_credential_at_once_are_refused(street: Street) -> None:
    app = street.shop.realm.checkout_app_id
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        for found in (
            await street.send(route, app_id=app),
            await street.send(route, client_id="c"),
            await street.send(route, app_id=app, client_id="c"),
        ):
            await outcomes.expect(route, (400, "conflicting_auth_headers"), found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_half_an_app_credential_is_none(street: Street) -> None:
    app = street.shop.realm.checkout_app_id
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        gateway = route.family == "gateway"
        found = await street.send(route, key=None, app_id=app)
        await outcomes.expect(route, (401, "missing_client_id" if gateway else "missing_api_key"), found)
        found = await street.send(route, key=None, client_id="c")
        await outcomes.expect(route, (401, "missing_app_id" if gateway else "missing_api_key"), found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_an_unknown_or_revoked_or_live_app_opens_nothing(street: Street) -> None:
    live, revoked = street.shop.house.realms["live"].checkout_app_id, new_id("app_t", system_wall_ms())
    await street.shop.realm.db.write(
        insert_app, app_id=revoked, account_id=street.shop.account_id, name="old", actor="test", now_ms=0
    )
    await street.shop.realm.db.write(
        lambda tx: tx.execute("UPDATE apps SET revoked_at_ms = 1 WHERE id = ?", (revoked,))
    )
    outcomes = await Outcomes(street).start()
    for route in ON_GATEWAY:
        for app in ("app_t", "nobody", new_id("app_t", 0), revoked):
            found = await street.send(route, key=None, app_id=app, client_id="c")
            await outcomes.expect(route, (401, "invalid_app_id"), found)
        found = await street.send(route, key=None, app_id=live, client_id="c")
        await outcomes.expect(route, NO_PAYMENT, found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_a_merchant_that_is_required_must_be_named(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    required = [route for route in CLOSED if route.merchant == "required"]
    assert {name_of(route).partition(" ")[2] for route in required} == {
        "/v1/payments",
        "/v1/payments/{id}/status",
        "/v1/merchant/payment",
        "/v1/merchant/payment/{id}/status",
        "/v1/refunds",
    }
    for route in required:
        found = await street.send(route, no_merchant=True)
        await outcomes.expect(route, (400, "missing_merchant_id"), found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


@pytest.mark.parametrize("named", ["another account's", "malformed", "unknown"])
async def test_a_merchant_that_is_not_the_callers_is_not_found(street: Street, named: str) -> None:
    merchant = {
        "another account's": street.foreign["merchant"],
        "malformed": "mrch_' OR 1=1",
        "unknown": new_id("mrch_", 0),
    }[named]
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        if route.merchant == "none" and route.family != "gateway":
            continue
        # Where it only has to match the payment in the path, it is the payment that is not there.
        matches = route.merchant != "required" and TABLE[name_of(route)].missing == NO_PAYMENT
        found = await street.send(route, merchant_id=merchant)
        await outcomes.expect(route, NO_PAYMENT if matches else NO_OBJECT, found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_another_merchant_of_the_account_does_not_match_the_payment(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        if TABLE[name_of(route)].missing == NO_PAYMENT:
            found = await street.send(route, merchant_id=street.second_merchant)
            await outcomes.expect(route, NO_PAYMENT, found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


NAMED = ("merchant", "settlement", "payment", "paid", "delivery", "event", "job")


def things_in(route: Route) -> list[str]:
    """The things that a route's request names."""
    row = TABLE[name_of(route)]
    return [thing for thing in NAMED if f"{{{thing}}}" in row.target + str(row.body)]


async def test_what_belongs_to_another_account_is_not_there(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    seen = set()
    for route in ON_KEYS:
        for thing in things_in(route):
            found = await street.send(route, things={thing: street.foreign[thing]})
            await outcomes.expect(route, TABLE[name_of(route)].missing, found)
            assert street.foreign[thing] not in found.raw.decode()
            seen.add(thing)
    assert seen == set(NAMED)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


MALFORMED = (
    "x", "%", "%2e%2e", "..", "pay_t", "mrch_", "' OR 1=1 --", "pay_t" + "0" * 36, "pay_x" + "0" * 36,
    "mrch_" + "z" * 36, "é", "\0", "�", "a" * 5000,
)  # fmt: skip


async def test_malformed_and_unknown_ids_read_the_same(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        for thing in things_in(route):
            messages = set()
            for text in MALFORMED:
                found = await street.send(route, things={thing: text})
                await outcomes.expect(route, TABLE[name_of(route)].missing, found)
                messages.add(found.body.get("message"))
            assert len(messages) == 1, (name_of(route), messages)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_the_other_realms_payment_is_not_there(street: Street) -> None:
    live_payment = new_id("pay_l", 0)
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        for thing in {"payment", "paid"} & set(things_in(route)):
            found = await street.send(route, things={thing: live_payment})
            await outcomes.expect(route, NO_PAYMENT, found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_a_key_with_every_scope_but_the_needed_one_is_forbidden(street: Street) -> None:
    keys = {
        scope: await street.shop.new_key(scopes=[one for one in SCOPES if one != scope])
        for scope in {route.scope for route in SCOPED}
    }
    assert keys.keys() == set(SCOPES), "every scope is needed somewhere"
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        found = await street.send(route, key=keys[route.scope])
        await outcomes.expect(route, FORBIDDEN, found)
        assert found.body["details"]["scope"] == route.scope
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_a_key_with_only_the_needed_scope_is_let_in(tmp_path: Path) -> None:
    async with open_street(tmp_path) as street:
        keys = {scope: await street.shop.new_key(scopes=[scope]) for scope in SCOPES}
        reading = [route for route in CLOSED if route.method == "GET" and route.scope is not None]
        for route in reading:
            found = await street.send(route, key=keys[str(route.scope)])
            assert found.status == 200, (name_of(route), found.body)


async def test_a_key_for_another_merchant_reaches_nothing_of_this_one(street: Street) -> None:
    key = await street.shop.new_key(merchants=[street.second_merchant])
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        expected = TABLE[name_of(route)].limited
        if route.method != "GET" and not expected[1]:
            continue  # The gateway, where the payment's id is the authority; sample events.
        found = await street.send(route, key=key)
        await outcomes.expect(route, expected, found)
        if found.status == 200 and route.family == "key":
            for thing in ("merchant", "settlement", "payment", "event", "delivery"):
                assert street.own[thing] not in found.raw.decode(), name_of(route)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


def test_every_closed_route_needs_a_scope_and_no_open_one_does() -> None:
    assert all((route.scope is not None) == (route.family != "open") for route in ROUTES)
    assert {route.scope for route in ROUTES} == {None, *SCOPES}


def test_only_the_gateway_the_payment_feed_and_solana_pay_are_open_to_other_origins() -> None:
    for route in ROUTES:
        expected = route.family == "gateway" or route.path == "/v1/payments/{id}/feed"
        expected |= route.path.startswith("/v1/solana-pay/")
        assert route.open_to_browsers == expected, name_of(route)


def test_an_idempotency_key_is_required_where_the_specification_says_so() -> None:
    required = {name_of(route) for route in ROUTES if route.idempotency == "required"}
    assert required == {"POST /v1/merchants", "POST /v1/merchants/{merchantId}/settlements/crypto"}


async def test_a_malformed_idempotency_key_is_refused_wherever_one_is_looked_at(street: Street) -> None:
    outcomes = await Outcomes(street).start()
    for route in CLOSED:
        if route.idempotency != "none":
            found = await street.send(route, idempotency_key="k" * 256)
            await outcomes.expect(route, (400, "invalid_params"), found)
    assert not outcomes.wrong, "\n".join(outcomes.wrong)


async def test_a_repeated_request_under_its_key_gets_its_answer_again(street: Street) -> None:
    keyed = [route for route in CLOSED if route.idempotency != "none"]
    assert len(keyed) == 20
    for route in keyed:
        payment = await street.shop.pay()
        await street.shop.call("POST", f"{HOOKS}/endpoint/enable")  # the route before may have put it off
        key, body = new_id("k", 0), TABLE[name_of(route)].body
        once, again = [
            await street.send(route, things={"payment": payment}, idempotency_key=key) for _ in range(2)
        ]
        assert (once.status, once.raw) == (again.status, again.raw), (name_of(route), body)
        assert once.status < 300
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["original-request"] == once.headers["request-id"]


@pytest.mark.parametrize(
    ("path", "template", "id"),
    [
        ("pay_t1", "", "pay_t1"),
        ("pay_t1/options", "/options", "pay_t1"),
        ("https://pay.example/pay/pay_t1", "", "https://pay.example/pay/pay_t1"),
        ("https://pay.example/pay/pay_t1/options", "/options", "https://pay.example/pay/pay_t1"),
        ("https%3A%2F%2Fpay.example%2Fpay_t1/options", "/options", "https%3A%2F%2Fpay.example%2Fpay_t1"),
    ],
)
def test_a_payment_link_in_a_gateway_path_keeps_what_follows_it(path: str, template: str, id: str) -> None:
    method = "POST" if template else "GET"
    route, params = match_route(method, f"/v1/gateway/payment/{path}")
    assert route is not None
    assert route.path == f"/v1/gateway/payment/{{id}}{template}"
    assert params == {"id": id}


@pytest.mark.parametrize(
    "path", ["", "/", "/v1", "/v1/payments/", "/v1/payments/a/b", "/V1/payments", "//v1/payments"]
)
def test_other_paths_lead_nowhere(path: str) -> None:
    assert match_route("GET", path) == (None, {})
