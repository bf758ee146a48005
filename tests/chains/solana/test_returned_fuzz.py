"""Ten thousand transactions of thieves: what is accepted moves what was quoted, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pytest
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import SimulatedTransactionInfo

from payd.chains.solana.accounts import decode_holding
from payd.chains.solana.build import Wanted, network_fee, split, unsigned, with_signature
from payd.chains.solana.guards import GuardLimits
from payd.chains.solana.keys import LIGHTHOUSE, SYSTEM, TOKEN, TOKEN_PROGRAMS, token_account
from payd.chains.solana.returned import Returned, check_returned
from payd.core.errors import InvalidParams, InvalidSignature
from tests.chains.solana.tampering import (
    LIMITS,
    WANTED,
    handed_out,
    instructions_of,
    put_together,
    street,
    text,
)
from tests.chains.solana.vm import BUYER, MERCHANT, OPERATOR, PAYER, STRANGER, USDC, World, signed

TRIES = 2500  # of each of four payments
SEED = 20_241

PEOPLE = (BUYER, MERCHANT, OPERATOR, PAYER, STRANGER)
KEYS = [
    *(one.pubkey() for one in PEOPLE),
    *(token_account(one.pubkey(), USDC, TOKEN) for one in PEOPLE),
    *(USDC, TOKEN, SYSTEM, LIGHTHOUSE, Pubkey(bytes([200] * 32))),
]


class Parts(msgspec.Struct):
    """A message taken apart: the counts of its header, and the rest."""

    counts: list[int]
    keys: list[Pubkey]
    blockhash: Hash
    instructions: list[CompiledInstruction]

    def message(self) -> bytes:
        signers, readonly_signed, readonly = (max(0, min(255, count)) for count in self.counts)
        return bytes(
            Message.new_with_compiled_instructions(
                signers, readonly_signed, readonly, self.keys, self.blockhash, self.instructions
            )
        )


def taken_apart(message: bytes) -> Parts:
    read = Message.from_bytes(message)
    header = read.header
    counts = [
        header.num_required_signatures,
        header.num_readonly_signed_accounts,
        header.num_readonly_unsigned_accounts,
    ]
    return Parts(counts, list(read.account_keys), read.recent_blockhash, list(read.instructions))


Bend: TypeAlias = Callable[[random.Random, bytes], bytes]
"""A message out of another. Where it cannot be bent that way, it stays."""


def by_parts(bend: Callable[[random.Random, Parts], None]) -> Bend:
    """Of the message as it is written."""

    def bent(rng: random.Random, message: bytes) -> bytes:
        parts = taken_apart(message)
        bend(rng, parts)
        return parts.message()

    return bent


def by_instructions(bend: Callable[[random.Random, list[Instruction]], None]) -> Bend:
    """Of what it does; it is then compiled again."""

    def bent(rng: random.Random, message: bytes) -> bytes:
        instructions = instructions_of(message)
        bend(rng, instructions)
        read = Message.from_bytes(message)
        return put_together(instructions, read.account_keys[0], read.recent_blockhash)

    return bent


def _guard(rng: random.Random, own: list[Instruction]) -> None:
    """An honest wallet: assertions about what it cares for."""
    for _ in range(rng.randint(1, 3)):
        kind, count = rng.choice([(2, 1), (4, 2), (5, 1), (6, 1), (9, 1), (10, 1), (15, 0)])
        keys = rng.sample([key for key in KEYS if key != PAYER.pubkey()], count)
        metas = [AccountMeta(key, is_signer=False, is_writable=False) for key in keys]
        one = Instruction(LIGHTHOUSE, bytes([kind]) + rng.randbytes(rng.randint(0, 20)), metas)
        own.insert(rng.choice([0, len(own)]), one)


def _budget(rng: random.Random, own: list[Instruction]) -> None:
    """A wallet with its own mind on fees."""
    own[0] = set_compute_unit_limit(rng.choice([200_000, 230_000, 249_000, 300_000, 1_400_000, 2**32 - 1]))
    own[1] = set_compute_unit_price(rng.choice([20_000, 20_000, 0, 500_000, 2_000_000, 2**64 - 1]))


def _false_guard(rng: random.Random, own: list[Instruction]) -> None:
    metas = [_meta(rng) for _ in range(rng.randint(0, 3))]
    own.insert(rng.randint(0, len(own)), Instruction(LIGHTHOUSE, rng.randbytes(rng.randint(0, 4)), metas))


def _meta(rng: random.Random) -> AccountMeta:
    return AccountMeta(rng.choice(KEYS), is_signer=rng.random() < 0.2, is_writable=rng.random() < 0.3)


def _theft(rng: random.Random, own: list[Instruction]) -> None:
    victim, thief = rng.choice([PAYER, BUYER]), rng.choice([STRANGER, BUYER])
    amount = rng.choice([1, 10**6, 10**8]).to_bytes(8, "little")
    lamports = [AccountMeta(victim.pubkey(), True, True), AccountMeta(thief.pubkey(), False, True)]
    holding = [
        AccountMeta(token_account(victim.pubkey(), USDC, TOKEN), False, True),
        AccountMeta(token_account(thief.pubkey(), USDC, TOKEN), False, True),
        AccountMeta(victim.pubkey(), True, False),
    ]
    own.insert(
        rng.randint(0, len(own)),
        rng.choice(
            [
                Instruction(SYSTEM, b"\x02\0\0\0" + amount, lamports),
                Instruction(SYSTEM, b"\x01\0\0\0" + bytes(TOKEN), lamports[:1]),
                Instruction(TOKEN, b"\x03" + amount, holding),
                Instruction(TOKEN, b"\x04" + amount, holding),
                Instruction(TOKEN, b"\x09", holding),
                Instruction(TOKEN, b"\x06\x02\x01" + bytes(STRANGER.pubkey()), [holding[0], holding[2]]),
            ]
        ),
    )


def _order(rng: random.Random, own: list[Instruction]) -> None:
    own.insert(rng.randint(0, len(own) - 1), own.pop(rng.randrange(len(own))))


def _missing(rng: random.Random, own: list[Instruction]) -> None:
    own.pop(rng.randrange(len(own)))


def _twice(rng: random.Random, own: list[Instruction]) -> None:
    own.insert(rng.randint(0, len(own)), rng.choice(own))


def _account(rng: random.Random, own: list[Instruction]) -> None:
    place = rng.randrange(len(own))
    one = own[place]
    metas = list(one.accounts) or [_meta(rng)]
    at = rng.randrange(len(metas))
    metas[at] = AccountMeta(rng.choice(KEYS), metas[at].is_signer, metas[at].is_writable)
    own[place] = Instruction(one.program_id, bytes(one.data), metas)


def _program(rng: random.Random, own: list[Instruction]) -> None:
    place = rng.randrange(len(own))
    own[place] = Instruction(rng.choice(KEYS), bytes(own[place].data), list(own[place].accounts))


def _data(rng: random.Random, own: list[Instruction]) -> None:
    place = rng.randrange(len(own))
    data = bytearray(own[place].data) or bytearray(1)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    own[place] = Instruction(own[place].program_id, bytes(data), list(own[place].accounts))


def _counts(rng: random.Random, parts: Parts) -> None:
    parts.counts[rng.randrange(3)] += rng.choice([-1, 1])


def _key(rng: random.Random, parts: Parts) -> None:
    parts.keys[rng.randrange(len(parts.keys))] = rng.choice(KEYS)


def _keys_swapped(rng: random.Random, parts: Parts) -> None:
    one, two = rng.sample(range(len(parts.keys)), 2)
    parts.keys[one], parts.keys[two] = parts.keys[two], parts.keys[one]


def _key_added(rng: random.Random, parts: Parts) -> None:
    parts.keys.append(rng.choice(KEYS))
    parts.counts[2] += rng.choice([0, 1])


def _index(rng: random.Random, parts: Parts) -> None:
    place = rng.randrange(len(parts.instructions))
    one = parts.instructions[place]
    accounts = bytearray(one.accounts) or bytearray(1)
    accounts[rng.randrange(len(accounts))] = rng.randrange(len(parts.keys) + 1)
    program = rng.choice([one.program_id_index, one.program_id_index, rng.randrange(len(parts.keys) + 1)])
    parts.instructions[place] = CompiledInstruction(program, bytes(one.data), bytes(accounts))


def _blockhash(rng: random.Random, parts: Parts) -> None:
    parts.blockhash = Hash(rng.randbytes(32))


def _bits(rng: random.Random, message: bytes) -> bytes:
    changed = bytearray(message)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _bytes(rng: random.Random, message: bytes) -> bytes:
    at, some = rng.randrange(len(message)), rng.randbytes(rng.randint(1, 4))
    return rng.choice([message[:at] + some + message[at:], message[:at] + message[at + len(some) :]])


HONEST: list[Bend] = [by_instructions(_guard), by_instructions(_budget)]
BENT: list[Bend] = [
    *HONEST,
    *map(by_instructions, [_false_guard, _theft, _order, _missing, _twice, _account, _program, _data]),
    *map(by_parts, [_counts, _key, _keys_swapped, _key_added, _index, _blockhash]),
    *[_bits, _bytes],
]


def tried(rng: random.Random, handed: bytes) -> bytes:
    """What a wallet returns: bent, then signed by everybody who would help a thief."""
    message = split(handed)[1]
    bends = (
        rng.choices(HONEST, k=rng.randint(0, 2))
        if rng.random() < 0.4
        else rng.choices(BENT, k=rng.randint(1, 3))
    )
    for bend in bends:
        try:
            message = bend(rng, message)
        except (ValueError, IndexError):  # bent so far that it is no message
            break
    return _wire(rng, _as_signed(rng, message, handed))


def _as_signed(rng: random.Random, message: bytes, handed: bytes) -> bytes:
    try:
        keys = Message.from_bytes(message).signer_keys()
        raw = unsigned(message)
        for one in (BUYER, STRANGER, MERCHANT, OPERATOR):
            raw = signed(raw, one) if one.pubkey() in keys else raw
        ours = rng.choice([split(handed)[0][0], split(handed)[0][0], bytes(64), rng.randbytes(64)])
        return with_signature(raw, PAYER.pubkey(), ours) if PAYER.pubkey() in keys else raw
    except ValueError:
        signatures = [split(handed)[0][0], bytes(BUYER.sign_message(message))][-handed[0] :]
        return bytes([len(signatures)]) + b"".join(signatures) + message


def _wire(rng: random.Random, raw: bytes) -> bytes:
    if rng.random() < 0.85:
        return raw
    return rng.choice([_bits, _bytes, _signature])(rng, raw)


def _signature(rng: random.Random, raw: bytes) -> bytes:
    """The last one is missing, or of something else."""
    end = 1 + 64 * raw[0]
    return raw[: end - 64] + rng.choice([bytes(64), bytes(BUYER.sign_message(b"x"))]) + raw[end:]


def checked(want: Wanted, handed: bytes, raw: bytes, limits: GuardLimits = LIMITS) -> Returned | str:
    """What the door says; anything but its two refusals is a crash."""
    ours = PAYER.pubkey() if want.fee_payer == PAYER.pubkey() else None
    try:
        return check_returned(handed, text(raw), want.buyer, ours, limits)
    except InvalidParams:
        return "another"
    except InvalidSignature:
        return "unsigned"


class Ledger:
    """What everybody has before, and what a transaction that really runs leaves them."""

    def __init__(self, world: World, want: Wanted) -> None:
        self._world, self._want = world, want
        token = want.token
        self._moves: dict[Pubkey, int] = Counter()
        for leg in want.legs:
            place = leg.owner if token is None else token_account(leg.owner, *token)
            source = want.buyer if token is None else token_account(want.buyer, *token)
            self._moves[place] += leg.amount
            self._moves[source] -= leg.amount

    def run(self, got: Returned) -> bool:
        """Whether it would land; if so, nothing has moved but what was quoted."""
        raw = signed(got.raw, PAYER) if got.tx_id is None else got.raw
        units = 1_400_000 if self._want.fee_payer == BUYER.pubkey() else 200_000 + LIMITS.units_added_max
        price = LIMITS.unit_price_max if self._want.fee_payer == BUYER.pubkey() else self._want.unit_price
        assert got.fee <= network_fee(2, units, price)
        result = self._world.svm.simulate_transaction(VersionedTransaction.from_bytes(raw))
        if not isinstance(result, SimulatedTransactionInfo):
            return False
        assert result.meta().fee() == got.fee
        after = dict(result.post_accounts())
        created = [key for key in after if self._moves.get(key, 0) > 0 and self._before(key) is None]
        rents = sum(after[key].lamports for key in created if after[key].owner in TOKEN_PROGRAMS)
        for key, account in after.items():
            lamports = -got.fee - rents if key == self._want.fee_payer else 0
            self._compare(key, account, lamports)
        assert {key for key in self._moves if key not in after} == set()
        return True

    def _before(self, key: Pubkey) -> Account | None:
        return self._world.svm.get_account(key)

    def _compare(self, key: Pubkey, after: Account, lamports: int) -> None:
        before, moved = self._before(key), self._moves.get(key, 0)
        if self._want.token is None:
            lamports += moved
        elif moved:
            had = 0 if before is None else decode_holding(before.owner, bytes(before.data)).amount
            holding = decode_holding(after.owner, bytes(after.data))
            assert (holding.amount - had, holding.state) == (moved, "initialized")
            if before is None:
                assert holding.owner in {leg.owner for leg in self._want.legs}
                return
            rest = bytes(before.data)[:64] + bytes(before.data)[72:]
            assert bytes(after.data)[:64] + bytes(after.data)[72:] == rest
        if not moved or self._want.token is None:
            assert bytes(after.data) == (b"" if before is None else bytes(before.data))
        assert after.lamports - (0 if before is None else before.lamports) == lamports
        assert before is None or before.owner == after.owner


@pytest.mark.parametrize("name", WANTED)
def test_nothing_that_is_accepted_moves_anything_but_what_was_quoted(name: str) -> None:
    rng = random.Random(f"{SEED} {name}")
    world, want = street(), WANTED[name]
    world.put_tokens(PAYER, USDC, 7_000_000)
    world.put_tokens(STRANGER, USDC, 0)
    handed = handed_out(want, world.blockhash)
    ledger = Ledger(world, want)
    seen: Counter[str] = Counter()
    for _ in range(TRIES):
        verdict = checked(want, handed, tried(rng, handed))
        if isinstance(verdict, str):
            seen[verdict] += 1
        else:
            seen["landed" if ledger.run(verdict) else "failed"] += 1
    assert seen.total() == TRIES
    # A door that is always shut, or always open, would prove nothing.
    assert seen["another"] > TRIES / 4
    assert seen["landed"] > TRIES / 10
    assert seen["unsigned"] > 10
    assert seen["failed"] < seen["landed"] / 4
