"""Cursors of accounts: each is kept for its reading, moves with what was found, and goes when not needed."""

from __future__ import annotations

from payd.store.chain_accounts import AccountCursor, account_cursors, keep_accounts, move_accounts
from payd.store.db import Database

CHAIN = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
ONE, TWO = AccountCursor("one", "tx1", 7), AccountCursor("two", "", 3)


async def test_an_account_is_where_it_was_moved_to_in_each_reading(realm_db: Database) -> None:
    await realm_db.write(move_accounts, CHAIN, "head", [ONE, TWO])
    await realm_db.write(move_accounts, CHAIN, "final", [TWO])
    further = AccountCursor("one", "tx2", 9)
    await realm_db.write(move_accounts, CHAIN, "head", [further])
    assert realm_db.point(account_cursors, CHAIN, "head") == {"one": further, "two": TWO}
    assert realm_db.point(account_cursors, CHAIN, "final") == {"two": TWO}
    assert realm_db.point(account_cursors, "solana:other", "head") == {}


async def test_accounts_that_nobody_looks_for_are_forgotten_in_both_readings(realm_db: Database) -> None:
    for kind in ("head", "final"):
        await realm_db.write(move_accounts, CHAIN, kind, [ONE, TWO])
    assert await realm_db.write(keep_accounts, CHAIN, {"two"}) == 1
    assert realm_db.point(account_cursors, CHAIN, "head") == {"two": TWO}
    assert realm_db.point(account_cursors, CHAIN, "final") == {"two": TWO}
    assert await realm_db.write(keep_accounts, CHAIN, {"two"}) == 0
