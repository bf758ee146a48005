"""Who calls a payment off that is paid already: by each door the chain's word is worth more."""

from __future__ import annotations

import pytest

from tests.actors.windows import sighting, watched
from tests.shop import Shop

DOORS = ["/v1/payments/{}/cancel", "/v1/gateway/payment/{}/cancel", "/pay/{}/cancel"]


async def cancel(shop: Shop, door: str, payment: str) -> int:
    """Call it off at that door; the status of the answer."""
    if door.startswith("/pay/"):
        return (await shop.call("POST", door.format(payment), key=None, sec_fetch_site="same-origin")).status
    path, key = door.format(payment), f"cancel {payment}"
    return (await shop.call("POST", path, {}, merchant_id=shop.merchant_id, idempotency_key=key)).status


@pytest.mark.parametrize("door", DOORS)
async def test_what_a_chain_shows_as_paid_cannot_be_called_off(shop: Shop, door: str) -> None:
    payment = await watched(shop)
    await shop.realm.db.write(sighting(payment, "0xb1"))

    assert await cancel(shop, door, payment) == (303 if door.startswith("/pay/") else 400)
    assert await shop.status(payment) == "requires_action"

    # A refusal is no answer to keep: once a reorg takes the transfer back, the same request is carried out.
    await shop.realm.db.write(lambda tx: tx.execute("UPDATE transfers SET block_hash = NULL"))
    assert await cancel(shop, door, payment) == (303 if door.startswith("/pay/") else 200)
    assert await shop.status(payment) == "cancelled"
