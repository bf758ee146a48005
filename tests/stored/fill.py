"""Makes a stored database of a schema version: a shop in test mode, served by the payd of that version.

    python -m tests.stored.fill                    the newest, by the payd in this folder
    python -m tests.stored.fill --code FOLDER      by an older payd whose package lies in FOLDER
    python -m tests.stored.fill --realm 3          from the stored one before it, by the migrations

Do the first before you add a migration to one that others have run: `test_upgrade.py` asks for it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from payd.core.collect import Answered
from payd.store.collected import sealed_answers
from payd.store.migrate import Schema, migrate, read_migrations, schema_version
from payd.store.seal import Seal
from payd.store.second_factors import app_subject
from tests.process import Server
from tests.shop import APPROVES, SIGNATURE, USDC_BASE, WALLET

HERE: Final = Path(__file__).parent
SEAL_KEY: Final = "5e" * 32
HOLDER: Final = "eip155:" + APPROVES.rpartition(":")[2]
HELD: Final = APPROVES[:-1] + "4"
USER: Final = "usr_stored"
_SECTION: Final = re.compile(r"^-- from (office|realm) (\d+)\n(.*?)(?=^-- from |\Z)", re.M | re.S)
FILES: Final[tuple[tuple[str, Schema], ...]] = (("office.db", "office"), ("test.db", "realm"))


class Told(msgspec.Struct, frozen=True):
    """What the shop was told: a payment's status by its reference, and the key to ask again."""

    api_key: str
    merchant_id: str
    paid: str
    statuses: dict[str, tuple[str, str]]
    """Payment id and status, by reference."""


def folder_of(office: int, realm: int) -> Path:
    """Where the databases of these versions are stored."""
    return HERE / f"office{office:02}_realm{realm:02}"


def stored() -> dict[tuple[int, int], Path]:
    """Every stored data directory, by the versions of its office and its realm."""
    found = sorted(HERE.glob("office??_realm??"))
    return {(int(each.name[6:8]), int(each.name[-2:])): each for each in found}


def unpack(source: Path, data: Path) -> Told:
    """Make a data directory from a stored one."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / "seal.key").write_text(SEAL_KEY + "\n")
    (data / "seal.key").chmod(0o600)
    for name, _ in FILES:
        with closing(sqlite3.connect(data / name)) as tx:
            tx.execute("PRAGMA synchronous = OFF")
            tx.execute("PRAGMA auto_vacuum = INCREMENTAL")
            tx.executescript(gzip.decompress((source / f"{name}.sql.gz").read_bytes()).decode())
        (data / name).chmod(0o600)
    return read_told(source)


def read_told(source: Path) -> Told:
    """What a stored shop was told."""
    return msgspec.json.decode((source / "told.json").read_bytes(), type=Told)


def pack(data: Path, told: Told) -> Path:
    """Store a data directory."""
    versions = {}
    dumps = {}
    for name, schema in FILES:
        with closing(sqlite3.connect(data / name)) as tx:
            versions[schema] = schema_version(tx)
            lines = [*tx.iterdump(), f"PRAGMA user_version = {versions[schema]};"]
            dumps[name] = "\n".join(lines).encode()
    target = folder_of(versions["office"], versions["realm"])
    target.mkdir(exist_ok=True)
    for name, dump in dumps.items():
        (target / f"{name}.sql.gz").write_bytes(gzip.compress(dump, mtime=0))
    (target / "told.json").write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
    return target


def add_rows(data: Path, told: Told, above: dict[str, int]) -> None:
    """Insert what the shop did not make, for versions over those in `above`."""
    seal = Seal(bytes.fromhex(SEAL_KEY))
    answers = sealed_answers(seal, told.paid, HOLDER, [Answered("name", "Name", "Ada")])
    with closing(sqlite3.connect(data / "test.db")) as tx:
        account, now = tx.execute("SELECT account_id, created_at_ms FROM payments LIMIT 1").fetchone()
    names = {
        "payment": told.paid, "holder": HOLDER, "account": account, "merchant": told.merchant_id,
        "user": USER, "now": now,
        "sealed_answers": f"x'{answers.hex()}'",
        "sealed_app": f"x'{seal.seal(b'app', app_subject(USER)).hex()}'",
        "sealed_gone": f"x'{seal.seal(b'whsec_gone', 'ep_gone').hex()}'",
    }  # fmt: skip
    for name, schema in FILES:
        with closing(sqlite3.connect(data / name, isolation_level=None)) as tx:
            version = schema_version(tx)
            for of, since, rows in _SECTION.findall((HERE / "rows.sql").read_text()):
                if of == schema and above[schema] < int(since) <= version:
                    tx.executescript(rows.format(**names))


def sell(server: Server) -> Told:
    """Have a payment of each fate, with webhooks that nobody takes."""
    server.payd("account", "create", "main")
    key = server.payd("key", "create")["apiKey"]
    server.payd("app", "create", "--name", "Wallet")
    server.payd("key", "revoke", server.payd("key", "create")["id"])

    def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {"api-key": key, **{name.replace("_", "-"): value for name, value in headers.items()}}
        status, answer, _ = server.request(method, path, body, sent)
        assert status < 300, (method, path, status, answer)
        return answer

    merchant = {"merchantName": "Shop", "merchantEmail": "shop@example.com"}
    merchant_id = ask("POST", "/v1/merchants", merchant, idempotency_key="m1")["merchant"]["id"]
    gone = ask("POST", "/v1/merchants", {**merchant, "merchantName": "Gone"}, idempotency_key="m2")
    ask("DELETE", f"/v1/merchants/{gone['merchant']['id']}")
    where = {"settlements": [{"asset": USDC_BASE, "destination": f"eip155:8453:{WALLET}"}]}
    ask("POST", f"/v1/merchants/{merchant_id}/settlements/crypto", where, idempotency_key="s1")
    ask("PUT", "/v1/webhooks/endpoint", {"url": "http://127.0.0.1:9/hook"})
    made: dict[str, str] = {}
    for reference in ("left", "cancelled", "paid", "processing", "failed", "expired"):
        body = {"referenceId": reference, "amount": {"unit": "iso4217/USD", "value": "1250"}}
        made[reference] = ask("POST", "/v1/payments", body, merchant_id=merchant_id)["paymentId"]
    ask("POST", f"/v1/payments/{made['cancelled']}/cancel")
    for reference, account in (("paid", APPROVES), ("processing", HELD)):
        path = f"/v1/gateway/payment/{made[reference]}"
        option = ask("POST", f"{path}/options", [account])["options"][0]["id"]
        results = [{"type": "walletRpc", "data": [SIGNATURE]}]
        ask("POST", f"{path}/confirm", {"optionId": option, "results": results})
    for reference in ("failed", "expired"):
        ask("POST", f"/v1/test/payments/{made[reference]}/simulate", {"to": reference})
    ask("POST", "/v1/test/clock", {"advance": "10s"})
    while ask("GET", "/v1/test/clock")["job"]["state"] != "done":
        pass
    statuses = {
        reference: (one, ask("GET", f"/v1/payments/{one}", merchant_id=merchant_id)["status"])
        for reference, one in made.items()
    }
    assert {status for _, status in statuses.values()} == {
        "requires_action", "cancelled", "succeeded", "processing", "failed", "expired"
    }  # fmt: skip
    return Told(key, merchant_id, made["paid"], statuses)


def fill_by_server(code: Path) -> Path:
    """Store what the payd in `code` makes of a shop."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir(mode=0o700)
        (data / "seal.key").write_text(SEAL_KEY + "\n")
        (data / "seal.key").chmod(0o600)
        allowed = {
            "PYTHONPATH": str(code),
            "PYTHONSAFEPATH": "1",
            "PAYD_WEBHOOKS_TEST_ALLOW_HTTP": "true",
            "PAYD_WEBHOOKS_TEST_ALLOW_NETWORKS": "127.0.0.0/8",
        }
        server = Server(data, allowed)
        os.chdir(folder)  # where there is no payd.toml
        try:
            server.start()
            told = sell(server)
            assert server.stop() == 0
        finally:
            if server.process is not None and server.process.poll() is None:
                server.kill()
        add_rows(data, told, {"office": 0, "realm": 0})
        return pack(data, told)


def fill_by_migration(office: int | None, realm: int | None) -> Path:
    """Store what the migrations make of the nearest stored one below, where no payd has just that version."""
    below = max(pair for pair in stored() if pair[0] <= (office or 99) and pair[1] <= (realm or 99))
    wanted = {"office": office or below[0], "realm": realm or below[1]}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        told = unpack(stored()[below], data)
        for name, schema in FILES:
            with closing(sqlite3.connect(data / name, isolation_level=None)) as tx:
                migrate(tx, read_migrations(schema)[: wanted[schema]])
        add_rows(data, told, {"office": below[0], "realm": below[1]})
        return pack(data, told)


def main() -> None:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", type=lambda typed: Path(typed).absolute(), default=HERE.parents[1])
    parser.add_argument("--office", type=int)
    parser.add_argument("--realm", type=int)
    typed = parser.parse_args()
    if typed.office or typed.realm:
        print(fill_by_migration(typed.office, typed.realm))
    else:
        print(fill_by_server(typed.code))


if __name__ == "__main__":
    main()
