"""Transfers as merchants see them, on a real node: where each is, and that a reorg takes and gives back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from payd.chains.evm.binding import payment_tag, tagged_transfer
from tests.live.behind import Behind, open_behind
from tests.live.chain import BUYER, MERCHANT, LocalChain, account, address
from tests.live.street import DAI, SECOND_CONTRACT

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000


async def listed(shop: Behind, query: str) -> list[dict[str, Any]]:
    page = (await shop.street.call("GET", f"/v1/transfers?{query}")).json()
    return list(page["data"])


async def shown(shop: Behind, payment_id: str, on_chain: bool) -> dict[str, Any]:
    """The payment's one transfer, once it is, or is not, on the chain."""

    async def found() -> dict[str, Any] | None:
        transfers = (await shop.street.detail(payment_id))["transfers"]
        return next((one for one in transfers if one["onChain"] is on_chain), None)

    transfer: dict[str, Any] = await shop.street.wait_for(found)
    return transfer


async def test_a_transfer_says_in_which_block_it_is_and_that_a_reorg_took_it(
    tmp_path: Path, chain: LocalChain
) -> None:
    async with open_behind(tmp_path / "house", chain, block_s=None) as shop:
        payment_id = await shop.street.payment()
        await shop.street.option(payment_id, DAI)
        data = tagged_transfer(address(MERCHANT), AMOUNT - 1, payment_tag(payment_id))
        receipt = await chain.done(account(BUYER), SECOND_CONTRACT, data)
        tx_id, number = receipt["transactionHash"], int(receipt["blockNumber"], 16)
        raw = bytes.fromhex((await chain.rpc("eth_getRawTransactionByHash", tx_id))[2:])

        first = await shown(shop, payment_id, True)
        assert (first["kind"], first["txId"], first["blockNumber"]) == ("partial", tx_id, number)
        assert await listed(shop, "matched=false") == [first]
        assert await listed(shop, "matched=true") == []

        await chain.mine()
        await chain.reorg(2)
        await chain.mine()
        taken = await shown(shop, payment_id, False)
        assert {**taken, "onChain": True} == first
        assert await listed(shop, "matched=false") == [taken]

        await chain.rpc("eth_sendRawTransaction", "0x" + raw.hex())
        again = await shown(shop, payment_id, True)
        assert again["blockNumber"] == int((await chain.receipt(tx_id))["blockNumber"], 16) > number
        assert await shop.street.status(payment_id) == "requires_action"
