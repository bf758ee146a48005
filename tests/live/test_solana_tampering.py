"""Transactions that wallets give back otherwise than they got them, at the door of a running shop.

Each is signed by everybody whom it needs but us. It is refused in words, the payment stays open, the honest
one is taken afterwards, and nobody has lost anything but that one's price and fee.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import trio
from solders.compute_budget import (
    request_heap_frame,
    set_compute_unit_limit,
    set_compute_unit_price,
    set_loaded_accounts_data_size_limit,
)
from solders.instruction import AccountMeta, Instruction
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import (
    AssignParams,
    TransferParams,
    assign,
    transfer,
)

from payd.chains.solana.binding import reference_key
from payd.chains.solana.build import split, with_signature
from payd.chains.solana.keys import LIGHTHOUSE, MEMO, TOKEN, token_account
from tests.chains.solana.tampering import guard
from tests.chains.solana.vm import program_that_does_nothing
from tests.live.handed import (
    Handed,
    Wealth,
    as_text,
    hand_out,
    signed_by_all,
    signed_by_us,
)
from tests.live.solana import (
    BUYER,
    BUYER_2,
    MERCHANT,
    MINTS,
    POOR,
    PYUSD,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    LocalSolana,
    create_holding,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_solana_street
from tests.live.svm_node import ServedNode

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
SOL_AMOUNT: Final = 250_000_000
# Of a program: that it gives 0, and 1.
DOES_NOTHING, FAILS = (bytes.fromhex(f"b7000000{one}000000") for one in ("00", "01"))
CASES: Final = {
    "USDC, our fee": (USDC, POOR),
    "USDC, the buyer's fee": (USDC, BUYER),
    "PYUSD, our fee": (PYUSD, POOR),
    "SOL": (SOL, BUYER),
}
SPONSORED: Final = ("USDC, our fee", "PYUSD, our fee")
# Whoever steals would have it sent to one of these, or would take it from one of these.
TARGETS: Final = (pubkey(STRANGER), FEE_PAYER, reference_key("pay_other"))


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    """Its blocks come when they are asked for: what is handed out stays young."""
    async with open_solana_street(tmp_path / "house", solana) as opened:
        yield opened


@pytest.fixture(params=CASES)
async def handed(request: pytest.FixtureRequest, street: SolanaStreet) -> Handed:
    return await hand_out(street, *CASES[request.param])


@pytest.fixture(params=SPONSORED)
async def sponsored(request: pytest.FixtureRequest, street: SolanaStreet) -> Handed:
    handed = await hand_out(street, *CASES[request.param])
    assert handed.is_sponsored
    return handed


async def is_paid_exactly(handed: Handed, result: str | None = None, fee: int | None = None) -> None:
    """It settles, and so much has moved, with the network's fee, and nothing else."""
    unit = handed.option["amount"]["unit"]
    mint = None if unit.endswith(SOL) else Pubkey.from_string(unit.rpartition(":")[2])
    amount = SOL_AMOUNT if mint is None else AMOUNT
    buyer = pubkey(handed.place)
    wanted: Wealth = {}
    for key, value in (
        ((buyer, mint), -amount),
        ((pubkey(MERCHANT), mint), amount),
        ((handed.payer, None), -(handed.fee if fee is None else fee)),
    ):
        wanted[key] = wanted.get(key, 0) + value
    assert await handed.is_paid(result) == wanted


async def expect_all_refused(
    handed: Handed, results: Iterator[str], words: str = "the wallet changed"
) -> None:
    """Each is, with these words; then the honest one pays."""
    count = 0
    for result in results:
        assert words in await handed.refused(result)
        count += 1
    assert count
    await is_paid_exactly(handed)


# Ours, otherwise.


async def test_a_transaction_without_one_of_its_instructions_is_refused(handed: Handed) -> None:
    own = handed.instructions

    def without() -> Iterator[str]:
        for place in range(len(own)):
            yield handed.with_instructions([*own[:place], *own[place + 1 :]])

    await expect_all_refused(handed, without())


async def test_a_transaction_with_one_of_its_instructions_twice_is_refused(handed: Handed) -> None:
    own = handed.instructions

    def doubled() -> Iterator[str]:
        for one in own:
            yield handed.with_instructions([one, *own])
            yield handed.with_instructions([*own, one])

    await expect_all_refused(handed, doubled())


async def test_a_transaction_in_another_order_is_refused(handed: Handed) -> None:
    own = handed.instructions

    def swapped() -> Iterator[str]:
        for one in range(len(own)):
            for two in range(one):
                order = list(own)
                order[one], order[two] = own[two], own[one]
                if order != own:
                    yield handed.with_instructions(order)

    await expect_all_refused(handed, swapped())


async def test_a_transaction_with_an_instruction_that_points_elsewhere_is_refused(handed: Handed) -> None:
    own = handed.instructions
    accounts = [token_account(pubkey(STRANGER), mint, program) for mint, program in MINTS.items()]

    def pointing() -> Iterator[str]:
        for place, one in enumerate(own):
            for target in (*TARGETS, *accounts):
                if target != one.program_id:
                    yield changed(place, Instruction(target, bytes(one.data), one.accounts))
                for at, meta in enumerate(one.accounts):
                    if target != meta.pubkey:
                        metas = list(one.accounts)
                        # Whoever has no key cannot sign; and would it go without, we would be asked to.
                        metas[at] = AccountMeta(target, target == pubkey(STRANGER), meta.is_writable)
                        yield changed(place, Instruction(one.program_id, bytes(one.data), metas))

    def changed(place: int, other: Instruction) -> str:
        return handed.with_instructions([*own[:place], other, *own[place + 1 :]])

    await expect_all_refused(handed, pointing())


async def test_a_transaction_with_other_numbers_or_words_in_it_is_refused(handed: Handed) -> None:
    """Of what the network takes, a buyer who pays it decides; the rest is not theirs to change."""
    own = handed.instructions

    def changed() -> Iterator[str]:
        for place, one in enumerate(own):
            if place < 2 and not handed.is_sponsored:
                continue
            data = bytes(one.data)
            for at in range(len(data)):
                other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                again = Instruction(one.program_id, other, one.accounts)
                yield handed.with_instructions([*own[:place], again, *own[place + 1 :]])

    await expect_all_refused(handed, changed())


# More than ours.


def thefts(handed: Handed) -> dict[str, Instruction]:
    """What somebody who wants more than to pay would add."""
    stranger, buyer = pubkey(STRANGER), pubkey(handed.place)
    holding = token_account(buyer, USDC_MINT, TOKEN)

    def of_holding(data: bytes, *more: Pubkey) -> Instruction:
        metas = [AccountMeta(one, is_signer=False, is_writable=True) for one in (holding, *more)]
        return Instruction(TOKEN, data, [*metas, AccountMeta(buyer, is_signer=True, is_writable=False)])

    found = {
        "our SOL": pay_sol(FEE_PAYER, stranger, 10**8),
        "our wallet": assign(AssignParams(pubkey=FEE_PAYER, owner=stranger)),
        "an account at our expense": create_holding(FEE_PAYER, stranger, USDC_MINT),
        "the buyer's SOL": transfer(TransferParams(from_pubkey=buyer, to_pubkey=stranger, lamports=1)),
        "more of the buyer's tokens": pay_token(buyer, pubkey(MERCHANT), USDC_MINT, 1),
        "the buyer's token account": of_holding(bytes([6, 2, 1]) + bytes(stranger)),
        "an approval": of_holding(b"\x04" + (10**9).to_bytes(8, "little"), stranger),
        "a closed account": of_holding(b"\x09", buyer),
        "a memo": memo("hello"),
        "a stranger's program": Instruction(stranger, b"", [AccountMeta(buyer, True, True)]),
        "a stranger's program with our wallet": Instruction(
            stranger, b"", [AccountMeta(FEE_PAYER, False, True)]
        ),
        "our reference in a memo": Instruction(
            MEMO, b"", [AccountMeta(reference_key(handed.payment_id), False, False)]
        ),
        "another price": set_compute_unit_price(10**9),
        "another limit": set_compute_unit_limit(1_400_000),
        "a larger heap": request_heap_frame(256 * 1024),
        "a limit of data": set_loaded_accounts_data_size_limit(1),
    }
    return {name: one for name, one in found.items() if handed.is_sponsored or "our" not in name}


async def test_a_transaction_with_anything_more_in_it_is_refused(handed: Handed) -> None:
    own = handed.instructions

    def added() -> Iterator[str]:
        for theft in thefts(handed).values():
            yield handed.with_instructions([theft, *own])
            yield handed.with_instructions([*own[:-1], theft, own[-1]])
            yield handed.with_instructions([*own, theft])
            yield handed.with_instructions([*own, guard(pubkey(handed.place)), theft])

    await expect_all_refused(handed, added())


async def test_a_price_or_limit_that_we_would_pay_is_not_the_wallets_to_set(sponsored: Handed) -> None:
    limit, price, *rest = sponsored.instructions
    units, each = int.from_bytes(limit.data[1:], "little"), int.from_bytes(price.data[1:], "little")

    def dearer() -> Iterator[str]:
        for other in (0, each + 1, 2 * each, 10**6, 2**64 - 1):
            if other != each:
                yield sponsored.with_instructions([limit, set_compute_unit_price(other), *rest])
        for more in (units - 1, units + 1, 1_400_000):
            yield sponsored.with_instructions([set_compute_unit_limit(more), price, *rest])
        # With a guard there may be units for it, so many and no more.
        guards = [guard(pubkey(POOR))]
        for more in (units - 1, units + 100_001, 1_400_000):
            yield sponsored.with_instructions([set_compute_unit_limit(more), price, *rest, *guards])

    await expect_all_refused(sponsored, dearer())


async def test_a_wallet_sets_the_fee_that_its_own_user_pays(street: SolanaStreet) -> None:
    handed = await hand_out(street, USDC, BUYER)
    limit, _, *rest = handed.instructions
    units = int.from_bytes(limit.data[1:], "little")
    steep = handed.with_instructions([limit, set_compute_unit_price(10**9), *rest])
    assert "ComputeBudget" in await handed.refused(steep)
    dearer = handed.with_instructions([limit, set_compute_unit_price(5_000_000), *rest])

    await is_paid_exactly(handed, dearer, fee=5000 + 5 * units)


# Guards.


def odd_guards(handed: Handed) -> list[Instruction]:
    """What Lighthouse could do that is no look at an account."""
    buyer = pubkey(handed.place)
    writes = Instruction(LIGHTHOUSE, b"\x00\x01", [AccountMeta(buyer, True, True)])
    found = [
        writes,
        guard(buyer, kind=0),
        guard(buyer, kind=1),
        guard(buyer, kind=16),
        guard(buyer, kind=18),
        guard(buyer, kind=255),
        Instruction(LIGHTHOUSE, b"", []),
        guard(buyer, pubkey(STRANGER), kind=5),
        guard(kind=5),
        Instruction(
            LIGHTHOUSE, b"\x05\0", [AccountMeta(pubkey(STRANGER), is_signer=False, is_writable=True)]
        ),
        Instruction(
            LIGHTHOUSE, b"\x05\0", [AccountMeta(pubkey(STRANGER), is_signer=True, is_writable=False)]
        ),
    ]
    if handed.is_sponsored:
        found += [guard(FEE_PAYER), guard(buyer, FEE_PAYER, kind=4)]
    return found


async def test_what_looks_like_a_guard_and_does_more_is_refused(handed: Handed) -> None:
    own, buyer = handed.instructions, pubkey(handed.place)

    def added() -> Iterator[str]:
        for odd in odd_guards(handed):
            yield handed.with_instructions([*own, odd])
            yield handed.with_instructions([guard(buyer), *own, odd])
        yield handed.with_instructions([*own, *[guard(buyer)] * 7])

    await expect_all_refused(handed, added())


async def test_a_wallet_that_guards_its_user_is_taken_and_pays(handed: Handed) -> None:
    """We sign it anew where we pay: our signature of the one without guards is no good for it."""
    buyer = pubkey(handed.place)
    guards = [guard(buyer), guard(token_account(buyer, USDC_MINT, TOKEN), kind=9)]
    result = handed.with_instructions([guards[0], *handed.instructions, guards[1]])

    await is_paid_exactly(handed, result)

    [transfer] = (await handed.street.detail(handed.payment_id))["transfers"]
    landed = await handed.street.chain.landed(transfer["txId"], "finalized")
    assert landed is not None
    assert landed["transaction"][0] != handed.signed()


async def test_a_guard_that_does_not_hold_is_told_of_and_nothing_is_sent(handed: Handed) -> None:
    result = handed.with_instructions([*handed.instructions, guard(pubkey(handed.place))])
    failing = program_that_does_nothing().replace(DOES_NOTHING, FAILS)
    node = handed.street.chain.node
    assert isinstance(node, ServedNode)
    node.ledger.svm.add_program(LIGHTHOUSE, failing)

    assert "a condition that the buyer's wallet added does not hold" in await handed.refused(result)

    await is_paid_exactly(handed)


# Of something else.


async def test_another_blockhash_is_refused(handed: Handed) -> None:
    own = handed.instructions
    await handed.street.chain.slots(3)
    fresh = await handed.street.chain.blockhash()

    def others() -> Iterator[str]:
        yield handed.with_instructions(own, blockhash=fresh)
        yield handed.with_instructions([*own, guard(pubkey(handed.place))], blockhash=fresh)
        yield handed.with_instructions(own, blockhash=str(pubkey(STRANGER)))

    await expect_all_refused(handed, others(), "it has another blockhash")


async def test_another_fee_payer_is_refused(handed: Handed) -> None:
    def others() -> Iterator[str]:
        for payer in (FEE_PAYER, pubkey(handed.place), pubkey(STRANGER)):
            if payer != handed.payer:
                yield handed.with_instructions(handed.instructions, payer)

    await expect_all_refused(handed, others(), "another account pays its fee")


async def test_a_versioned_transaction_is_refused(handed: Handed) -> None:
    legacy = Message.from_bytes(handed.message)
    message = MessageV0.try_compile(handed.payer, handed.instructions, [], legacy.recent_blockhash)
    signer = keypair(handed.place)
    signatures = [bytes(64)] * legacy.header.num_required_signatures
    place = list(message.account_keys).index(signer.pubkey())
    signatures[place] = bytes(signer.sign_message(to_bytes_versioned(message)))
    raw = bytes([len(signatures)]) + b"".join(signatures) + to_bytes_versioned(message)

    await expect_all_refused(handed, iter([as_text(raw)]), "not a versioned one")


async def test_the_transaction_of_another_payment_is_refused(handed: Handed) -> None:
    street = handed.street
    asset, place = handed.option["amount"]["unit"].removeprefix("caip19/"), handed.place
    cheap = await hand_out(street, asset, place, value="1")
    twin = await hand_out(street, asset, place)
    other = await hand_out(street, asset, BUYER_2)

    await expect_all_refused(handed, iter([one.signed() for one in (cheap, twin, other)]))


async def test_another_buyers_signature_is_none(handed: Handed) -> None:
    message, buyer = handed.message, pubkey(handed.place)
    others = [
        with_signature(handed.raw, buyer, bytes(keypair(place).sign_message(message)))
        for place in (STRANGER, BUYER_2, MERCHANT)
    ]
    others.append(
        with_signature(handed.raw, buyer, bytes(keypair(handed.place).sign_message(b"x" + message)))
    )
    for one in others:
        assert "is not one of this transaction" in await handed.refused(as_text(one), "invalid_signature")
    assert "has not signed" in await handed.refused(as_text(handed.raw), "invalid_signature")

    await is_paid_exactly(handed)


async def test_our_signature_is_nobodys_to_replace(sponsored: Handed) -> None:
    forged = with_signature(
        signed_by_all(sponsored.raw), FEE_PAYER, bytes(keypair(STRANGER).sign_message(sponsored.message))
    )
    words = await sponsored.refused(as_text(forged), "invalid_signature")
    assert "the signature of the fee payer was replaced" in words

    # A wallet may leave it out, though: it is put back.
    await is_paid_exactly(
        sponsored, as_text(with_signature(signed_by_all(sponsored.raw), FEE_PAYER, bytes(64)))
    )


@pytest.mark.parametrize(
    "junk",
    ["", "=", "AQ==", "hello", "0x" + "ab" * 64, "é", "A" * 5000, "null", str(Signature.default())],
)
async def test_junk_is_refused(street: SolanaStreet, junk: str) -> None:
    handed = await hand_out(street, USDC, POOR)
    assert await handed.refused(junk)
    await is_paid_exactly(handed)


async def test_what_is_cut_or_longer_is_refused(handed: Handed) -> None:
    raw = signed_by_all(handed.raw)

    def others() -> Iterator[str]:
        for end in range(0, len(raw), 41):
            yield as_text(raw[:end])
        for more in (b"\0", bytes(64), raw):
            yield as_text(raw + more)

    await expect_all_refused(handed, others(), "")


async def test_many_who_tamper_at_once_are_all_refused_and_the_honest_one_among_them_is_taken(
    sponsored: Handed,
) -> None:
    own, told = sponsored.instructions, []

    async def give(result: str) -> None:
        told.append((await sponsored.confirm(result)).status_code)

    async with trio.open_nursery() as nursery:
        for theft in thefts(sponsored).values():
            nursery.start_soon(give, sponsored.with_instructions([*own, theft]))
        nursery.start_soon(give, sponsored.signed())

    assert sorted(told) == [200, *[400] * len(thefts(sponsored))]
    await is_paid_exactly(sponsored)


async def test_what_we_would_have_signed_of_a_thief_would_have_cost_us(sponsored: Handed) -> None:
    """The tests above mean something: with our signature the chain takes it."""
    theft = sponsored.with_instructions([*sponsored.instructions, thefts(sponsored)["our SOL"]])
    tx_id = await sponsored.street.chain.send_raw(signed_by_us(base64.b64decode(theft)))
    landed = await sponsored.street.chain.status(tx_id)
    assert landed is not None
    assert landed["err"] is None
    assert split(sponsored.raw)[1] == sponsored.message
