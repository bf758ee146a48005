"""Whether a transaction is the refund that a merchant says it is.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final

from payd.chains.asking import answered, read, unavailable
from payd.chains.evm.answers import decode_block, decode_receipt, decode_transaction
from payd.chains.evm.codec import from_hash, to_quantity
from payd.chains.evm.evidence import watched_for
from payd.chains.evm.proof import paid_by
from payd.chains.evm.track import read_track
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.core.caip import ChainId, canonical_account, parse_account
from payd.core.payment import Payment
from payd.core.refund import NOT_TO_BUYER, TOO_OLD

NO_HASH: Final = "txId is no transaction hash of this chain: 0x and 64 hex digits"
NOT_FOUND: Final = "the chain does not show the transaction as mined; wait for it, or check the id"
REVERTED: Final = "the transaction was reverted: nothing was paid back"


async def refund_problem(rpc: Rpc, chain: ChainId, payment: Payment, tx_id: str) -> str | None:
    """What is wrong with the transaction that a merchant names as a refund; None if nothing is.

    Args:
        rpc: The chain's nodes.
        chain: Canonical.
        payment: One that was paid on this chain.
        tx_id: What the merchant names.

    Raises:
        ChainUnavailable: No node answers.
    """
    try:
        tx_hash = from_hash(tx_id)
    except BadAnswer:
        return NO_HASH
    assert payment.processing is not None
    assert payment.processing.buyer is not None
    buyer = canonical_account(parse_account(payment.processing.buyer))
    results = await read(rpc, [("eth_getTransactionByHash", tx_hash), ("eth_getTransactionReceipt", tx_hash)])
    try:
        transaction, receipt = (
            decode_transaction(answered(results[0])),
            decode_receipt(answered(results[1])),
        )
        if transaction is None or receipt is None:
            return NOT_FOUND
        if receipt.status == 0:
            return REVERTED
        watched = watched_for(read_track(payment).asset, buyer)
        if not paid_by(chain, transaction, receipt, watched, frozenset()):
            return NOT_TO_BUYER
        [header] = await read(rpc, [("eth_getBlockByNumber", to_quantity(receipt.block_number), False)])
        block = decode_block(answered(header))
    except BadAnswer as bad:
        raise unavailable(bad) from bad
    if block is None or block.hash != receipt.block_hash:
        return NOT_FOUND
    # The chain counts in seconds: what was paid back within the first of them is no older.
    return TOO_OLD if block.time_s < payment.created_at_ms // 1000 else None
