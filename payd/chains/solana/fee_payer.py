"""The key that pays network fees for buyers on Solana: it holds SOL for that, and nothing else.

It is derived from the relayer's key, so that one keystore and one password serve every chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import hashlib
from typing import Final

from solders.keypair import Keypair

KEY_BYTES: Final = 32


class FeePayer:
    """One ed25519 key.

    Args:
        seed: 32 bytes.

    Attributes:
        address: Its account.

    Raises:
        ValueError: The seed has another length.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._keys = Keypair.from_seed(seed)
        self.address = self._keys.pubkey()

    def __repr__(self) -> str:
        return f"FeePayer({self.address})"

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be copied to where somebody might keep it."""
        raise TypeError("a key is not pickled")

    def sign(self, message: bytes) -> bytes:
        """The signature under a message, 64 bytes; the same message gets the same one.

        Only `budget.py` may ask for it: what is signed costs us at most what was reserved for it.
        """
        return bytes(self._keys.sign_message(message))


def fee_payer_from(keystore_key: bytes) -> FeePayer:
    """The fee payer that belongs to the relayer's key.

    Args:
        keystore_key: 32 bytes.

    Raises:
        ValueError: It has another length.
    """
    return FeePayer(_seed_of(keystore_key))


def exported(keystore_key: bytes) -> str:
    """The fee payer's key as wallets import it: seed and public key, 64 bytes in base58.

    Raises:
        ValueError: The relayer's key has not 32 bytes.
    """
    return str(Keypair.from_seed(_seed_of(keystore_key)))


def _seed_of(keystore_key: bytes) -> bytes:
    if len(keystore_key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes")
    return hashlib.sha256(b"payd:solana:fee-payer:v1:" + keystore_key).digest()
