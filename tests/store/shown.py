"""Transfers as a chain shows them to a till."""

from __future__ import annotations

from typing import Any

import msgspec

from payd.chains.evm.binding import payment_tag
from payd.store.sightings import (
    Noted,
    Seen,
    record,
)
from payd.store.sightings_due import due_sightings
from tests.chains.evm.json import BUYER, SHOP
from tests.till import CHAIN, PRICE, START_MS, USDC, Till, account

START_S = START_MS // 1000


def seen(payment_id: str | None = None, **more: Any) -> Seen:
    """A transfer of the price to the shop, with the payment's tag."""
    plain = Seen(
        chain=CHAIN,
        tx_id="0x01",
        log_index=0,
        asset=USDC,
        value=PRICE,
        sender=account(BUYER),
        recipient=account(SHOP),
        block_number=100,
        block_hash="0xa100",
        block_time_s=START_S + 60,
        binding=None if payment_id is None else payment_tag(payment_id),
    )
    return msgspec.structs.replace(plain, **more)


async def show(till: Till, *some: Seen) -> list[Noted]:
    return await till.db.write(record, some, START_MS + 60_000)


def due(till: Till, head: int = 100, final: int | None = None) -> list[str]:
    return [one.payment_id for one in till.db.point(due_sightings, CHAIN, head, final, 0, 99)]
