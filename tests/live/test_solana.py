"""What the operator set for a Solana chain reaches the rooms that heed it."""

from __future__ import annotations

from pathlib import Path

import pytest
from solders.pubkey import Pubkey

from payd.chains.fee_terms import FeeTerms
from payd.chains.keystore import unlock
from payd.chains.solana.chain import SolanaChain
from payd.config import Config, SolanaChainConfig
from payd.live.solana import terms_of
from payd.server import open_house
from tests.live.street import PASSWORD
from tests.live.test_live import SOLANA, SOLANA_CHAIN, configured, live_realm
from tests.live.test_parts import FEE, TAKEN

PAYER = Pubkey.from_string("29d2S7vB453rNYFdR5Ycwt7y9haRT5fwVwL9zTmBhfV2")
OPERATOR = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
LINES = f'''
depth = "finalized"
unit_price_max = 7
gas_per_day = "0.000000009"
relays_per_buyer = 3
fee_address = "{OPERATOR}"
'''


def text_of(lines: str) -> str:
    """The configuration with these lines in its chain."""
    return SOLANA.replace("[relayer]", f"{lines}\n[relayer]")


def chain_of(folder: Path, text: str) -> tuple[Config, SolanaChainConfig]:
    config = configured(folder, text)
    [chain] = config.chains
    assert isinstance(chain, SolanaChainConfig)
    return config, chain


def test_terms_carry_what_the_operator_set(tmp_path: Path) -> None:
    config, chain = chain_of(tmp_path, f"{text_of(LINES)}[fee]\n{FEE}")
    terms = terms_of(config, chain, PAYER)

    assert str(terms.chain) == chain.id
    assert (terms.depth.depth_for(100), terms.sponsor, terms.fee_payer) == ("finalized", True, PAYER)
    assert (terms.price_max, terms.spend_per_day, terms.relays_per_buyer) == (7, 9, 3)
    assert terms.fee == FeeTerms(*TAKEN, OPERATOR, mandatory=True)


@pytest.mark.real_time
async def test_the_fee_payer_is_the_keystores_and_only_where_somebody_is_paid_for(tmp_path: Path) -> None:
    async with open_house(configured(tmp_path, SOLANA)) as house:
        [live] = live_realm(house)
        assert isinstance(live.chain, SolanaChain)
        expected = unlock(tmp_path / "relayer.json", PASSWORD).fee_payer().address
        assert live.chain.terms.fee_payer == expected
        assert live.rpc.posts == 0
    other = SOLANA_CHAIN.replace("TQeX", "UQeX") + "sponsor = false\n"
    async with open_house(configured(tmp_path, other + SOLANA)) as house:
        first, second = live_realm(house)
        assert isinstance(first.chain, SolanaChain)
        assert isinstance(second.chain, SolanaChain)
        assert (first.chain.terms.fee_payer, second.chain.terms.fee_payer) == (None, expected)


@pytest.mark.real_time
async def test_what_buyers_signed_is_submitted_also_where_nobody_is_paid_for(tmp_path: Path) -> None:
    (tmp_path / "inline").mkdir()
    async with open_house(configured(tmp_path, text_of("sponsor = false"))) as house:
        assert live_realm(house)[0].relayer is not None
    async with open_house(configured(tmp_path / "inline", SOLANA), inline=True) as house:
        assert live_realm(house)[0].relayer is None
