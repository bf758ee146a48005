"""Whether a transaction is the refund that a merchant says it is.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final

from payd.chains.asking import read_one, unavailable
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import decode_landed, from_signature
from payd.chains.solana.asking import transaction_call
from payd.chains.solana.evidence import watched_for
from payd.chains.solana.proof import paid_by
from payd.chains.solana.track import read_track
from payd.core.caip import ChainId, canonical_account, parse_account
from payd.core.payment import Payment
from payd.core.refund import NOT_TO_BUYER, TOO_OLD

NO_SIGNATURE: Final = "txId is no transaction signature of this chain: 64 bytes in base58"
NOT_FOUND: Final = "the chain does not show the transaction as confirmed; wait for it, or check the id"
FAILED: Final = "the transaction failed: nothing was paid back"


async def refund_problem(
    rpc: Rpc, chain: ChainId, payment: Payment, tx_id: str, at_least: int = 1
) -> str | None:
    """What is wrong with the transaction that a merchant names as a refund; None if nothing is.

    Args:
        rpc: The chain's nodes.
        chain: Canonical.
        payment: One that was paid on this chain.
        tx_id: What the merchant names.
        at_least: Smallest units that the buyer has to have back.

    Raises:
        ChainUnavailable: No node answers.
    """
    try:
        signature = from_signature(tx_id)
    except BadAnswer:
        return NO_SIGNATURE
    assert payment.processing is not None
    assert payment.processing.buyer is not None
    buyer = canonical_account(parse_account(payment.processing.buyer))
    landed = await read_one(rpc, transaction_call(signature), lambda result: decode_landed(result, signature))
    if landed is None:
        return NOT_FOUND
    if landed.err is not None:
        return FAILED
    paid = paid_by(chain, landed, watched_for(read_track(payment).asset, buyer), frozenset())
    if sum(one.value for one in paid) < at_least:
        return NOT_TO_BUYER
    if landed.block_time_s is None:
        raise unavailable(f"no node says when the slot {landed.slot} was")
    # The chain counts in seconds: what was paid back within the first of them is no older.
    return TOO_OLD if landed.block_time_s < payment.created_at_ms // 1000 else None
