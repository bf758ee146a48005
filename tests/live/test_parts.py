"""A fee is taken where there is one, and where it has somewhere to go."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest

from payd.chains.fee_terms import FeeTerms
from payd.config import load
from payd.live.parts import fee_terms_of

FEE: Final = 'percent = "2.5"\nbase_usd = "0.3"\nmandatory = true\n'
TAKEN: Final = (Fraction(25, 1000), Fraction(3, 10))
ADDRESSES = {
    "eip155:8453": "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65",
    "solana:mainnet": "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM",
}


def terms_of(folder: Path, chain: str, fee: str, address: str) -> FeeTerms | None:
    (folder / "payd.toml").write_text(
        f'[[chains]]\nid = "{chain}"\nrpc = ["http://127.0.0.1:9"]\nfee_address = "{address}"\n[fee]\n{fee}'
    )
    config = load(folder / "payd.toml")
    return fee_terms_of(config, config.chains[0])


@pytest.mark.parametrize("chain", ADDRESSES)
def test_a_fee_is_taken_as_it_is_set_and_goes_where_it_is_set(tmp_path: Path, chain: str) -> None:
    found = terms_of(tmp_path, chain, FEE, ADDRESSES[chain])
    assert found == FeeTerms(*TAKEN, ADDRESSES[chain], mandatory=True)


@pytest.mark.parametrize("chain", ADDRESSES)
def test_a_fee_of_nothing_or_that_goes_nowhere_is_none(tmp_path: Path, chain: str) -> None:
    assert terms_of(tmp_path, chain, 'percent = "0"', ADDRESSES[chain]) is None
    assert terms_of(tmp_path, chain, 'percent = "2.5"', "") is None
