"""Options in the store: stable ids, immutable quotes, frozen destinations, bounded everything."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.errors import RateLimited
from payd.core.option import OPTIONS_STORED_MAX, Build, Offer, Quote, WalletRpc
from payd.store import options as store
from payd.store.db import Database
from payd.store.options import (
    append_quote,
    asset_key_of,
    freeze_destination,
    frozen_destinations,
    hand_out,
    keep_hints,
    quotes_of,
)

ASSET, KEY, WALLET = "eip155:1/slip44:60", "eip155:1/slip44:60", "eip155:1:0xaa"
ACTIONS = (WalletRpc("eip155:1", "eth_sendTransaction", [{"to": "0x1", "n": 1}]), Build("data"))


def offer(account: str = "eip155:1:0xbb", *, amount: int = 10**30, until_ms: int = 601_000) -> Offer:
    return Offer(ASSET, account, amount, ACTIONS, 1, until_ms)


async def hand(
    db: Database, given: Offer, new_id: str, now_ms: int = 1000, payment: str = "pay_1", to: str = WALLET
) -> Quote:
    return await db.write(hand_out, payment, given, KEY, to, new_id, now_ms)


async def test_a_quote_is_read_as_it_was_handed_out(realm_db: Database) -> None:
    handed = await hand(realm_db, offer(), "opt_1")
    assert handed == Quote("opt_1", "pay_1", ASSET, "eip155:1:0xbb", 10**30, WALLET, ACTIONS, 1000, 601_000)
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [handed]
    assert realm_db.point(asset_key_of, "opt_1") == KEY


async def test_an_option_of_another_payment_is_none(realm_db: Database) -> None:
    await hand(realm_db, offer(), "opt_1")
    assert realm_db.point(quotes_of, "pay_2", "opt_1") == []
    assert realm_db.point(quotes_of, "pay_1", "opt_2") == []
    assert realm_db.point(asset_key_of, "opt_2") is None


async def test_the_id_stays_for_payment_asset_and_account(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    again = await hand(realm_db, offer(amount=7, until_ms=900_000), "opt_2", 300_000)
    other = await hand(realm_db, offer("eip155:1:0xcc"), "opt_3")
    elsewhere = await hand(realm_db, offer(), "opt_4", payment="pay_2")
    assert [one.option_id for one in (first, again, other, elsewhere)] == ["opt_1", "opt_1", "opt_3", "opt_4"]
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [again, first]


async def test_a_fresh_quote_is_handed_out_again_and_an_old_one_renewed(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    assert await hand(realm_db, offer(until_ms=700_000), "x", 301_000) == first
    renewed = await hand(realm_db, offer(until_ms=901_001), "x", 301_001)
    assert (renewed.valid_from_ms, renewed.valid_until_ms) == (301_001, 901_001)
    assert len(realm_db.point(quotes_of, "pay_1", "opt_1")) == 2


async def test_a_quote_that_cannot_be_longer_is_not_stored_again(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    assert await hand(realm_db, offer(), "x", 600_000) == first


@pytest.mark.parametrize("change", ["amount", "actions", "destination"])
async def test_a_quote_that_says_something_else_is_a_new_one(realm_db: Database, change: str) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    given, to = offer(), WALLET
    if change == "amount":
        given = offer(amount=5)
    elif change == "actions":
        given = msgspec.structs.replace(given, actions=ACTIONS[:1])
    else:
        to = "eip155:1:0xdd"
    assert await hand(realm_db, given, "x", 1001, to=to) != first
    assert len(realm_db.point(quotes_of, "pay_1", "opt_1")) == 2


async def test_a_destination_is_frozen_by_the_first_one(realm_db: Database) -> None:
    assert await realm_db.write(freeze_destination, "pay_1", KEY, "a") == "a"
    assert await realm_db.write(freeze_destination, "pay_1", KEY, "b") == "a"
    assert await realm_db.write(freeze_destination, "pay_2", KEY, "b") == "b"
    assert realm_db.point(frozen_destinations, "pay_1") == {KEY: "a"}
    assert realm_db.point(frozen_destinations, "pay_3") == {}


async def test_a_payment_is_offered_to_so_many_accounts_and_known_ones_stay(realm_db: Database) -> None:
    for number in range(OPTIONS_STORED_MAX):
        await hand(realm_db, offer(f"eip155:1:{number}"), f"opt_{number}")
    with pytest.raises(RateLimited) as found:
        await hand(realm_db, offer("eip155:1:new"), "opt_new")
    assert found.value.details["retryAfterS"] > 0
    assert (await hand(realm_db, offer("eip155:1:7"), "x")).option_id == "opt_7"
    await hand(realm_db, offer(), "opt_other", payment="pay_2")


async def test_a_payment_has_so_many_quotes(realm_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "QUOTES_STORED_MAX", 3)
    quote = await hand(realm_db, offer(), "opt_1")
    for _ in range(2):
        await realm_db.write(append_quote, quote)
    with pytest.raises(RateLimited):
        await realm_db.write(append_quote, quote)
    assert len(realm_db.point(quotes_of, "pay_1", "opt_1")) == 3


async def test_hints_are_kept_once_and_so_many_a_payment(realm_db: Database) -> None:
    await realm_db.write(keep_hints, "pay_1", ["0xa", "0xb", "0xa"], 1000)
    await realm_db.write(keep_hints, "pay_1", ["0xb"], 2000)
    await realm_db.write(keep_hints, "pay_1", [f"0x{number}" for number in range(500)], 3000)
    rows = await realm_db.read(lambda tx: tx.execute("SELECT hash, told_at_ms FROM hints").fetchall())
    assert len(rows) == store.HINTS_STORED_MAX
    assert {("0xa", 1000), ("0xb", 1000)} <= set(rows)
    await realm_db.write(keep_hints, "pay_1", ["0xnew"], 4000)
    await realm_db.write(keep_hints, "pay_2", ["0xnew"], 4000)
    (count,) = await realm_db.read(lambda tx: tx.execute("SELECT count(*) FROM hints").fetchone())
    assert count == store.HINTS_STORED_MAX + 1
