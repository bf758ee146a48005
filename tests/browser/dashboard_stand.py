"""A server on which every page of the dashboard has something to show, and an account with nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from payd.clock import system_wall_ms
from payd.config import load
from payd.core.roles import Role
from payd.entropy import new_id
from payd.server import open_house
from payd.store.sessions import Session, insert_session
from payd.store.users import put_membership
from payd.web.commands import run_command
from tests.browser.hook_receiver import HookReceiver, running_receiver
from tests.process import Server
from tests.shop import USDC_BASE, WALLET
from tests.visitor import seat

NOBODY: Final = "http://127.0.0.1:9"
CONFIGURATION: Final = f"""\
data_dir = "data"
[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8"]
[settlements]
change_delay_s = 3600
[[chains]]
id = "eip155:8453"
rpc = ["{NOBODY}"]
"""
HOSTILE: Final = (
    b"</code></pre><script>document.title = 'owned'</script><img src=x onerror=alert(1)>" + b"x" * 3000
)
OTHER: Final = "eip155:8453:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
LONG: Final = "ORDER-" + "1042" * 12
SCOPES: Final = (
    "merchants:read",
    "merchants:write",
    "settlements:write",
    "payments:read",
    "payments:write",
    "webhooks:read",
    "webhooks:write",
)
MODES: Final = ("test", "live")


@dataclass
class Stand:
    """What there is to look at.

    Attributes:
        server: It runs, and is reached by a name, as passkeys need it.
        full: The session of the owner of an account with data.
        empty: The session of the owner of an account without any.
        stale: As `full`, of somebody who showed long ago who they are.
        ids: By mode, what stands for the parameters of paths.
        keys: By mode, the account's API key.
        hook: The receiver of its test webhooks.
    """

    server: Server
    hook: HookReceiver
    full: str = ""
    empty: str = ""
    stale: str = ""
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def call(self, mode: str, method: str, path: str, body: Any = None, merchant: str = "") -> Any:
        """One call of the API in a mode."""
        sent = {"Api-Key": self.keys[mode], "Idempotency-Key": new_id("", 0)}
        sent |= {"Merchant-Id": merchant} if merchant else {}
        status, answer, _ = self.server.request(method, path, body, sent)
        assert status < 300, (path, answer)
        return answer

    def pay(self, mode: str, reference: str) -> str:
        """A payment's id."""
        body = {"referenceId": reference, "amount": {"unit": "iso4217/EUR", "value": "2500"}}
        return str(self.call(mode, "POST", "/v1/payments", body, self.ids[mode]["merchant"])["paymentId"])

    def simulate(self, payment: str, to: str) -> None:
        """Move a test payment."""
        self.call("test", "POST", f"/v1/test/payments/{payment}/simulate", {"to": to})


@contextmanager
def open_stand(folder: Path) -> Iterator[Stand]:
    """A running server with all of it, until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "payd.toml").write_text(CONFIGURATION)
    server = Server(folder / "data", {"PAYD_CONFIG": str(folder / "payd.toml")})
    server.url = f"http://localhost:{server.port}"
    server._env["PAYD_BASE_URL"] = server.url
    accounts, keys = trio.run(_open_accounts, folder)
    with running_receiver() as hook:
        stand = Stand(server, hook, keys=keys)
        stand.full = seat(server.folder, accounts[0])
        stand.empty = seat(server.folder, accounts[1], email="new@example.com")
        stand.stale = seat(server.folder, accounts[0], email="stale@example.com", proved_ago_ms=3_600_000)
        _let_into(server.folder, accounts[1], "ada@example.com")
        server.start()
        try:
            for mode in MODES:
                _furnish(stand, mode)
            yield stand
        finally:
            if server.process is not None and server.process.poll() is None:
                server.kill()


async def _open_accounts(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Two accounts, and the keys of the first by their modes."""
    given = {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"}
    async with open_house(load(folder / "payd.toml", given), inline=True) as house:

        async def do(command: str, **args: Any) -> dict[str, Any]:
            made = await run_command(house, command, msgspec.json.encode(args))
            return dict(msgspec.to_builtins(made))

        accounts = [(await do("account.create", name=name))["id"] for name in ("Ada's shop", "A new shop")]
        keys = {}
        for mode, more in (("test", ("test",)), ("live", ())):
            scopes = [*SCOPES, *more]
            made = await do("key.create", mode=mode, account=accounts[0], name="till", scopes=scopes)
            keys[mode] = str(made["apiKey"])
            await do("app.create", mode=mode, account=accounts[0], name="till's page")
    return accounts, keys


def _let_into(folder: Path, account_id: str, email: str) -> None:
    """Make her a viewer of a second account, and give her a second browser."""
    with closing(sqlite3.connect(folder / "office.db")) as tx, tx:
        [(user_id,)] = tx.execute("SELECT id FROM users WHERE email = ?", (email,)).fetchall()
        now_ms = system_wall_ms()
        put_membership(
            tx, account_id=account_id, user_id=user_id, role=Role.VIEWER, actor="test", now_ms=now_ms
        )
        there = Session(
            new_id("ses_", now_ms),
            user_id,
            account_id,
            "test",
            now_ms,
            now_ms,
            now_ms,
            "127.0.0.1",
            "a phone",
        )
        insert_session(tx, there, b"-" * 32)


def _furnish(stand: Stand, mode: str) -> None:
    about = {"merchantName": "Ada & Söhne <b>Ltd.</b>", "merchantEmail": "ada@example.com"}
    merchant = stand.call(mode, "POST", "/v1/merchants", about)["merchant"]["id"]
    stand.ids[mode] = ids = {"mode": mode, "merchant": merchant}
    where = [{"asset": USDC_BASE, "destination": f"eip155:8453:{WALLET}"}]
    added = stand.call(mode, "POST", f"/v1/merchants/{merchant}/settlements/crypto", {"settlements": where})
    ids["destination"] = str(_id_of(added))
    if mode == "test":
        stand.call(mode, "PUT", "/v1/webhooks/endpoint", {"url": stand.hook.url})
        fault = {"fault": "delay", "for": "1h", "events": ["payment.cancelled"]}
        stand.call(mode, "POST", "/v1/test/webhooks/inject", fault)
    else:
        there = f"/v1/merchants/{merchant}/settlements/crypto/{ids['destination']}"
        stand.call(mode, "PUT", there, {"destination": OTHER})  # it waits
        stand.call(mode, "PUT", "/v1/webhooks/endpoint", {"url": "https://hooks.example/payd"})
        stand.call(mode, "POST", "/v1/webhooks/endpoint/pause")
    ids["payment"] = stand.pay(mode, LONG)
    other = stand.pay(mode, "ORDER-2")
    if mode == "test":
        stand.simulate(ids["payment"], "succeeded")
        stand.hook.status, stand.hook.body = 500, HOSTILE
        stand.simulate(stand.pay(mode, "ORDER-3"), "failed")
    else:
        stand.call(mode, "POST", f"/v1/payments/{other}/cancel", {}, merchant)
    ids["delivery"] = stand.call(mode, "GET", "/v1/webhooks/deliveries")["data"][0]["id"]
    ids["event"] = stand.call(mode, "GET", "/v1/events")["data"][0]["id"]
    stand.server.request("GET", "/v1/payments/pay_none", headers={"Api-Key": stand.keys[mode]})


def _id_of(added: Mapping[str, Any]) -> str:
    return str(added["settlements"][0]["id"])
