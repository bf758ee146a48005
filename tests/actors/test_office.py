"""The office forgets what is over."""

from __future__ import annotations

import pytest
import trio

from payd.actors.maintenance import AUDIT_DAYS, BATCH_MAX, DAY_MS, EVERY_S, FIRST_S
from payd.actors.office import OfficeChores
from payd.core.tries import ACCOUNT
from payd.store.db import Database, Tx
from payd.store.links import Link, insert_link
from payd.store.sessions import LIFETIME_MS, Session, insert_session
from payd.store.sign_ins import KEPT_MS, SignIn, insert_sign_in
from payd.store.tries import begin_try

NOW = 1_780_000_000_000


async def fill(office: Database, count: int) -> None:
    """Something of each kind, this often."""

    def step(tx: Tx) -> None:
        for number in range(count):
            name = f"{number}"
            session = Session(
                f"ses_{name}", f"usr_{name}", "acct_1", "test", NOW, NOW, NOW, "203.0.113.7", "a browser"
            )
            insert_session(tx, session, name.encode())
            insert_sign_in(tx, SignIn(NOW, None, "", "password", "refused", "", ""))
            begin_try(tx, [(ACCOUNT, name)], NOW)
            link = Link(f"inv_{name}", "reset", None, f"usr_{name}", None, None, "cli", NOW, NOW + 1)
            insert_link(tx, link, name.encode())
            tx.execute("INSERT INTO challenges (hash, expires_at_ms) VALUES (?, ?)", (name.encode(), NOW + 1))

    await office.write(step)


async def test_each_kind_is_forgotten_when_it_is_over_and_not_before(office: Database) -> None:
    await fill(office, 2)
    none = {"sessions": 0, "links": 0, "challenges": 0, "tries": 0, "sign_ins": 0, "audit": 0}
    assert await OfficeChores(office, lambda: NOW).run_once() == none
    gone = await OfficeChores(office, lambda: NOW + LIFETIME_MS + 1).run_once()
    assert gone == {"sessions": 2, "links": 2, "challenges": 2, "tries": 2, "sign_ins": 0, "audit": 0}
    assert (await OfficeChores(office, lambda: NOW + KEPT_MS + 1).run_once())["sign_ins"] == 2


async def test_many_are_forgotten_in_several_goes(office: Database) -> None:
    await fill(office, BATCH_MAX + 5)
    later = NOW + max(KEPT_MS, AUDIT_DAYS * DAY_MS) + 1
    gone = await OfficeChores(office, lambda: later).run_once()
    assert {*gone.values()} == {BATCH_MAX + 5}


async def test_it_comes_back_every_hour(office: Database) -> None:
    chores = OfficeChores(office, lambda: NOW + KEPT_MS + 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chores.run)
        await trio.sleep(FIRST_S + EVERY_S / 2)
        await fill(office, 1)
        await trio.sleep(EVERY_S)
        nursery.cancel_scope.cancel()
    assert (await chores.run_once())["sessions"] == 0


async def test_a_chore_that_crashes_keeps_no_other_from_its_work(
    office: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(tx: Tx, before_ms: int, limit: int) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("payd.actors.office.prune_sessions", crash)
    await fill(office, 2)
    gone = await OfficeChores(office, lambda: NOW + LIFETIME_MS + 1).run_once()

    assert gone == {"links": 2, "challenges": 2, "tries": 2, "sign_ins": 0, "audit": 0}
