"""`payd backup` of a server under full write load: what was acknowledged before is in it, and it is whole.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trio

from payd.store.manifest import read_manifest
from payd.store.migrate import Schema
from payd.store.self_check import broken_places, schema_differences
from tests.crash.client import Client
from tests.crash.process import Furnished, Server, environment, furnish

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

CREATORS: Final = 16
BEFORE: Final = 400  # as many are created before the backup begins
NAMES: Final[tuple[tuple[str, Schema], ...]] = (("office.db", "office"), ("test.db", "realm"))


async def create(server: Server, at: Furnished, name: int, acknowledged: list[str]) -> None:
    """Create payments, one after the other, and note each as soon as it is acknowledged."""
    async with Client(server.port) as client:
        number = 0
        while True:
            number += 1
            body = {"referenceId": f"{name}-{number}", "amount": {"unit": "iso4217/USD", "value": "100"}}
            made = await client.ask("POST", "/v1/payments", body, at.headers)
            assert made.status == 201, made.raw
            acknowledged.append(made.body["paymentId"])


async def payd(folder: Path, *words: str) -> Any:
    """What a command prints."""
    done = await trio.run_process(
        [sys.executable, "-m", "payd", *words, "--json"],
        env=environment(folder),
        cwd=folder,
        capture_stdout=True,
        stderr=subprocess.STDOUT,
    )
    return msgspec.json.decode(done.stdout)


def ids_in(folder: Path) -> set[str]:
    """The payments of a copy, each with its event and the delivery that it owes."""
    for name, schema in NAMES:
        with closing(sqlite3.connect(folder / name)) as tx:
            assert (broken_places(tx), schema_differences(tx, schema)) == ([], [])
    with closing(sqlite3.connect(folder / "test.db")) as tx:
        rows = tx.execute(
            "SELECT p.id, e.seq IS NOT NULL AND d.seq IS NOT NULL FROM payments p LEFT JOIN events e"
            " ON e.payment_id = p.id AND e.version = 0 LEFT JOIN deliveries d ON d.event_seq = e.seq"
        ).fetchall()
    assert all(whole for _, whole in rows)
    return {payment_id for payment_id, _ in rows}


async def test_under_full_load_it_is_whole_and_has_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    at = await furnish(tmp_path, "http://127.0.0.1:9/hook")
    server = Server(tmp_path)
    acknowledged: list[str] = []
    sets: list[tuple[set[str], set[str]]] = []
    try:
        await server.start()
        async with trio.open_nursery() as creators:
            for name in range(CREATORS):
                creators.start_soon(create, server, at, name, acknowledged)
            for backup in ("one", "two"):
                enough = len(acknowledged) + BEFORE
                while len(acknowledged) < enough:
                    await trio.sleep(0.01)
                before = set(acknowledged)
                made = await payd(tmp_path, "backup", str(tmp_path / backup))
                assert made["dest"] == str(tmp_path / backup)
                assert len(acknowledged) > len(before), "creators went on meanwhile"
                sets.append((before, ids_in(tmp_path / backup)))
            creators.cancel_scope.cancel()
        assert server.complaints() == []
        assert "backup.made" in server.log()
    finally:
        await server.put_away()
    for before, there in sets:
        assert before <= there
    assert read_manifest(tmp_path / "two").with_keys is False

    done = await payd(tmp_path, "restore", str(tmp_path / "two"), "--data-dir", str(tmp_path / "new"))
    assert [lost["what"] for lost in done["lost"]] == ["signing secrets of webhook endpoints"]
    assert ids_in(tmp_path / "new") == sets[1][1]


async def test_a_server_that_dies_leaves_no_half_backup_and_the_command_says_so(tmp_path: Path) -> None:
    await furnish(tmp_path, None)
    server = Server(tmp_path)
    try:
        await server.start()
        with closing(sqlite3.connect(tmp_path / "data" / "test.db")) as tx, tx:
            tx.execute("CREATE TABLE large AS SELECT zeroblob(200000000)")
        words = [sys.executable, "-m", "payd", "backup", str(tmp_path / "one")]
        asking = await trio.lowlevel.open_process(
            words, env=environment(tmp_path), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert asking.stderr is not None
        draft = tmp_path / ".payd-backup.partial"
        while not draft.exists():
            await trio.sleep(0.005)
        await server.kill()
        said = b"".join([bytes(part) async for part in asking.stderr])
        assert await asking.wait() == 3
        assert b"did not answer" in said
        assert not (tmp_path / "one").exists()
        with closing(sqlite3.connect(tmp_path / "data" / "test.db")) as tx, tx:
            tx.execute("DROP TABLE large")
        await payd(tmp_path, "backup", str(tmp_path / "one"))
        assert not draft.exists()
    finally:
        await server.put_away()
