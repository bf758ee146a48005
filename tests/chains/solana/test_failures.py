"""The chain's errors in words: what the real programs say, and whatever else a node may."""

from __future__ import annotations

from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message

from payd.chains.base import Refused
from payd.chains.solana.failures import (
    ACCOUNT_GONE,
    ACCOUNT_TAKEN,
    EXPIRED,
    FROZEN,
    GUARD,
    NO_FEE,
    NO_FUNDS,
    NO_RENT,
    OUT_OF_UNITS,
    PAUSED,
    error_name,
    failure_words,
    reason_of,
)
from payd.chains.solana.keys import (
    ASSOCIATED_TOKEN,
    LIGHTHOUSE,
    MEMO,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    token_account,
)
from tests.chains.solana.scene import Scene, sign
from tests.live.solana import (
    BUYER,
    MERCHANT,
    STRANGER,
    USDC_MINT,
    create_holding,
    holding_data,
    keypair,
    pay_sol,
    pay_token,
    pubkey,
)

PROGRAMS = (TOKEN, TOKEN_2022, ASSOCIATED_TOKEN, SYSTEM, LIGHTHOUSE, MEMO)


def message_of(*instructions: Instruction) -> Message:
    return Message(list(instructions), pubkey(BUYER))


EACH = message_of(
    *(Instruction(program, b"", [AccountMeta(pubkey(BUYER), False, False)]) for program in PROGRAMS)
)


def inside(program: Any, inner: object) -> dict[str, object]:
    return {"InstructionError": [PROGRAMS.index(program), inner]}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("BlockhashNotFound", EXPIRED),
        ("InsufficientFundsForFee", NO_FEE),
        ("AccountNotFound", NO_FEE),
        ({"InsufficientFundsForRent": {"account_index": 0}}, NO_RENT),
        (inside(TOKEN, {"Custom": 1}), NO_FUNDS),
        (inside(TOKEN_2022, {"Custom": 1}), NO_FUNDS),
        (inside(TOKEN, {"Custom": 17}), FROZEN),
        (inside(TOKEN_2022, {"Custom": 67}), PAUSED),
        (inside(TOKEN, {"Custom": 4}), ACCOUNT_TAKEN),
        (inside(TOKEN, "InvalidAccountData"), ACCOUNT_GONE),
        (inside(SYSTEM, {"Custom": 1}), NO_FUNDS),
        (inside(ASSOCIATED_TOKEN, {"Custom": 1}), NO_FEE),
        (inside(ASSOCIATED_TOKEN, "IllegalOwner"), ACCOUNT_TAKEN),
        (inside(LIGHTHOUSE, {"Custom": 6001}), GUARD),
        (inside(MEMO, "ComputationalBudgetExceeded"), OUT_OF_UNITS),
        (inside(TOKEN, "ComputationalBudgetExceeded"), OUT_OF_UNITS),
        (inside(MEMO, {"Custom": 1}), "its instruction 6 was refused (error 1)"),
        (inside(TOKEN, {"Custom": 99}), "its instruction 1 was refused (error 99)"),
        ({"InstructionError": [99, "InvalidArgument"]}, "its instruction 100 was refused (InvalidArgument)"),
        ("AccountInUse", "the network refused it (AccountInUse)"),
        ("<b>Évil\n</b>", "the network refused it (bÉvilb)"),
        ({}, "the network refused it (no reason given)"),
        (7, "the network refused it (no reason given)"),
        ({"InstructionError": ["x", []]}, "the network refused it (InstructionError)"),
        (inside(TOKEN, {"Custom": []}), "its instruction 1 was refused (Custom)"),
        (inside(TOKEN, None), "its instruction 1 was refused (no reason given)"),
    ],
)
def test_an_error_is_told_in_words_whatever_it_is(error: object, words: str) -> None:
    assert reason_of(error, EACH) == words


def test_what_landed_and_failed_is_told_in_a_sentence() -> None:
    words = failure_words(inside(TOKEN, {"Custom": 1}), EACH)

    assert words == f"The transaction failed on the blockchain: {NO_FUNDS}. Nothing was paid."


def test_a_long_name_is_cut() -> None:
    assert len(error_name("x" * 1000)) == 60


# What the real programs say.


async def error_of(scene: Scene, instruction: Instruction, *signers: Keypair) -> str:
    """What becomes of one instruction on the local chain, in words."""
    raw = await scene.local.signed([instruction], *signers)
    tx_id = await scene.local.send_raw(raw)
    await scene.local.confirm()
    landed = await scene.local.landed(tx_id)
    assert landed is not None
    return reason_of(landed["meta"]["err"], Message.from_bytes(raw[1 + 64 * len(signers) :]))


@pytest.mark.real_time
async def test_the_token_programs_say_so(scene: Scene) -> None:
    buyer, merchant = pubkey(BUYER), pubkey(MERCHANT)
    much = pay_token(buyer, merchant, USDC_MINT, 10**12)
    assert await error_of(scene, much, keypair(BUYER)) == NO_FUNDS
    nowhere = pay_token(buyer, pubkey(99), USDC_MINT, 1)
    assert await error_of(scene, nowhere, keypair(BUYER)) == ACCOUNT_GONE
    await scene.local.give(buyer, USDC_MINT, 5, state=2)
    frozen = pay_token(buyer, merchant, USDC_MINT, 1)
    assert await error_of(scene, frozen, keypair(BUYER)) == FROZEN
    place = token_account(buyer, USDC_MINT, TOKEN)
    await scene.local.put(place, holding_data(pubkey(STRANGER), USDC_MINT, 5), TOKEN)
    assert await error_of(scene, frozen, keypair(BUYER)) == ACCOUNT_TAKEN
    taken = create_holding(buyer, buyer, USDC_MINT)
    assert await error_of(scene, taken, keypair(BUYER)) == ACCOUNT_TAKEN


@pytest.mark.real_time
async def test_the_system_program_says_so(scene: Scene) -> None:
    much = pay_sol(pubkey(BUYER), pubkey(MERCHANT), 10**12)
    assert await error_of(scene, much, keypair(BUYER)) == NO_FUNDS
    await scene.local.fund(pubkey(BUYER), 1_000_000)
    new = create_holding(pubkey(BUYER), pubkey(77), USDC_MINT)

    assert await error_of(scene, new, keypair(BUYER)) == NO_FEE


@pytest.mark.real_time
async def test_who_cannot_pay_the_fee_is_told_so_before_anything_lands(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    for lamports, words in ((894_000, NO_RENT), (1_000, NO_FEE)):
        await scene.local.fund(pubkey(BUYER), lamports)
        verdict = await scene.check(payment, quote, sign(quote))

        assert isinstance(verdict, Refused)
        assert words in verdict.error.message
