"""Which transfer pays, and when it is looked at again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from payd.chains.following import block_of, is_committed, is_here, later, paying, proven, until_final
from payd.chains.witnesses import Proof
from payd.core.money import AmountWire
from payd.core.payment import Payment, Processing, Success
from payd.store.sightings import Sighting
from payd.store.transfers import Follow

CHAIN = "eip155:8453"
ROW = Sighting("acct_1", "pay_l1", CHAIN, "0x1", 0, "a", 1, "s", "r", "matched", 7, "0xb7", 700, "depth", 9)
PAYMENT = Payment("pay_l1", "acct_1", "mrch_1", "order-1", "USD", 2500, 0, 900_000, 0)


def row(**changes: Any) -> Sighting:
    return msgspec.structs.replace(ROW, **changes)


def test_of_several_that_pay_the_one_that_was_told_counts() -> None:
    first, second = row(), row(tx_id="0x2")
    told = msgspec.structs.replace(PAYMENT, success=Success(5, "0x2"))

    assert paying(PAYMENT, [first, second], CHAIN) == first
    assert paying(told, [first, second], CHAIN) == second


def test_what_pays_on_another_chain_is_not_this_ones() -> None:
    assert paying(PAYMENT, [row(chain="eip155:1")], CHAIN) is None


def test_a_look_that_changes_nothing_stores_nothing() -> None:
    assert later(ROW, Follow(CHAIN, "0x1", block_of(ROW), "depth", 9)) is None

    found = later(ROW, until_final(ROW))

    assert found is not None
    assert found.follow == Follow(CHAIN, "0x1", "0xb7", "final")
    assert found.trigger is None
    assert later(row(look_at=None), until_final(ROW)) == found


def committed(*notes: object, chain: str = CHAIN) -> Payment:
    amount = AmountWire("caip19/a", "1")
    track = msgspec.msgpack.encode(notes) if notes else b"of another kind"
    return msgspec.structs.replace(PAYMENT, processing=Processing(1, amount, amount, "s", chain, track=track))


def test_what_was_committed_is_read_from_the_beginning_of_any_chains_notes() -> None:
    assert is_committed(committed("a", "r", "1", "what only its own chain knows", 7), row())
    for other in (row(asset="b"), row(recipient="q"), row(value=2)):
        assert not is_committed(committed("a", "r", "1"), other)
    assert not is_committed(PAYMENT, row())


def test_notes_of_another_chain_are_not_read() -> None:
    elsewhere = committed(chain="solana:5eykt")

    assert not is_committed(elsewhere, row())
    assert not is_here(elsewhere, CHAIN)
    assert is_here(elsewhere, "solana:5eykt")
    assert not is_here(PAYMENT, CHAIN)


async def test_who_is_shown_to_have_paid_instead_has_to_be_proven_to_have() -> None:
    payment = committed("a", "r", "1")
    processing = payment.processing
    assert processing is not None
    asked: list[str | None] = []

    async def prove(processing: Processing, payer: str | None) -> Proof:
        await trio.lowlevel.checkpoint()
        asked.append(payer)
        return "none"

    async def show() -> Processing:
        await trio.lowlevel.checkpoint()
        return msgspec.structs.replace(processing, buyer="another")

    again, proof = await proven(payment, processing, prove, show, is_signed=True)
    assert (again.buyer, proof, asked) == ("another", "none", ["s", "another"])


async def test_of_what_was_not_signed_who_paid_has_to_be_proven_as_well() -> None:
    payment, other = committed("a", "r", "1"), committed("b", "r", "1").processing
    assert other is not None

    async def prove(processing: Processing, payer: str | None) -> Proof:
        await trio.lowlevel.checkpoint()
        return "deep" if payer is None else "none"

    async def show() -> Processing:
        await trio.lowlevel.checkpoint()
        return other

    assert await proven(payment, other, prove, show, is_signed=True) == (other, "none")


@pytest.mark.parametrize(("is_signed", "proof"), [(True, "deep"), (False, "none")])
async def test_where_nodes_only_contradict_each_other_on_who_paid_it_is_who_signed(
    is_signed: bool, proof: Proof
) -> None:
    payment = committed("a", "r", "1")
    assert payment.processing is not None

    async def prove(processing: Processing, payer: str | None) -> Proof:
        await trio.lowlevel.checkpoint()
        return "deep" if payer is None else "none"

    async def show() -> None:
        await trio.lowlevel.checkpoint()

    said = await proven(payment, payment.processing, prove, show, is_signed=is_signed)
    assert said == (payment.processing, proof)
