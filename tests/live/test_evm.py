"""What the operator set for an EVM chain reaches the rooms that heed it."""

from __future__ import annotations

from pathlib import Path

from payd.chains.fee_terms import FeeTerms
from payd.config import Config, EvmChainConfig
from payd.live.evm import terms_of
from tests.live.street import configuration
from tests.live.test_live import NOBODY, configured
from tests.live.test_parts import FEE, TAKEN

OPERATOR = "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65"


def chain_of(folder: Path, **more: str) -> tuple[Config, EvmChainConfig]:
    config = configured(folder, configuration([NOBODY], **more))
    [chain] = config.chains
    assert isinstance(chain, EvmChainConfig)
    return config, chain


def test_terms_carry_what_the_operator_set(tmp_path: Path) -> None:
    lines = f'depth = 4\nfinal = 9\nfee_address = "{OPERATOR}"'
    terms = terms_of(*chain_of(tmp_path, fee=FEE, lines=lines), "0xABC")

    assert (terms.depth.depth_for(100), terms.final, terms.sponsor, terms.relayer) == (4, 9, True, "0xabc")
    assert terms.fee == FeeTerms(*TAKEN, OPERATOR, mandatory=True)
