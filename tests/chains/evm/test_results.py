"""What wallets hand back on an EVM chain: one hex text, or it is unusable."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.evm.results import SIGNATURE_BYTES_MAX, read_signature, read_tx_hash
from payd.core.errors import InvalidParams
from payd.core.option import Result

HASH = "0x" + "aB" * 32

UNUSABLE = [[], [7], [None], [["0x00"]], ["no hex"], [""], ["0x"], ["0x0"], ["0xzz"], ["0x00", "0x00"], [{}]]


def result(*data: Any) -> Result:
    return Result("walletRpc", list(data))


@pytest.mark.parametrize("length", [1, 64, 65, 300, SIGNATURE_BYTES_MAX])
def test_a_signature_is_bytes_of_any_form(length: int) -> None:
    assert read_signature(result("0x" + "1f" * length)) == b"\x1f" * length


@pytest.mark.parametrize("data", [*UNUSABLE, ["0x" + "00" * (SIGNATURE_BYTES_MAX + 1)]])
def test_anything_else_is_no_signature(data: list[Any]) -> None:
    with pytest.raises(InvalidParams):
        read_signature(result(*data))


def test_a_transaction_hash_is_read_in_lower_case() -> None:
    assert read_tx_hash(result(HASH)) == HASH.lower()


@pytest.mark.parametrize("data", [*UNUSABLE, ["0x00"], [HASH[:-1]], [HASH + "0"], [HASH[2:]], [HASH, HASH]])
def test_anything_else_is_no_transaction_hash(data: list[Any]) -> None:
    with pytest.raises(InvalidParams):
        read_tx_hash(result(*data))
