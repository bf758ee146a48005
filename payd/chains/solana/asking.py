"""The calls that Solana's nodes are asked with, and how far along a node was when it answered.

A node answers from the past where nothing keeps it from that, and says so in the context of its answer. With
`min_slot` it refuses instead. Where a method knows neither, ask for the slot in the same batch.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from solders.pubkey import Pubkey

from payd.chains.rpc_wire import Call
from payd.chains.solana.keys import CLOCK
from payd.chains.solana.terms import Commitment

# A validator refuses more of them in one call.
ACCOUNTS_MAX: Final = 100
STATUSES_MAX: Final = 256
LISTED_MAX: Final = 1000

FIRST_SLOT_CALL: Final[Call] = ("getFirstAvailableBlock",)
"""Asks for the oldest slot whose transactions a node has: of older ones it knows nothing."""

# Of the transactions that wallets make: 0 names accounts in tables, 1 may have 4096 bytes.
_VERSION_MAX: Final = 1


def account_calls(
    addresses: Sequence[Pubkey],
    commitment: Commitment = "confirmed",
    *,
    data_max: int | None = None,
) -> list[Call]:
    """Read accounts, in their order, `ACCOUNTS_MAX` with each call.

    Args:
        addresses: The accounts.
        commitment: As of which block.
        data_max: Of the data of each only so many bytes; an account that anybody names can have megabytes.
    """
    config = _config(commitment, encoding="base64")
    if data_max is not None:
        config["dataSlice"] = {"offset": 0, "length": data_max}
    starts = range(0, len(addresses), ACCOUNTS_MAX)
    chunks = [addresses[start : start + ACCOUNTS_MAX] for start in starts]
    return [("getMultipleAccounts", [str(one) for one in chunk], config) for chunk in chunks]


def clock_call(commitment: Commitment = "confirmed") -> Call:
    """Read the chain's time; the answer is that of `account_calls` for one account."""
    [call] = account_calls([CLOCK], commitment)
    return call


def transaction_call(tx_id: str, commitment: Commitment = "confirmed") -> Call:
    """Read a transaction; null: the node shows none.

    That alone says nothing: it may be behind, and a validator also says so when its storage fails.
    """
    config = _config(commitment, encoding="base64", maxSupportedTransactionVersion=_VERSION_MAX)
    return ("getTransaction", tx_id, config)


def statuses_call(tx_ids: Sequence[str], *, search_history: bool = True) -> Call:
    """Read how far transactions have come, null for what the node does not know.

    The context of the answer is the newest slot of all, which nobody may have voted for. Null is also what a
    validator says when its storage fails.

    Args:
        tx_ids: `STATUSES_MAX` at most.
        search_history: Also those that landed longer than some minutes ago.
    """
    return ("getSignatureStatuses", list(tx_ids), {"searchTransactionHistory": search_history})


def listing_call(
    address: Pubkey,
    until: str | None = None,
    before: str | None = None,
    limit: int = LISTED_MAX,
    commitment: Commitment = "confirmed",
    min_slot: int | None = None,
) -> Call:
    """List the transactions that name an account, the newest first.

    Args:
        address: The account.
        until: Only what came after this transaction.
        before: Only what came before this one.
        limit: So many; `LISTED_MAX` at most.
        commitment: What has come so far.
        min_slot: A node that is not there yet refuses.
    """
    config = _config(commitment, limit=limit, min_slot=min_slot)
    config |= {name: tx_id for name, tx_id in (("until", until), ("before", before)) if tx_id is not None}
    return ("getSignaturesForAddress", str(address), config)


def latest_blockhash_call() -> Call:
    """Read the newest blockhash, and the last block height at which it serves."""
    return ("getLatestBlockhash", _config("confirmed"))


def slot_call(commitment: Commitment = "confirmed") -> Call:
    """Read the number of the newest slot."""
    return ("getSlot", _config(commitment))


def height_call(commitment: Commitment = "finalized") -> Call:
    """Read the height of the newest block: the number of blocks before it, which is less than its slot."""
    return ("getBlockHeight", _config(commitment))


def simulate_call(raw: bytes, *, sig_verify: bool, min_slot: int | None = None) -> Call:
    """Try a transaction on a confirmed block, where its blockhash has to be known, without sending it.

    Args:
        raw: As for the wire.
        sig_verify: False: it is not signed by all yet.
        min_slot: A node that is not there yet refuses.
    """
    config = _config("confirmed", min_slot=min_slot, encoding="base64", sigVerify=sig_verify)
    return ("simulateTransaction", b64encode(raw).decode(), config)


def rent_call(data_bytes: int) -> Call:
    """Read the lamports that an account with so much data has to hold."""
    return ("getMinimumBalanceForRentExemption", data_bytes)


def priority_fees_call(accounts: Sequence[Pubkey]) -> Call:
    """Read what was paid lately, a slot each, for a unit of compute that writes to these accounts.

    Args:
        accounts: 128 at most; a validator refuses more.
    """
    return ("getRecentPrioritizationFees", [str(account) for account in accounts])


def _config(commitment: Commitment, *, min_slot: int | None = None, **more: Any) -> dict[str, Any]:
    config = {"commitment": commitment, **more}
    return config if min_slot is None else {**config, "minContextSlot": min_slot}
