"""The chain of the local Solana node: the real token programs on LiteSVM, in slots, with forks and a past.

LiteSVM executes one transaction after the other and knows no past. What a commitment, a blockhash and a fork
are is kept here: the blocks, each transaction where it landed, what accounts held in earlier blocks. In the
place of Lighthouse is a program that does nothing and takes everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import base58
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTable
from solders.clock import Clock
from solders.litesvm import LiteSVM
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

from payd.chains.solana.keys import CLOCK, LIGHTHOUSE, SYSTEM, TOKEN_PROGRAMS
from tests.chains.solana.vm import program_that_does_nothing

# The first slot, and how many slots before it had no block: a height is no slot, from the beginning.
FIRST_SLOT: Final = 1_000
FIRST_HEIGHT: Final = 900
# For so many more blocks a blockhash lets transactions in.
HASH_LIFE: Final = 150
SLOTS_IN_AN_EPOCH: Final = 432_000
SYSVAR: Final = Pubkey.from_string("Sysvar1111111111111111111111111111111111111")
SYSVAR_LAMPORTS: Final = 1_169_280
TOKEN_ACCOUNT_SIZE: Final = 165
MULTISIG_SIZE: Final = 355
# Blocks that nobody asks about any more are forgotten.
BLOCKS_MAX: Final = 1_000


@dataclass(frozen=True)
class Block:
    """One block; slots without one are skipped."""

    slot: int
    height: int
    hash: str
    time_s: int


@dataclass
class Landing:
    """A transaction where it landed.

    Attributes:
        keys: Of all accounts, with those of lookup tables: writable ones first.
        loaded: How many of the writable and of the read-only ones are from lookup tables.
        before: What the accounts were, for a fork to give back.
        pre, post: Lamports of each account.
        pre_tokens, post_tokens: As the RPC shows them.
        leaves_at: The height of the block at which a fork takes it away.
    """

    tx_id: str
    raw: bytes
    tx: VersionedTransaction
    block: Block
    keys: tuple[Pubkey, ...]
    loaded: tuple[int, int]
    before: dict[Pubkey, Account | None]
    err: Any
    meta: TransactionMetadata
    pre: list[int]
    post: list[int]
    pre_tokens: list[dict[str, Any]]
    post_tokens: list[dict[str, Any]]
    leaves_at: int | None = None


@dataclass
class Trial:
    """What a transaction would do."""

    err: Any
    logs: list[str] = field(default_factory=list)
    units: int = 0
    fee: int = 0
    accounts: dict[Pubkey, Account] = field(default_factory=dict)


class Ledger:
    """The chain.

    Args:
        confirmed, finalized: So many blocks on top make a block so.
        seed: Of all blocks' hashes.
        now_s: The wall's clock.

    Attributes:
        svm: What executes; accounts that are set in it are so from now on.
        blocks: The newest, oldest first.
        landed: Every transaction by its id, in the order of the chain.
        ahead_s: How far its time is before the wall's.
        depth: So many blocks on top make a block so.
    """

    def __init__(
        self,
        confirmed: int = 1,
        finalized: int = 32,
        *,
        seed: bytes | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.svm = LiteSVM().with_blockhash_check(False).with_sigverify(False).with_transaction_history(0)
        self.svm.add_program(LIGHTHOUSE, program_that_does_nothing())
        self.depth = {"processed": 0, "confirmed": confirmed, "finalized": finalized}
        self.ahead_s = 0
        self.landed: dict[str, Landing] = {}
        self.blocks: list[Block] = []
        self._seed = seed or os.urandom(16)
        self._now_s = now_s
        self._forks = 0
        self._of_address: dict[Pubkey, list[str]] = {}
        self._past: dict[Pubkey, list[tuple[int, Account | None]]] = {}
        self._slot, self._height = FIRST_SLOT, FIRST_HEIGHT
        for _ in range(finalized + 1):
            self.advance()

    # Slots

    @property
    def tip(self) -> Block:
        """The newest block."""
        return self.blocks[-1]

    def advance(self, skipped: int = 0) -> Block:
        """One more block, after so many slots without one."""
        self._slot += 1 + skipped
        self._height += 1
        time_s = max(int(self._now_s()) + self.ahead_s, self.blocks[-1].time_s if self.blocks else 0)
        block = Block(self._slot, self._height, self._hash(self._slot), time_s)
        self.blocks = [*self.blocks[-BLOCKS_MAX:], block]
        self.svm.set_clock(_clock(block))
        self._undo({one.tx_id for one in self.landed.values() if one.leaves_at == block.height})
        return block

    def _hash(self, slot: int) -> str:
        text = self._seed + struct.pack("<QI", slot, self._forks)
        return base58.b58encode(hashlib.sha256(text).digest()).decode()

    def at(self, commitment: str, lag: int = 0) -> Block:
        """The newest block that is at least that, for a node so many blocks behind."""
        return self.blocks[max(0, len(self.blocks) - 1 - self.depth[commitment] - lag)]

    def valid_until(self, blockhash: str) -> int | None:
        """The last height at which a transaction with it may land; None: it is of no block here."""
        block = next((one for one in reversed(self.blocks) if one.hash == blockhash), None)
        return None if block is None else block.height + HASH_LIFE

    def accept(self, blockhash: str) -> None:
        """Have the newest block's hash be this one."""
        tip = self.tip
        self.blocks[-1] = Block(tip.slot, tip.height, blockhash, tip.time_s)

    def is_fresh(self, blockhash: str, tip: Block | None = None, spare: int = 0) -> bool:
        """May a transaction with it land?

        Args:
            blockhash: As the transaction has it.
            tip: As who has seen the chain up to here knows it.
            spare: And so many blocks later still.
        """
        height, valid_until = (tip or self.tip).height, self.valid_until(blockhash)
        return valid_until is not None and valid_until - HASH_LIFE <= height <= valid_until - spare

    # Accounts

    def account(self, key: Pubkey, block: Block | None = None) -> Account | None:
        """What an account is, or was in that block."""
        if key == CLOCK:
            return Account(SYSVAR_LAMPORTS, bytes(_clock_data(block or self.tip)), SYSVAR)
        if block is not None and key in self._past:
            was = [account for height, account in self._past[key] if height <= block.height]
            return was[-1] if was else None
        return self.svm.get_account(key)

    def put(self, key: Pubkey, account: Account | None) -> None:
        """Make an account something, as if it had always been so."""
        self._past.pop(key, None)
        self.svm.set_account(key, account or Account(0, b"", SYSTEM))

    def owned_by(self, program: Pubkey, block: Block) -> list[tuple[Pubkey, Account]]:
        """The accounts of a program in that block."""
        now = dict(self.svm.get_program_accounts(program))
        keys = [*now, *(key for key in self._past if key not in now)]
        found = [(key, self.account(key, block)) for key in keys]
        return [(key, account) for key, account in found if account is not None and account.owner == program]

    def _keep(self, key: Pubkey, before: Account | None, block: Block) -> None:
        past = self._past.setdefault(key, [(0, before)])
        past[:] = [one for one in past if one[0] < block.height]
        past.append((block.height, self.svm.get_account(key)))
        final = self.at("finalized").height
        while len(past) > 1 and past[1][0] <= final:
            past.pop(0)

    # Transactions

    def problem(self, tx: VersionedTransaction, tip: Block | None = None, spare: int = 0) -> str | None:
        """Why no block takes it, as the RPC names it; the arguments are those of `is_fresh`."""
        if str(tx.signatures[0]) in self.landed:
            return "AlreadyProcessed"
        if not self.is_fresh(str(tx.message.recent_blockhash), tip, spare):
            return "BlockhashNotFound"
        return None

    def simulate(self, tx: VersionedTransaction) -> Trial:
        """What it would do on top of everything."""
        found = self.svm.simulate_transaction(tx)
        meta = found.meta()
        failed = isinstance(found, FailedTransactionMetadata)
        return Trial(
            err=error_json(found.err()) if isinstance(found, FailedTransactionMetadata) else None,
            logs=meta.logs(),
            units=meta.compute_units_consumed(),
            fee=meta.fee(),
            accounts={} if failed else dict(found.post_accounts()),  # type: ignore[union-attr]
        )

    def land(self, raw: bytes, *, leaves_after: int | None = None) -> Landing | None:
        """Take a transaction into the newest block; None: no block takes it.

        Args:
            raw: With its signatures, which are valid.
            leaves_after: So many blocks later a fork takes it away.
        """
        tx = VersionedTransaction.from_bytes(raw)
        if self.problem(tx) is not None:
            return None
        landing = self._execute(raw, tx, self.tip)
        if landing is not None:
            landing.leaves_at = None if leaves_after is None else self.tip.height + leaves_after
        return landing

    def _execute(self, raw: bytes, tx: VersionedTransaction, block: Block) -> Landing | None:
        keys, loaded = self._keys(tx)
        before = {key: self.svm.get_account(key) for key in keys}
        pre, pre_tokens = self._balances(keys)
        found = self.svm.send_transaction(tx)
        post, post_tokens = self._balances(keys)
        failed = isinstance(found, FailedTransactionMetadata)
        if failed and pre == post:
            return None  # What pays no fee is in no block.
        tx_id = str(tx.signatures[0])
        landing = Landing(
            tx_id=tx_id,
            raw=raw,
            tx=tx,
            block=block,
            keys=tuple(keys),
            loaded=loaded,
            before=before,
            err=error_json(found.err()) if isinstance(found, FailedTransactionMetadata) else None,
            meta=found.meta() if isinstance(found, FailedTransactionMetadata) else found,
            pre=pre,
            post=post,
            pre_tokens=pre_tokens,
            post_tokens=post_tokens,
        )
        for key, account in before.items():
            self._keep(key, account, block)
        for key in before:
            self._of_address.setdefault(key, []).append(tx_id)
        self.landed[tx_id] = landing
        return landing

    def _keys(self, tx: VersionedTransaction) -> tuple[list[Pubkey], tuple[int, int]]:
        message = tx.message
        writable: list[Pubkey] = []
        readonly: list[Pubkey] = []
        for lookup in message.address_table_lookups if isinstance(message, MessageV0) else ():
            account = self.svm.get_account(lookup.account_key)
            if account is None:
                continue  # The execution says that it fails.
            table = AddressLookupTable.deserialize(bytes(account.data)).addresses
            writable += [table[place] for place in lookup.writable_indexes if place < len(table)]
            readonly += [table[place] for place in lookup.readonly_indexes if place < len(table)]
        return [*message.account_keys, *writable, *readonly], (len(writable), len(readonly))

    def _balances(self, keys: Sequence[Pubkey]) -> tuple[list[int], list[dict[str, Any]]]:
        tokens = []
        for place, key in enumerate(keys):
            account = self.svm.get_account(key)
            if account is not None and is_token_account(account):
                held = self.holding(account)
                tokens.append(
                    {
                        "accountIndex": place,
                        "mint": held["mint"],
                        "owner": held["owner"],
                        "programId": str(account.owner),
                        "uiTokenAmount": held["tokenAmount"],
                    }
                )
        return [self.svm.get_balance(key) or 0 for key in keys], tokens

    def holding(self, account: Account) -> dict[str, Any]:
        """What is in a token account, as the RPC writes it."""
        data = bytes(account.data)
        mint = self.svm.get_account(Pubkey(data[:32]))
        decimals = 0 if mint is None else bytes(mint.data)[44]
        [amount] = struct.unpack_from("<Q", data, 64)
        return {
            "isNative": data[109:113] == b"\x01\0\0\0",
            "mint": str(Pubkey(data[:32])),
            "owner": str(Pubkey(data[32:64])),
            "state": ("uninitialized", "initialized", "frozen")[data[108]],
            "tokenAmount": token_amount(amount, decimals),
        }

    def of_address(self, key: Pubkey) -> list[Landing]:
        """What names it, newest first."""
        return [self.landed[one] for one in reversed(self._of_address.get(key, ())) if one in self.landed]

    # Forks

    def fork(self, blocks: int) -> list[str]:
        """Replace so many of the newest blocks by others, without their transactions; gives those."""
        first = self.blocks[-blocks]
        self._forks += 1
        self.blocks = [
            block
            if block.height < first.height
            else Block(block.slot, block.height, self._hash(block.slot), block.time_s)
            for block in self.blocks
        ]
        gone = [one.tx_id for one in self.landed.values() if one.block.height >= first.height]
        self._undo(set(gone))
        return gone

    def _undo(self, gone: Iterable[str]) -> None:
        """Have these never landed; what came after them is executed again, in its own blocks."""
        gone = set(gone)
        order = list(self.landed.values())
        start = next((n for n, one in enumerate(order) if one.tx_id in gone), len(order))
        for one in reversed(order[start:]):
            del self.landed[one.tx_id]
            for key, account in one.before.items():
                self.svm.set_account(key, account or Account(0, b"", SYSTEM))
                self._keep(key, account, one.block)
                self._of_address[key].remove(one.tx_id)
        for one in order[start:]:
            if one.tx_id not in gone:
                again = self._execute(one.raw, one.tx, one.block)
                if again is not None:
                    again.leaves_at = one.leaves_at


def is_token_account(account: Account) -> bool:
    """Is it one that holds tokens, not a mint and not a multisig?"""
    data = bytes(account.data)
    if account.owner not in TOKEN_PROGRAMS or len(data) < TOKEN_ACCOUNT_SIZE or len(data) == MULTISIG_SIZE:
        return False
    is_mint = len(data) > TOKEN_ACCOUNT_SIZE and data[TOKEN_ACCOUNT_SIZE] != 2
    return not is_mint and data[108] != 0


def token_amount(amount: int, decimals: int) -> dict[str, Any]:
    """An amount of tokens as the RPC writes it."""
    whole, part = divmod(amount, 10**decimals)
    text = f"{whole}.{part:0{decimals}d}".rstrip("0").rstrip(".") if decimals else str(whole)
    return {
        "amount": str(amount),
        "decimals": decimals,
        "uiAmount": amount / 10**decimals if amount else None,
        "uiAmountString": text,
    }


def error_json(error: Any) -> Any:
    """A transaction's error as the RPC writes it."""
    name = type(error).__name__.removeprefix("TransactionError")
    if name == "Fieldless":
        return str(error).rpartition(".")[2]
    if name == "InstructionError":
        inner = error.err
        kind = type(inner).__name__.removeprefix("InstructionError")
        if kind == "Fieldless":
            return {"InstructionError": [error.index, str(inner).rpartition(".")[2]]}
        return {"InstructionError": [error.index, {kind: getattr(inner, "code", None)}]}
    return {name: json.loads(error.to_json())}


def _clock(block: Block) -> Clock:
    epoch = block.slot // SLOTS_IN_AN_EPOCH
    return Clock(block.slot, block.time_s, epoch, epoch + 1, block.time_s)


def _clock_data(block: Block) -> bytes:
    clock = _clock(block)
    return struct.pack(
        "<QqQQq",
        clock.slot,
        clock.epoch_start_timestamp,
        clock.epoch,
        clock.leader_schedule_epoch,
        clock.unix_timestamp,
    )
