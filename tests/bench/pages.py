"""The dashboard's pages as a merchant asks for them: which, with what in the query, and how they are fetched.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlencode

import trio

from payd.config import load
from payd.core.period import DAY_MS, day_of
from payd.server import open_house
from payd.store.payments import PaymentFilter
from payd.web.cursor import encode_cursor
from payd.web.dashboard.cookies import Cookies
from payd.web.dashboard.export import export_payments
from payd.web.schema import Words
from tests.bench.realm import BUYERS, DAYS, ENDPOINT, MERCHANTS, RARE_ASSET, created_at_ms, payment_id, seller
from tests.crash.client import Client, request_bytes
from tests.crash.process import Furnished, environment
from tests.shop import Shop
from tests.statements import overheard
from tests.visitor import BROWSER, Visitor

ROWS: Final = 40
FIRST_ROW_MAX_S: Final = 20
ABANDONED_S: Final = 0.1  # until the server knows that nobody reads on
# What was made is older than a server keeps such things by itself.
KEEPS: Final = {"PAYD_WEBHOOKS_KEEP_DAYS": "120"}

Said = tuple[Literal["office", "test"], str]
Way = Callable[[random.Random], str]


@dataclass(frozen=True)
class Realm:
    """What there is to ask for."""

    payments: int
    now_ms: int

    def one(self, dice: random.Random) -> int:
        """A payment's number."""
        return dice.randrange(1, self.payments + 1)

    def created_at_ms(self, number: int) -> int:
        """When it was created."""
        return created_at_ms(number, self.payments, self.now_ms)


def ways(realm: Realm) -> dict[str, Way]:
    """Every page by its name, each time with another payment, day, buyer or merchant."""
    return (
        _list_ways(realm) | _search_ways(realm) | _other_ways(realm) | _webhook_ways(realm) | _log_ways(realm)
    )


def _to(path: str, **query: str) -> str:
    return f"/d/test/{path}" + (f"?{urlencode(query)}" if query else "")


def _list_ways(realm: Realm) -> dict[str, Way]:
    def deep(dice: random.Random) -> str:
        number = realm.one(dice)
        return _to("payments", cursor=encode_cursor(realm.created_at_ms(number), number))

    def combined(dice: random.Random) -> str:
        day = day_of(realm.now_ms - dice.randrange(8, DAYS) * DAY_MS, 0)
        week = {"since": str(day), "until": str(day_of(realm.now_ms, 0))}
        return _to("payments", status="failed", merchant=seller(dice.randrange(MERCHANTS)), **week)

    def status(dice: random.Random) -> str:
        return _to("payments", status=dice.choice(("failed", "succeeded", "processing")))

    def nothing(_dice: random.Random) -> str:
        return _to("payments", asset=RARE_ASSET, status="expired")

    return {
        "payments: first page": lambda _: _to("payments"),
        "payments: any later page": deep,
        "payments: one status": status,
        "payments: merchant, status, some days": combined,
        "payments: an asset that is rare": lambda _: _to("payments", asset=RARE_ASSET),
        "payments: what nothing passes": nothing,
    }


def _search_ways(realm: Realm) -> dict[str, Way]:
    return {
        "search: a payment's id": lambda dice: _to("payments", q=payment_id(realm.one(dice))),
        "search: a reference": lambda dice: _to("payments", q=f"ORDER-{realm.one(dice)}"),
        "search: how all references begin": lambda _: _to("payments", q="ORDER"),
        "search: a transaction": lambda dice: _to("payments", q=f"0x{realm.one(dice):064x}"),
        "search: a buyer": lambda dice: _to("payments", q=f"0x{dice.randrange(BUYERS):040x}"),
    }


def _other_ways(realm: Realm) -> dict[str, Way]:
    return {
        "home": lambda _: _to(""),
        "payment": lambda dice: _to(f"payments/{payment_id(realm.one(dice))}"),
        "transfers astray": lambda _: _to("transfers"),
        "transfers, all": lambda _: _to("transfers", all="yes"),
        "keys": lambda _: _to("keys"),
        "audit log": lambda _: "/settings/audit",
    }


def _webhook_ways(realm: Realm) -> dict[str, Way]:
    listed = "webhooks/deliveries"

    def deep(dice: random.Random) -> str:
        return _to(listed, cursor=encode_cursor(realm.one(dice)))

    def rare(_dice: random.Random) -> str:
        return _to(listed, state="failed", type="payment.failed", endpoint=ENDPOINT)

    return {
        "webhooks": lambda _: _to("webhooks"),
        "deliveries: first page": lambda _: _to(listed),
        "deliveries: any later page": deep,
        "deliveries: failed": lambda _: _to(listed, state="failed"),
        "deliveries: failed, one type, one endpoint": rare,
        "deliveries: what nothing passes": lambda _: _to(listed, type="payment.expired"),
        "deliveries: of a payment": lambda dice: _to(listed, payment=payment_id(realm.one(dice))),
        "delivery": lambda dice: _to(f"{listed}/dlv_{payment_id(realm.one(dice))[5:]}"),
        "events": lambda _: _to("webhooks/events", type="payment.failed"),
    }


def _log_ways(realm: Realm) -> dict[str, Way]:
    return {
        "API log: first page": lambda _: _to("log"),
        "API log: any later page": lambda dice: _to("log", cursor=encode_cursor(realm.one(dice))),
        "API log: refusals": lambda _: _to("log", code="refused"),
        "API log: of a key, refused": lambda dice: _to("log", code="400", key=f"key_{dice.randrange(3)}"),
        "API log: a request's id": lambda dice: _to("log", request=f"req_{payment_id(realm.one(dice))}"),
        "API log: what nothing passes": lambda _: _to("log", request="/v1/merchants", code="2xx"),
    }


CSV: Final = "payments as CSV: to the first row"
CSV_PATH: Final = "/d/test/payments.csv"


@dataclass
class Browser:
    """A person who is signed in to a server that runs, on one connection."""

    port: int
    token: str
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name = Cookies.at(f"http://127.0.0.1:{self.port}").name("session")
        self.headers = {"cookie": f"{name}={self.token}", "accept": BROWSER}
        self._client = Client(self.port)

    async def get(self, path: str) -> float:
        """A page, and where it leads; milliseconds until all of it is there."""
        started_s = time.perf_counter()
        found = await self._client.ask("GET", path, headers=self.headers)
        while found.status == 303:
            found = await self._client.ask("GET", found.headers["location"], headers=self.headers)
        took_ms = (time.perf_counter() - started_s) * 1000
        assert found.status == 200, f"{path}: {found.status}"
        assert b"form_token" in found.raw, f"{path} is no page of who is signed in"
        return took_ms

    async def first_row(self, path: str) -> float:
        """Milliseconds until the first row of a CSV is there; the rest is not waited for."""
        with trio.fail_after(FIRST_ROW_MAX_S):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                started_s = time.perf_counter()
                await stream.send_all(request_bytes("GET", path, None, self.headers))
                said = b""
                while b"\npay_" not in said:
                    more = bytes(await stream.receive_some())
                    assert more, f"{path} ended after {said!r}"
                    said += more
                took_ms = (time.perf_counter() - started_s) * 1000
        await trio.sleep(ABANDONED_S)
        return took_ms

    async def close(self) -> None:
        """End the connection."""
        await self._client.close()


@asynccontextmanager
async def listening_house(at: Furnished, account_id: str, token: str) -> AsyncIterator[Visitor]:
    """The same pages without a server: who visits them can listen to what they ask the stores."""
    async with open_house(load(None, environment(at.folder, KEEPS)), inline=True) as house:
        name = Cookies.at(house.base_url).name("session")
        yield Visitor(Shop(house, account_id, at.key, at.folder), "", account_id, {name: token})


async def statements_of(visitor: Visitor, path: str) -> list[Said]:
    """What a page, and the one that it leads to, ask the stores."""
    house = visitor.shop.house
    with overheard(house.office) as people, overheard(house.realms["test"].db) as rows:
        page = await visitor.follow(path)
    assert page.status == 200, f"{path}: {page.status}"
    office: list[Said] = [("office", one) for one in people]
    return office + [("test", one) for one in rows]


async def statements_of_csv(visitor: Visitor) -> list[Said]:
    """What a CSV asks the store up to its first rows."""
    realm = visitor.shop.house.realms["test"]
    chosen = PaymentFilter(account_id=visitor.account_id)
    with overheard(realm.db) as rows:
        async with aclosing(export_payments(realm, Words(()), chosen)) as parts:
            await anext(parts)
            await anext(parts)
    return [("test", one) for one in rows]


def status_requests(at: Furnished, payments: int, count: int) -> list[bytes]:
    """A backend's requests for the statuses of some of the payments."""
    dice, requests = random.Random(13), []
    with closing(sqlite3.connect(at.folder / "data" / "test.db")) as rows:
        for _ in range(count):
            one = payment_id(dice.randrange(1, payments + 1))
            found = rows.execute("SELECT merchant_id FROM payments WHERE id = ?", (one,)).fetchone()
            headers = {"api-key": at.key, "merchant-id": found[0]}
            requests.append(request_bytes("GET", f"/v1/payments/{one}/status", None, headers))
    return requests
