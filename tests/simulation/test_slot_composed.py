"""What buyers under a seed put together lands, and pays the merchant what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from payd.chains.solana.binding import memo_of, reference_key
from payd.chains.solana.keys import token_account
from tests.live.solana import (
    BUYER,
    BUYER_2,
    MERCHANT,
    MINTS,
    PYUSD_MINT,
    USDC_MINT,
    address,
    keypair,
    pay_by_link,
    pubkey,
    tx_id_of,
)
from tests.live.svm_ledger import Landing
from tests.shop import START_MS
from tests.simulation.slot_buyers import transaction
from tests.simulation.slot_composed import (
    Asked,
    and_close,
    asked_in,
    by_another_program,
    by_closing,
    in_two_parts,
    table_of,
    to_another_account,
    with_other_memos,
)
from tests.simulation.slots import Slots
from tests.simulation.solana_live import TOKENS, furnish_chain, moved_by

NEW = 100
REFERENCE = reference_key("pay_l1")
LINK = f"solana:{address(MERCHANT)}?amount=12.5&reference={REFERENCE}&memo={memo_of(bytes(REFERENCE))}"


@pytest.fixture
async def chain() -> Slots:
    made = Slots(Random(1), lambda: START_MS // 1000)
    made.is_calm = True
    await furnish_chain(made)
    return made


def asked_for(mint: Pubkey | None = USDC_MINT) -> Asked:
    return asked_in(LINK if mint is None else f"{LINK}&spl-token={mint}")


def landed(chain: Slots, instructions: Sequence[Instruction], *others: int) -> Landing:
    fresh = Hash.from_string(chain.at("confirmed").hash)
    return sent(chain, transaction(instructions, *map(keypair, (BUYER, *others)), fresh=fresh))


def sent(chain: Slots, raw: bytes) -> Landing:
    chain.send(raw)
    for _ in range(20):
        chain.tick()
    return chain.landed[tx_id_of(raw)]


def paid(landing: Landing) -> list[tuple[int, bool, bool]]:
    """Of what was asked in: value, whether it names the payment, and whether it is listed."""
    assert landing.err is None
    return [
        (one.value, bytes(REFERENCE) in one.carries, one.is_listed) for one in moved_by(landing, MERCHANT)
    ]


@pytest.mark.parametrize("mint", [*MINTS, None])
@pytest.mark.parametrize("seed", range(4))
async def test_two_transfers_are_one_payment(chain: Slots, mint: Pubkey | None, seed: int) -> None:
    asked = asked_for(mint)
    assert paid(landed(chain, in_two_parts(asked, pubkey(BUYER), Random(seed)))) == [
        (asked.units, True, True)
    ]


async def test_some_memos_name_the_payment_and_some_do_not(chain: Slots) -> None:
    asked = asked_for()
    said = [paid(landed(chain, with_other_memos(asked, pubkey(BUYER), Random(seed)))) for seed in range(12)]
    assert [(asked.units, True, True)] in said
    assert [(asked.units, False, True)] in said


@pytest.mark.parametrize("mint", MINTS)
async def test_another_program_brings_tokens(chain: Slots, mint: Pubkey) -> None:
    asked = asked_for(mint)
    landing = landed(chain, by_another_program(asked, pubkey(BUYER)), MERCHANT)
    assert paid(landing)[0] == (asked.units, True, True)
    [*_, last] = landing.meta.inner_instructions()
    assert last


async def test_a_closed_account_brings_sol(chain: Slots) -> None:
    asked = asked_for(None)
    assert paid(landed(chain, by_closing(asked, pubkey(BUYER), pubkey(NEW)), NEW)) == [
        (asked.units, True, True)
    ]


@pytest.mark.parametrize("mint", MINTS)
async def test_what_comes_to_another_account_is_the_merchants_and_not_listed(
    chain: Slots, mint: Pubkey
) -> None:
    asked = asked_for(mint)
    assert paid(landed(chain, to_another_account(asked, pubkey(BUYER)))) == [(asked.units, True, False)]


@pytest.mark.parametrize("mint", MINTS)
async def test_a_payer_may_close_their_account(chain: Slots, mint: Pubkey) -> None:
    asked, payer = asked_for(mint), pubkey(BUYER)
    closes = and_close(mint, asked.program, payer, TOKENS - asked.units, pubkey(BUYER_2))
    pays = asked.pays(payer, asked.units, *asked.references)
    assert paid(landed(chain, [*asked.says(), pays, *closes])) == [(asked.units, True, True)]
    gone = chain.account(token_account(payer, mint, asked.program))
    assert gone is None or not gone.data


async def test_whom_a_payment_names_may_stand_in_a_table(chain: Slots) -> None:
    instructions = pay_by_link(f"{LINK}&spl-token={PYUSD_MINT}", pubkey(BUYER))
    named = {one.pubkey: None for asked in instructions for one in asked.accounts}
    table, account = table_of(pubkey(NEW), list(named))
    chain.put(table.key, account)
    fresh = Hash.from_string(chain.at("confirmed").hash)
    landing = sent(chain, transaction(instructions, keypair(BUYER), fresh=fresh, tables=[table]))
    assert landing.loaded == (2, 2)
    assert paid(landing) == [(12_500_000, True, True)]
