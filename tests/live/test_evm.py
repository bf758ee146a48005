"""What the operator set for an EVM chain reaches the rooms that heed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.actors.block_walk import BlockWalk
from payd.actors.relayer import Relayer
from payd.chains.fee_terms import FeeTerms
from payd.config import Config, EvmChainConfig
from payd.core.relay import RelayLimits
from payd.live.evm import terms_of
from payd.server import open_house
from tests.live.street import configuration
from tests.live.test_live import NOBODY, configured, live_realm
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


@pytest.mark.real_time
async def test_what_a_relayer_may_spend_and_how_nodes_are_read_is_what_the_operator_set(
    tmp_path: Path,
) -> None:
    lines = 'max_fee_gwei = "7"\ngas_per_day = "0.5"\nfinal = 9'
    text = configuration([NOBODY], lines=lines, poll_ms="300", relays="12")
    async with open_house(configured(tmp_path, text)) as house:
        [chain] = live_realm(house)
        relayer, walk = chain.relayer, chain.watcher._walk

        assert isinstance(relayer, Relayer)
        assert relayer._limits == RelayLimits(7 * 10**9, 5 * 10**17, 12, bump_after_ms=15_000)
        assert isinstance(walk, BlockWalk)
        assert (walk._final, chain.watcher._poll_s) == (9, 0.3)
