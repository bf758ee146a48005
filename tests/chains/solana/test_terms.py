"""The operator's terms of a Solana chain."""

from __future__ import annotations

from payd.chains.defaults import DepthPolicy
from payd.chains.solana.terms import ETA_S, Terms
from payd.core.caip import ChainId


def test_the_genesis_of_a_chain_begins_as_its_id_says() -> None:
    chain = ChainId("solana", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")

    assert Terms(chain, DepthPolicy.of("finalized")).genesis == "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"


def test_what_cannot_be_undone_takes_longer() -> None:
    assert ETA_S["finalized"] > ETA_S["confirmed"]
