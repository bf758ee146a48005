"""The key that pays network fees: derived from the relayer's, known by its address only."""

from __future__ import annotations

import pickle

import pytest
from solders.signature import Signature

from payd.chains.solana.fee_payer import FeePayer, fee_payer_from

KEY = bytes(range(1, 33))


def test_one_keystore_has_one_address_on_solana_for_ever() -> None:
    assert str(fee_payer_from(KEY).address) == "GEZk2qpLeHd6rCyHSU3GaTLPTukAqL8LRERwVjZK9qTi"
    assert fee_payer_from(KEY).address != fee_payer_from(bytes(31) + b"\1").address


def test_what_is_known_of_one_key_says_nothing_of_the_other() -> None:
    # The seed is a hash of the relayer's key: not the key itself, and not a key of any other purpose.
    assert fee_payer_from(KEY).address != FeePayer(KEY).address


def test_its_signature_is_of_its_address_and_always_the_same() -> None:
    payer = fee_payer_from(KEY)
    signature = payer.sign(b"message")

    assert signature == payer.sign(b"message")
    assert Signature.from_bytes(signature).verify(payer.address, b"message")
    assert not Signature.from_bytes(signature).verify(payer.address, b"another")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        fee_payer_from(bytes(length))
    with pytest.raises(ValueError, match="32 bytes"):
        FeePayer(bytes(length))


def test_the_key_is_neither_shown_nor_copied() -> None:
    payer = fee_payer_from(KEY)

    assert repr(payer) == f"FeePayer({payer.address})"
    with pytest.raises(TypeError):
        pickle.dumps(payer)
