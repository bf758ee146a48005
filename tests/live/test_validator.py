"""The validator that payments on Solana are tested on starts, executes the real programs, and says so."""

from __future__ import annotations

import pytest

from payd.chains.solana.keys import TOKEN, TOKEN_2022
from tests.live.node_process import Refused
from tests.live.solana import BUYER, LAMPORTS, MERCHANT, MINTED, POOR, keypair, pay_sol, pay_token, pubkey
from tests.live.validator import SIGNATURE_LAMPORTS, running_validator
from tests.live.validator_chain import PYUSD_KEY, USDC_KEY, open_validator_chain

pytestmark = pytest.mark.real_time


def test_each_start_is_a_chain_of_its_own() -> None:
    with running_validator() as first, running_validator() as second:
        assert first.chain != second.chain
        assert (first.ask("getHealth"), second.ask("getHealth")) == ("ok", "ok")


async def test_its_programs_move_what_its_mints_have_issued() -> None:
    async with open_validator_chain() as chain:
        for mint, program in ((USDC_KEY.pubkey(), TOKEN), (PYUSD_KEY.pubkey(), TOKEN_2022)):
            paid = pay_token(pubkey(BUYER), pubkey(MERCHANT), mint, 25, program=program)
            await chain.send([paid], keypair(BUYER))
            held = [await chain.tokens(pubkey(one), mint, program) for one in (BUYER, POOR, MERCHANT)]
            assert held == [MINTED - 25, MINTED, 25]
            too_much = pay_token(pubkey(BUYER), pubkey(MERCHANT), mint, MINTED, program=program)
            with pytest.raises(Refused, match="custom program error: 0x1 "):
                await chain.send([too_much], keypair(BUYER))


async def test_a_signature_costs_what_it_costs_on_the_real_chain() -> None:
    async with open_validator_chain() as chain:
        had = await chain.lamports(pubkey(BUYER))
        tx_id = await chain.send([pay_sol(pubkey(BUYER), pubkey(POOR), LAMPORTS)], keypair(BUYER))
        assert await chain.lamports(pubkey(BUYER)) == had - LAMPORTS - SIGNATURE_LAMPORTS
        status = await chain.status(tx_id)
    assert status is not None
    assert (status["err"], status["confirmationStatus"]) == (None, "finalized")
