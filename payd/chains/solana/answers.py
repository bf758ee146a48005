"""What a Solana node tells: accounts, transactions that landed, statuses, listings and blockhashes.

Read strictly, because it is evidence: a field that is missing or odd is a `BadAnswer`. Fields that nobody
here reads are ignored, so that a node may say more.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import base58
import msgspec
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from payd.chains.rpc_errors import BadAnswer, RpcError

T = TypeVar("T")

Commitment = Literal["processed", "confirmed", "finalized"]

AnyMessage: TypeAlias = Message | MessageV0 | MessageV1
"""Of a transaction that landed: legacy, or of version 0 or 1."""

U64_MAX: Final = 2**64 - 1
# What has to fit a column of the store: slots, heights, times, lamports; all SOL is 6 * 10^17 lamports.
COUNT_MAX: Final = 2**63 - 1
# Seconds that are milliseconds there.
TIME_MAX_S: Final = COUNT_MAX // 1000

SIGNATURE_BYTES: Final = 64
# Base58 of 64 bytes has at most this many characters; decoding takes time quadratic in the length.
SIGNATURE_CHARS_MAX: Final = 88
CLOCK_BYTES: Final = 40
SHOWN_MAX: Final = 200

_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Lamports = _Count
_Time = Annotated[int, msgspec.Meta(ge=-TIME_MAX_S, le=TIME_MAX_S)]
_Encoded = tuple[str, Literal["base64"]]


class Account(msgspec.Struct, frozen=True):
    """An account as it is."""

    lamports: int
    owner: Pubkey
    data: bytes
    is_executable: bool = False


class TokenBalance(msgspec.Struct, frozen=True):
    """What a token account of a transaction held. `index` is its place among the transaction's keys."""

    index: int
    mint: Pubkey
    owner: Pubkey | None
    amount: int


class Landed(msgspec.Struct, frozen=True):
    """A transaction in a block.

    Attributes:
        tx_id: Its first signature, base58.
        block_time_s: Unix seconds; None where the node has none for its slot.
        err: Why it failed, as the node says it; None when it did what it says.
        keys: Every account that it names: its own, then those of lookup tables, writable ones first.
        pre: Lamports of each key before.
        post: The same after it.
        pre_tokens: What its token accounts held before; those that did not exist are left out.
        post_tokens: The same after it.
        fee: Lamports that the first key paid.
        raw: As it was sent.
    """

    tx_id: str
    slot: int
    block_time_s: int | None
    err: object
    message: AnyMessage
    keys: tuple[Pubkey, ...]
    pre: tuple[int, ...]
    post: tuple[int, ...]
    pre_tokens: tuple[TokenBalance, ...]
    post_tokens: tuple[TokenBalance, ...]
    fee: int
    raw: bytes


class Status(msgspec.Struct, frozen=True):
    """How far a transaction has come. `err` is None when it did what it says."""

    slot: int
    err: object
    commitment: Commitment


class Listed(msgspec.Struct, frozen=True):
    """A transaction that names an address, as the node's index has it."""

    tx_id: str
    slot: int
    err: object


class Blockhash(msgspec.Struct, frozen=True):
    """A recent blockhash and the last block height at which a transaction with it can land."""

    hash: str
    last_valid_height: int
    slot: int


class Clock(msgspec.Struct, frozen=True):
    """The chain's own time. `time_s` is Unix seconds."""

    slot: int
    time_s: int
    epoch: int


class Simulated(msgspec.Struct, frozen=True):
    """What a transaction would do now. `err` is None when it would do what it says."""

    err: object


class _Context(msgspec.Struct):
    slot: _Count


class _Account(msgspec.Struct):
    lamports: _Lamports
    owner: Pubkey
    data: _Encoded
    executable: bool = False


class _Accounts(msgspec.Struct):
    context: _Context
    value: list[_Account | None]


class _Tokens(msgspec.Struct):
    amount: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,20}\Z")]


class _TokenBalance(msgspec.Struct, rename="camel"):
    account_index: _Count
    mint: Pubkey
    ui_token_amount: _Tokens
    owner: Pubkey | None = None


class _Loaded(msgspec.Struct):
    writable: list[Pubkey] = []
    readonly: list[Pubkey] = []


class _Meta(msgspec.Struct, rename="camel"):
    err: Any
    fee: _Lamports
    pre_balances: list[_Lamports]
    post_balances: list[_Lamports]
    pre_token_balances: list[_TokenBalance] | None = None
    post_token_balances: list[_TokenBalance] | None = None
    loaded_addresses: _Loaded | None = None


class _Landed(msgspec.Struct, rename="camel"):
    slot: _Count
    transaction: _Encoded
    meta: _Meta
    block_time: _Time | None = None


class _Status(msgspec.Struct, rename="camel"):
    slot: _Count
    err: Any
    confirmation_status: Commitment


class _Statuses(msgspec.Struct):
    context: _Context
    value: list[_Status | None]


class _Listed(msgspec.Struct):
    signature: str
    slot: _Count
    err: Any


class _Hash(msgspec.Struct, rename="camel"):
    blockhash: Pubkey  # the same 32 bytes in base58
    last_valid_block_height: _Count


class _LatestBlockhash(msgspec.Struct):
    context: _Context
    value: _Hash


class _Simulation(msgspec.Struct):
    err: Any


class _Simulated(msgspec.Struct):
    value: _Simulation


def decode_accounts(answer: object, count: int | None = None) -> tuple[int, list[Account | None]]:
    """The answer of `getMultipleAccounts` in base64: its slot, and None for each that does not exist.

    Args:
        answer: The result.
        count: How many were asked for, if that is to be held against it.

    Raises:
        BadAnswer: It is none.
    """
    told = _read(answer, _Accounts, "accounts")
    if count is not None and len(told.value) != count:
        raise BadAnswer(f"accounts: {len(told.value)} of {count}")
    return told.context.slot, [None if one is None else _account(one) for one in told.value]


def _account(one: _Account) -> Account:
    return Account(one.lamports, one.owner, _bytes(one.data, "account.data"), one.executable)


def decode_landed(answer: object, tx_id: str | None = None) -> Landed | None:
    """The answer of `getTransaction` in base64; None where the node does not know it as landed.

    Args:
        answer: The result.
        tx_id: What was asked for, if that is to be held against it.

    Raises:
        BadAnswer: It is neither, or another transaction.
    """
    if answer is None:
        return None
    told = _read(answer, _Landed, "transaction")
    raw = _bytes(told.transaction, "transaction.transaction")
    signature, message = _transaction(raw)
    if tx_id is not None and signature != tx_id:
        raise BadAnswer(f"the transaction {signature} was given for {tx_id}")
    meta = told.meta
    keys = _keys(message, meta.loaded_addresses)
    if not len(meta.pre_balances) == len(meta.post_balances) == len(keys):
        raise BadAnswer(f"the balances of {signature} are not those of its {len(keys)} accounts")
    return Landed(
        tx_id=signature,
        slot=told.slot,
        block_time_s=told.block_time,
        err=meta.err,
        message=message,
        keys=keys,
        pre=tuple(meta.pre_balances),
        post=tuple(meta.post_balances),
        pre_tokens=_token_balances(meta.pre_token_balances, keys),
        post_tokens=_token_balances(meta.post_token_balances, keys),
        fee=meta.fee,
        raw=raw,
    )


def _transaction(raw: bytes) -> tuple[str, AnyMessage]:
    try:
        transaction = VersionedTransaction.from_bytes(raw)
    except ValueError as error:
        raise BadAnswer(f"transaction.transaction is none: {error}") from error
    message = transaction.message
    if not transaction.signatures:
        raise BadAnswer("transaction.transaction has no signature")
    if not message.account_keys:
        raise BadAnswer("transaction.transaction names no account, not even who pays for it")
    for instruction in message.instructions:
        if instruction.program_id_index >= len(message.account_keys):
            raise BadAnswer("transaction.transaction names a program that is not among its accounts")
    return str(transaction.signatures[0]), message


def _keys(message: AnyMessage, loaded: _Loaded | None) -> tuple[Pubkey, ...]:
    keys = list(message.account_keys)
    if isinstance(message, MessageV0):
        wanted = sum(
            len(one.writable_indexes) + len(one.readonly_indexes) for one in message.address_table_lookups
        )
        found = [] if loaded is None else loaded.writable + loaded.readonly
        if len(found) != wanted:
            raise BadAnswer(f"transaction.meta.loadedAddresses has {len(found)} of {wanted} accounts")
        keys += found
    return tuple(keys)


def _token_balances(told: Sequence[_TokenBalance] | None, keys: Sequence[Pubkey]) -> tuple[TokenBalance, ...]:
    found: dict[int, TokenBalance] = {}
    for one in told or ():
        index, amount = one.account_index, int(one.ui_token_amount.amount)
        if index >= len(keys) or index in found or amount > U64_MAX:
            raise BadAnswer(f"transaction.meta has an odd token balance of account {index}")
        found[index] = TokenBalance(index, one.mint, one.owner, amount)
    return tuple(found.values())


def decode_statuses(answer: object, count: int | None = None) -> tuple[int, list[Status | None]]:
    """The answer of `getSignatureStatuses`: its slot, and None for each that the node does not know.

    Args:
        answer: The result.
        count: How many were asked for, if that is to be held against it.

    Raises:
        BadAnswer: It is none.
    """
    told = _read(answer, _Statuses, "statuses")
    if count is not None and len(told.value) != count:
        raise BadAnswer(f"statuses: {len(told.value)} of {count}")
    return told.context.slot, [
        None if one is None else Status(one.slot, one.err, one.confirmation_status) for one in told.value
    ]


def decode_listing(answer: object) -> list[Listed]:
    """The answer of `getSignaturesForAddress`: newest first.

    Raises:
        BadAnswer: It is none.
    """
    return [
        Listed(from_signature(one.signature, "listing.signature"), one.slot, one.err)
        for one in _read(answer, list[_Listed], "listing")
    ]


def decode_blockhash(answer: object) -> Blockhash:
    """The answer of `getLatestBlockhash`.

    Raises:
        BadAnswer: It is none.
    """
    told = _read(answer, _LatestBlockhash, "blockhash")
    return Blockhash(str(told.value.blockhash), told.value.last_valid_block_height, told.context.slot)


def decode_simulation(answer: object) -> Simulated:
    """The answer of `simulateTransaction`.

    Raises:
        BadAnswer: It is none.
    """
    told = _read(answer, _Simulated, "simulation")
    return Simulated(told.value.err)


def decode_clock(data: bytes) -> Clock:
    """The data of the Clock sysvar's account.

    Raises:
        BadAnswer: They are not.
    """
    if len(data) != CLOCK_BYTES:
        raise BadAnswer(f"the clock has {len(data)} bytes")
    slot, epoch = (int.from_bytes(data[at : at + 8], "little") for at in (0, 16))
    time_s = int.from_bytes(data[32:40], "little", signed=True)
    if max(slot, epoch) > COUNT_MAX or not 0 <= time_s <= TIME_MAX_S:
        raise BadAnswer("the clock is out of bounds")
    return Clock(slot, time_s, epoch)


def decode_count(answer: object, what: str = "the answer") -> int:
    """A slot, a block height or an amount of lamports, as `getSlot` and its like answer it.

    Raises:
        BadAnswer: It is none, or has more than 63 bits.
    """
    count: int = _read(answer, _Count, what)
    return count


def first_in(result: object) -> int:
    """A node's answer to `FIRST_SLOT_CALL`; 0 where it refuses: then it is taken to have everything.

    Raises:
        BadAnswer: It is none.
    """
    return 0 if isinstance(result, RpcError) else decode_count(result, "the first slot")


def from_signature(text: str, what: str = "the signature") -> str:
    """A signature in base58, which is how a transaction is named.

    Raises:
        BadAnswer: It is not 64 bytes in base58.
    """
    try:
        if (
            len(text) <= SIGNATURE_CHARS_MAX
            and text.isalnum()
            and len(base58.b58decode(text)) == SIGNATURE_BYTES
        ):
            return text
    except ValueError:
        pass
    raise BadAnswer(f"{what} is no signature: {text[:SHOWN_MAX]!r}")


def _read(answer: object, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(answer, type=kind, dec_hook=_from_text)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"{what}: {str(error)[:SHOWN_MAX]}") from error


def _from_text(kind: type, value: object) -> Pubkey:
    if kind is not Pubkey:
        raise NotImplementedError(kind)
    if not isinstance(value, str):
        raise ValueError("a key is text")
    return Pubkey.from_string(value)


def _bytes(encoded: _Encoded, what: str) -> bytes:
    try:
        return base64.b64decode(encoded[0], validate=True)
    except ValueError as error:
        raise BadAnswer(f"{what} is not base64") from error
