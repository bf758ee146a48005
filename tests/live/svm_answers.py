"""How the local Solana node writes accounts and transactions, and how it reads what it is sent.

Words and codes are those of Agave's `rpc/src/rpc.rs`. It speaks base64 alone.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import base58
from solders.account import Account
from solders.compute_budget import ID as COMPUTE_BUDGET
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from payd.chains.solana.keys import MEMO, MEMO_V1, SYSTEM
from tests.live.node_process import Refused
from tests.live.svm_ledger import Block, Landing

AnyMessage: TypeAlias = Message | MessageV0 | MessageV1

WIRE_MAX: Final = 1232
# The same in base64.
TEXT_MAX: Final = 1644
TRANSACTION: Final = "solana_transaction::versioned::VersionedTransaction"
SIGNATURE_LAMPORTS: Final = 5000
# Where a transaction does not say how many it needs.
UNITS_OF_AN_INSTRUCTION: Final = 200_000
UNITS_OF_A_BUILTIN: Final = 3_000

# What preflight says of some errors.
WORDS: Final = {
    "AccountNotFound": "Attempt to debit an account but found no record of a prior credit.",
    "AlreadyProcessed": "This transaction has already been processed",
    "BlockhashNotFound": "Blockhash not found",
    "InsufficientFundsForFee": "Insufficient funds for fee",
}

INVALID_PARAMS: Final = -32602
BAD_SIGNATURE: Final = -32003


def transaction_json(landing: Landing) -> dict[str, Any]:
    """What `getTransaction` says, but for the version."""
    writable, readonly = landing.loaded
    loaded = landing.keys[len(landing.keys) - writable - readonly :]
    return {
        "slot": landing.block.slot,
        "blockTime": landing.block.time_s,
        "transaction": base64_of(landing.raw),
        "meta": {
            "err": landing.err,
            "status": {"Ok": None} if landing.err is None else {"Err": landing.err},
            "fee": landing.meta.fee(),
            "innerInstructions": [],
            "logMessages": landing.meta.logs(),
            "preBalances": landing.pre,
            "postBalances": landing.post,
            "preTokenBalances": landing.pre_tokens,
            "postTokenBalances": landing.post_tokens,
            "rewards": [],
            "loadedAddresses": {
                "writable": [str(key) for key in loaded[:writable]],
                "readonly": [str(key) for key in loaded[writable:]],
            },
            "computeUnitsConsumed": landing.meta.compute_units_consumed(),
        },
    }


def version_of(message: AnyMessage) -> int | Literal["legacy"]:
    """What the transaction's own bytes say of their form."""
    return "legacy" if isinstance(message, Message) else int(isinstance(message, MessageV1))


def account_json(account: Account, data: Any) -> dict[str, Any]:
    """An account with its data as it is."""
    return {
        "data": data,
        "executable": account.executable,
        "lamports": account.lamports,
        "owner": str(account.owner),
        "rentEpoch": 2**64 - 1,
        "space": len(account.data),
    }


def fee_of(message: AnyMessage) -> int:
    """Lamports that it costs: for each signature, and at its price for the units that it asks for."""
    units, price, unasked = None, 0, 0
    for one in message.instructions:
        program, data = message.account_keys[one.program_id_index], bytes(one.data)
        unasked += UNITS_OF_A_BUILTIN if program in (COMPUTE_BUDGET, SYSTEM) else UNITS_OF_AN_INSTRUCTION
        if program != COMPUTE_BUDGET:
            continue
        if data[0] == 2:
            units = int.from_bytes(data[1:5], "little")
        elif data[0] == 3:
            price = int.from_bytes(data[1:9], "little")
    units = unasked if units is None else units
    return SIGNATURE_LAMPORTS * message.header.num_required_signatures + -(-price * units // 1_000_000)


def memo_in(message: AnyMessage) -> str | None:
    """The memos, each with its length, as the index has them."""
    found = []
    for one in message.instructions:
        if message.account_keys[one.program_id_index] in (MEMO, MEMO_V1):
            data = bytes(one.data)
            found.append(f"[{len(data)}] {data.decode(errors='replace')}")
    return "; ".join(found) or None


def words_of(err: Any) -> str:
    """What preflight says of an error."""
    if isinstance(err, str) and err in WORDS:
        return WORDS[err]
    if isinstance(err, dict) and "InsufficientFundsForRent" in err:
        place = err["InsufficientFundsForRent"]["account_index"]
        return f"Transaction results in an account ({place}) with insufficient funds for rent"
    if isinstance(err, dict) and "InstructionError" in err:
        place, inner = err["InstructionError"]
        if isinstance(inner, dict) and "Custom" in inner:
            return f"Error processing Instruction {place}: custom program error: {inner['Custom']:#x}"
        return f"Error processing Instruction {place}: {inner}"
    return str(err)


def read_transaction(text: str, asked: Mapping[str, Any]) -> tuple[bytes, VersionedTransaction]:
    """A transaction and its bytes. Raises Refused with words."""
    if asked.get("encoding", "base58") != "base64":
        raise Refused(INVALID_PARAMS, "this node speaks base64")
    if len(text) > TEXT_MAX:
        words = f"base64 encoded {TRANSACTION} too large: {len(text)} bytes"
        raise Refused(INVALID_PARAMS, f"{words} (max: encoded/raw {TEXT_MAX}/{WIRE_MAX})")
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Refused(INVALID_PARAMS, f"invalid base64 encoding: {error}") from error
    if len(raw) > WIRE_MAX:
        words = f"decoded {TRANSACTION} too large: {len(raw)} bytes"
        raise Refused(INVALID_PARAMS, f"{words} (max: {WIRE_MAX} bytes)")
    try:
        tx = VersionedTransaction.from_bytes(raw)
    except Exception as error:
        words = f"failed to deserialize {TRANSACTION}: io error: failed to fill whole buffer"
        raise Refused(INVALID_PARAMS, words) from error
    try:
        tx.sanitize()
    except Exception as error:
        words = "invalid transaction: Transaction failed to sanitize accounts offsets correctly"
        raise Refused(INVALID_PARAMS, words) from error
    return raw, tx


def is_signed(tx: VersionedTransaction) -> bool:
    """Are all its signatures there, and valid?"""
    return all(tx.verify_with_results())


def verify(tx: VersionedTransaction) -> None:
    """Raises Refused unless it is signed."""
    if not is_signed(tx):
        raise Refused(BAD_SIGNATURE, "Transaction signature verification failure")


def read_signature(text: str) -> str:
    """A signature that is one. Raises Refused."""
    try:
        size = len(base58.b58decode(text))
    except ValueError as error:
        raise Refused(INVALID_PARAMS, "Invalid param: Invalid") from error
    if size != 64:
        raise Refused(INVALID_PARAMS, "Invalid param: WrongSize")
    return text


def read_key(text: str) -> Pubkey:
    """An address. Raises Refused."""
    try:
        return Pubkey.from_string(text)
    except ValueError as error:
        kind = "WrongSize" if "size" in str(error) else "Invalid"
        raise Refused(INVALID_PARAMS, f"Invalid param: {kind}") from error


def with_slot(block: Block, value: Any) -> dict[str, Any]:
    """A value with the slot that it is of."""
    return {"context": {"apiVersion": "3.0.0", "slot": block.slot}, "value": value}


def base64_of(data: bytes) -> list[str]:
    """Bytes as the RPC writes them."""
    return [base64.b64encode(data).decode(), "base64"]
