"""What a signed transaction calls is read from its bytes."""

from __future__ import annotations

import pytest

from payd.chains.evm.raw import called_by
from payd.chains.evm.signer import Signer


@pytest.mark.parametrize("data", [b"", b"\0", b"\x01" * 5, bytes(range(256)) * 5])
def test_the_call_is_the_one_that_was_signed(data: bytes) -> None:
    to = "0x00" + "ab" * 19
    signed = Signer(b"\x01" * 32).sign(8453, 0, to, data, 100_000, 10**9, 10**8)
    assert called_by(signed.raw) == (to, data)
