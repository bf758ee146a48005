"""A whole house in one test, without sockets or threads: realms, keys, a merchant, and the one door.

Virtual time moves the realm's clock, so that timers, long polls and schedules run at once. Background tasks
that `server.serve` starts (deadlines, deliveries, the clock) run here too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trio

from payd.config import load
from payd.core.errors import StoreUnavailable
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.core.ids import Realm as RealmName
from payd.core.version import DEFAULT
from payd.entropy import new_id, system_entropy
from payd.server import open_house
from payd.store.accounts import Account, insert_account
from payd.store.batch import Step
from payd.store.copying import DATABASES
from payd.store.db import open_database
from payd.store.keys import SCOPES, insert_key
from payd.web.call import Answer, Request, Seen
from payd.web.commands import run_command
from payd.web.dispatch import answer
from payd.web.feed import CatchUp
from payd.web.house import House, Realm
from tests.described import Query, check_described
from tests.virtual_wall import VirtualWall

USDC_BASE: Final = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ETH_BASE: Final = "eip155:8453/slip44:60"
USDT_MAINNET: Final = "eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7"
SOLANA: Final = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
USDC_SOLANA: Final = f"{SOLANA}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"

WALLET: Final = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
SOLANA_WALLET: Final = "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV"
BUYER: Final = "eip155:8453:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
APPROVES: Final = "eip155:8453:0x0000000000000000000000000000000000000001"

START_MS: Final = 1_780_000_000_000

SIGNATURE: Final = "0x" + "11" * 64 + "1b"
TX_HASH: Final = "0x" + "ab" * 32


Heads = dict[tuple[object, ...], Seen]


@dataclass(frozen=True)
class Got:
    """An answer, decoded."""

    status: int
    body: Any
    headers: dict[str, str]
    raw: bytes
    cookies: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The error's machine code."""
        return str(self.body["code"])


@dataclass
class Shop:
    """A house with an account, a key of each realm that runs, and a merchant that can be paid."""

    house: House
    account_id: str
    key: str
    folder: Path
    merchant_id: str = ""
    other_key: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    seen: Heads = field(default_factory=dict)

    @property
    def realm(self) -> Realm:
        """The test realm."""
        return self.house.realms["test"]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = "",
        raw: bytes | None = None,
        **headers: str,
    ) -> Got:
        """One request through the door. `key=None` sends no key; header names with underscores."""
        sent = {name.replace("_", "-").lower(): value for name, value in headers.items()}
        if key is not None:
            sent.setdefault("api-key", key or self.key)
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        found = await knock(self.house, method, path, sent, data, self.seen)
        return got(found)

    async def do(self, command: str, **args: Any) -> Any:
        """An operator's command on this account; what it answers, as JSON has it."""
        named = {"account": self.account_id, **args}
        return msgspec.to_builtins(await run_command(self.house, command, msgspec.json.encode(named)))

    async def leave(self, method: str, path: str, body: Any = None) -> None:
        """One request whose client goes away as soon as its write waits for the disk."""
        db = self.realm.db
        await trio.sleep(0.001)  # others that were at work have written
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.call, method, path, body)
            while not (db._staged or db._batch):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def after_writes(self, number: int) -> AsyncIterator[None]:
        """After that many, nothing is written any more: what ends here is as after a crash at this point."""
        await trio.sleep(0.001)  # others that were at work have written
        db, left = self.realm.db, number
        stored = db._stored

        async def some(step: Step, *, hurry: bool = True) -> Any:
            nonlocal left
            if left == 0:
                raise StoreUnavailable("The store cannot be written.")
            left -= 1
            return await stored(step, hurry=hurry)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(db, "_stored", some)
            yield

    async def pay(
        self, reference: str = "ORDER-1", value: str = "2500", unit: str = "iso4217/USD", **more: Any
    ) -> str:
        """Create a payment and give its id."""
        body = {"referenceId": reference, "amount": {"unit": unit, "value": value}, **more}
        made = await self.call("POST", "/v1/payments", body, merchant_id=self.merchant_id)
        assert made.status == 201, made.body
        return str(made.body["paymentId"])

    async def options(self, payment_id: str, accounts: Sequence[str] = (APPROVES,)) -> list[dict[str, Any]]:
        """What a wallet with these accounts is offered."""
        found = await self.call("POST", f"/v1/gateway/payment/{payment_id}/options", list(accounts))
        assert found.status == 200, found.body
        return list(found.body["options"])

    async def confirm(self, payment_id: str, option_id: str, *data: str, query: str = "") -> Got:
        """Send a wallet's results, one string each."""
        results = [{"type": "walletRpc", "data": [item]} for item in data]
        body = {"optionId": option_id, "results": results}
        return await self.call("POST", f"/v1/gateway/payment/{payment_id}/confirm{query}", body)

    async def status(self, payment_id: str) -> str:
        """The payment's status by the merchant's path."""
        found = await self.call("GET", f"/v1/payments/{payment_id}/status", merchant_id=self.merchant_id)
        return str(found.body["status"])

    async def new_key(
        self,
        *,
        realm: RealmName = "test",
        account_id: str = "",
        scopes: Sequence[str] = SCOPES,
        merchants: Sequence[str] | None = None,
    ) -> str:
        """Another key."""
        api_key = make_api_key(realm, system_entropy(KEY_ENTROPY_BYTES))
        where = self.house.realms[realm]
        now_ms = where.clock.now_ms()
        await where.db.write(
            insert_key,
            key_id=new_id("key_", now_ms),
            account_id=account_id or self.account_id,
            api_key=api_key,
            name="another",
            scopes=scopes,
            merchants=merchants,
            actor="test",
            now_ms=now_ms,
        )
        return api_key

    async def new_merchant(self, *, key: str = "", pays: bool = True) -> str:
        """Another merchant, with a destination unless told otherwise."""
        made = await self.call(
            "POST",
            "/v1/merchants",
            {"merchantName": "Café Größe", "merchantEmail": "shop@example.com"},
            key=key or self.key,
            idempotency_key=new_id("k", 0),
        )
        assert made.status == 201, made.body
        merchant_id = str(made.body["merchant"]["id"])
        if pays:
            await self.register(merchant_id, USDC_BASE, f"eip155:8453:{WALLET}", key=key)
        return merchant_id

    async def register(self, merchant_id: str, asset: str, destination: str, *, key: str = "") -> str:
        """Register a destination and give the settlement's id."""
        made = await self.call(
            "POST",
            f"/v1/merchants/{merchant_id}/settlements/crypto",
            {"settlements": [{"asset": asset, "destination": destination}]},
            key=key or self.key,
            idempotency_key=new_id("k", 0),
        )
        assert made.status == 201, made.body
        return str(made.body["settlements"][0]["id"])


async def knock(
    house: House, method: str, path: str, headers: Mapping[str, str], data: bytes, seen: Heads | None = None
) -> Answer:
    """One request through the door of a house, from somewhere in the world; its whole answer.

    A door that has `seen` heads remembers what is known of them.
    """
    target, _, query = path.partition("?")
    head = [(name.encode(), value.encode()) for name, value in headers.items()]
    if data and "content-type" not in headers:
        head.append((b"content-type", b"application/json"))
    request = Request.from_head(method, target, query.encode(), head)
    request.body = data
    request.client_ip = "203.0.113.7"
    request.query = Query(request.query)
    if seen is not None:
        request.seen = seen.setdefault((method, path, *head), Seen())
    found = await answer(house, request)
    check_described(request, found)
    if found.parts is not None:
        found = replace(found, body=b"".join([part async for part in found.parts]))
    return found


def got(found: Answer) -> Got:
    """An answer as a client reads it."""
    try:
        body = msgspec.json.decode(found.body) if found.body else None
    except msgspec.DecodeError:
        body = None
    headers = {name.lower(): value for name, value in found.headers}
    cookies = tuple(value for name, value in found.headers if name.lower() == "set-cookie")
    return Got(found.status, body, headers, found.body, cookies)


@asynccontextmanager
async def open_shop(
    folder: Path, *, live: bool = False, start_ms: int = START_MS, **env: str
) -> AsyncIterator[Shop]:
    """A shop in an empty or an earlier folder.

    Args:
        folder: Its data.
        live: Whether the live realm runs as well; it has no chain.
        start_ms: The wall clock at the start, Unix milliseconds.
        env: More configuration, such as `PAYD_RATE_LIMITS_PER_IP`.
    """
    settings = {
        "PAYD_RATE_LIMITS_PER_KEY": "0",
        "PAYD_RATE_LIMITS_PER_IP": "0",
        "PAYD_RATE_LIMITS_FAILED_AUTH": "0",
    }
    config = load(
        None, settings | env | {"PAYD_DATA_DIR": str(folder), "PAYD_BASE_URL": "https://pay.example"}
    )
    if live:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name, schema in (DATABASES[0], DATABASES[2]):
            async with open_database(folder / name, schema, inline=True):
                pass  # That it is there makes the live realm run.
    async with (
        open_house(config, inline=True, wall=VirtualWall(start_ms)) as house,
        trio.open_nursery() as chores,
    ):
        for realm in house.realms.values():
            await chores.start(realm.deliveries.run)
            chores.start_soon(realm.payments.tending.deadlines.run)
            chores.start_soon(CatchUp(realm).run)
            if realm.advance is not None:
                chores.start_soon(realm.advance.run)
        shop = Shop(house, "", "", folder)
        await _furnish(shop)
        yield shop
        chores.cancel_scope.cancel()


async def _furnish(shop: Shop) -> None:
    for name in ("one", "two"):
        account = Account(new_id("acct_", 0), f"{name}-{new_id('', 0)}", DEFAULT, 0)
        await shop.house.office.write(insert_account, account)
        shop.house.accounts[account.id] = account
        for realm in shop.house.realms:
            shop.keys[f"{realm}.{name}"] = await shop.new_key(realm=realm, account_id=account.id)
        if name == "one":
            shop.account_id, shop.key = account.id, shop.keys["test.one"]
        else:
            shop.other_key = shop.keys["test.two"]
    shop.merchant_id = await shop.new_merchant()
