"""Transfers in the store: each once for ever, listed by key."""

from __future__ import annotations

from typing import Any

import msgspec

from payd.store.db import Database
from payd.store.transfers import (
    Follow,
    Transfer,
    follow_transfer,
    list_transfers,
    match_transfers,
    paid_among,
    transfers_in,
    transfers_of_payment,
)
from tests.inserts import insert_transfer


def transfer(number: int, **more: Any) -> Transfer:
    plain = Transfer(
        "acct_1",
        "pay_1",
        "eip155:1",
        f"0x{number}",
        0,
        "eip155:1/slip44:60",
        "10" * 20,
        "a",
        "b",
        "matched",
        1000,
    )
    return msgspec.structs.replace(plain, **more)


async def test_a_transfer_is_stored_once(realm_db: Database) -> None:
    assert await realm_db.write(match_transfers, [transfer(1)])
    assert await realm_db.write(match_transfers, [transfer(1)])
    assert not await realm_db.write(match_transfers, [transfer(1, payment_id="pay_2")])
    assert realm_db.point(transfers_of_payment, "pay_1") == [transfer(1)]
    assert realm_db.point(transfers_of_payment, "pay_2") == []


async def test_another_log_or_chain_is_another_transfer(realm_db: Database) -> None:
    for one in (transfer(1), transfer(1, log_index=1), transfer(1, chain="eip155:2")):
        assert await realm_db.write(insert_transfer, one)
    assert len(realm_db.point(transfers_of_payment, "pay_1")) == 3


async def test_lists_are_newest_first_by_account_and_by_match(realm_db: Database) -> None:
    kinds = ("matched", "late", "partial", "surplus", "unmatched")
    for number, kind in enumerate(kinds):
        await realm_db.write(insert_transfer, transfer(number, kind=kind))
    await realm_db.write(insert_transfer, transfer(9, account_id="acct_2"))

    async def listed(
        matched: bool | None = None, before_seq: int | None = None, limit: int = 99
    ) -> list[Any]:
        return await realm_db.read(
            lambda tx: list_transfers(tx, "acct_1", matched=matched, before_seq=before_seq, limit=limit)
        )

    assert [one.kind for _, one in await listed()] == list(kinds[::-1])
    assert [one.kind for _, one in await listed(matched=True)] == ["matched"]
    assert [one.kind for _, one in await listed(matched=False)] == list(kinds[:0:-1])
    page = await listed(limit=2)
    rest = await listed(before_seq=page[-1][0])
    assert [one.kind for _, one in page + rest] == list(kinds[::-1])


async def test_a_transfer_that_pays_is_stored_once(realm_db: Database) -> None:
    assert await realm_db.write(match_transfers, [transfer(1)])
    assert not await realm_db.write(match_transfers, [transfer(1, payment_id="pay_2")])
    assert realm_db.point(transfers_of_payment, "pay_1") == [transfer(1)]
    assert realm_db.point(transfers_of_payment, "pay_2") == []


async def test_of_many_transfers_that_pay_none_paid_for_something_else(realm_db: Database) -> None:
    assert await realm_db.write(match_transfers, [])
    many = [transfer(number, payment_id=f"pay_{number}") for number in range(100)]
    assert await realm_db.write(match_transfers, many)
    assert await realm_db.write(match_transfers, many)
    again = [transfer(100, payment_id="pay_100"), transfer(7, payment_id="pay_101")]
    assert not await realm_db.write(match_transfers, again)
    twice = [transfer(200, payment_id="pay_200"), transfer(200, payment_id="pay_201")]
    assert not await realm_db.write(match_transfers, twice)
    assert [realm_db.point(transfers_of_payment, f"pay_{number}") for number in range(100)] == [
        [one] for one in many
    ]


async def test_a_transfer_that_paid_for_nothing_is_claimed_by_what_it_pays(realm_db: Database) -> None:
    seen = transfer(1, account_id=None, payment_id=None, kind="unmatched")
    await realm_db.write(insert_transfer, seen)
    await realm_db.write(insert_transfer, transfer(2, payment_id="pay_9", kind="late"))

    assert await realm_db.write(match_transfers, [transfer(1, seen_at_ms=2000)])
    assert await realm_db.write(match_transfers, [transfer(2)])

    assert realm_db.point(transfers_of_payment, "pay_1") == [transfer(1), transfer(2)]
    assert realm_db.point(transfers_of_payment, "pay_9") == []
    assert not await realm_db.write(match_transfers, [transfer(1, payment_id="pay_2")])


async def test_those_are_paid_of_which_the_chain_shows_a_transfer_that_pays(realm_db: Database) -> None:
    for one in (
        transfer(1, block_hash="0xaa"),
        transfer(2, payment_id="pay_2", block_hash="0xaa", kind="late"),
        transfer(3, payment_id="pay_3"),
        transfer(4, payment_id="pay_4", block_hash="0xaa"),
    ):
        await realm_db.write(insert_transfer, one)

    assert realm_db.point(paid_among, ["pay_1", "pay_2", "pay_3", "pay_9"]) == {"pay_1"}
    assert realm_db.point(paid_among, []) == set()


async def test_only_the_transfer_that_pays_is_looked_at_again_in_the_block_where_it_was(
    realm_db: Database,
) -> None:
    others = (
        transfer(1, log_index=1, kind="late", block_hash="0xaa"),
        transfer(1, log_index=2, payment_id="pay_2", block_hash="0xaa"),
        transfer(1, log_index=3, block_hash="0xbb"),
        transfer(1, chain="eip155:2", block_hash="0xaa"),
        transfer(2, block_hash="0xaa"),
    )
    for one in (transfer(1, block_hash="0xaa"), *others):
        await realm_db.write(insert_transfer, one)

    follow = Follow("eip155:1", "0x1", "0xaa", "depth", 9)
    assert await realm_db.write(follow_transfer, "pay_1", follow)
    assert not await realm_db.write(follow_transfer, "pay_1", msgspec.structs.replace(follow, tx_id="0x9"))
    looked_at = "SELECT log_index, look_at FROM transfers WHERE awaits = 'depth'"
    assert realm_db.point(lambda tx: tx.execute(looked_at).fetchall()) == [(0, 9)]
    shown = realm_db.point(transfers_in, "eip155:1", "0x1")
    assert [one.log_index for one in shown] == [0, 1, 2, 3]
