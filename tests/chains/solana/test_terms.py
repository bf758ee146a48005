"""The operator's terms of a Solana chain."""

from __future__ import annotations

from payd.chains.solana.terms import ETA_S


def test_what_cannot_be_undone_takes_longer() -> None:
    assert ETA_S["finalized"] > ETA_S["confirmed"]
