"""What becomes of one transfer leaves alone what is for other payments, at other places, on other chains."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.payment import PaymentCancelled
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.db import Database
from payd.store.sightings import blocks_of, matched_of, rewind, sightings_between, take_back
from payd.store.sightings_due import due_sightings, give_up
from tests.chains.evm.json import SHOP, TOKEN
from tests.store.shown import seen, show
from tests.till import CHAIN, EURC, PRICE, START_MS, Till, account

OTHER = "eip155:10"
THERE: dict[str, Any] = {
    "chain": OTHER,
    "asset": f"{OTHER}/erc20:{TOKEN}",
    "recipient": account(SHOP, OTHER),
}
BELOW: dict[str, Any] = {"block_number": 90}
MINE = "pay_lmine"


@pytest.fixture
async def till(realm_db: Database) -> Till:
    """One transfer pays `MINE`, and another is too much for it.

    Beside each is that of another payment: in the same transaction, at the same place of another one, and at
    the same place of the same one on another chain.
    """
    till = await Till(realm_db).open()
    await till.sell("1")
    await till.sell("2")
    await till.sell("3", asset=THERE["asset"])
    await show(
        till,
        seen("pay_l1", log_index=1, **BELOW),
        seen("pay_l1", tx_id="0x02", log_index=6, **BELOW),
        seen("pay_l2", tx_id="0x09", **BELOW),
        seen("pay_l2", tx_id="0x08", log_index=5, **BELOW),
        seen("pay_l3", **THERE),
        seen("pay_l3", tx_id="0x02", log_index=5, **THERE),
    )
    await till.sell("mine")
    await till.offer(MINE, asset=EURC, value=PRICE)
    await show(
        till,
        seen(MINE, tx_id="0x03", value=1, **BELOW),
        seen(MINE, asset=EURC),
        seen(MINE, tx_id="0x02", log_index=5, **BELOW),
    )
    return till


def others(till: Till) -> list[tuple[Any, ...]]:
    """All that is stored of what is for the others."""
    query = "SELECT * FROM transfers WHERE payment_id <> ? ORDER BY seq"
    return till.db.point(lambda tx: tx.execute(query, (MINE,)).fetchall())


@pytest.mark.parametrize("noticed", ["a denial", "a signature", "a reorg"])
async def test_when_another_transfer_pays_those_of_others_stay_as_they_are(till: Till, noticed: str) -> None:
    before = others(till)
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["matched", "matched"], ["surplus", "surplus"]]
    assert [till.shown(tx_id, OTHER)[0].kind for tx_id in ("0x01", "0x02")] == ["matched", "surplus"]

    if noticed == "a denial":
        await till.db.write(take_back, till.shown("0x01")[0])
    elif noticed == "a signature":
        await till.sign(MINE)
    else:
        await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_MS // 1000))
        turned = await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_MS // 1000))
        assert (turned.transfers, turned.lost, turned.paid_by_others) == (1, (), (MINE,))

    assert [one.tx_id for one in till.db.point(matched_of, MINE)] == ["0x02"]
    assert till.kinds("0x03") == ["partial"]
    assert others(till) == before


async def test_what_another_chain_shows_is_neither_found_nor_due_nor_let_go_of(till: Till) -> None:
    assert [one.payment_id for one in till.db.point(sightings_between, CHAIN, 99, 100)] == [MINE]
    assert await show(till, seen(MINE, asset=EURC)) == [], "it is known"
    every = ["0x01", "0x02", "0x08", "0x09"]
    paying = till.db.point(lambda tx: blocks_of(tx, CHAIN, every, paying=True))
    assert sorted(tx_id for tx_id, _ in paying) == ["0x01", "0x09"]
    await till.move("pay_l3", PaymentCancelled("cancelled_by_user"))
    before = others(till)

    found = till.db.point(due_sightings, CHAIN, 1000, 1000, 0, 9)
    assert [one.payment_id for one in found] == ["pay_l1", "pay_l2", MINE]
    assert await till.db.write(give_up, CHAIN) == 0
    assert others(till) == before
