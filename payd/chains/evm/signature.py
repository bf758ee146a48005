"""Forms in which wallets hand over signatures, and what an account's code says about who signs for it.

Source: DESIGN.md, "10. Live realm"; EIP-2098; ERC-6492; EIP-7702.
"""

from __future__ import annotations

from typing import Final

import coincurve

from payd.chains.evm.codec import ADDRESS_BYTES, WORD_BYTES, keccak256, to_data

SIGNATURE_BYTES: Final = 65
COMPACT_BYTES: Final = 64

_V_OFFSET: Final = 27
_SIGN_BIT: Final = 1 << 255
_MAGIC_6492: Final = bytes.fromhex("6492" * 16)
_DELEGATION: Final = bytes.fromhex("ef0100")


def normalise_signature(signature: bytes) -> bytes:
    """The signature as r, s and v in 65 bytes with v 27 or 28, as `ecrecover` and tokens take it.

    The compact form of EIP-2098 is unfolded, v 0 or 1 is raised. Anything else is left as it is: a smart
    wallet's signature may be any bytes.
    """
    if len(signature) == COMPACT_BYTES:
        s = int.from_bytes(signature[WORD_BYTES:], "big")
        parity = s >> 255
        return signature[:WORD_BYTES] + (s & ~_SIGN_BIT).to_bytes(WORD_BYTES, "big") + _v(parity)
    if len(signature) == SIGNATURE_BYTES and signature[-1] in (0, 1):
        return signature[:-1] + _v(signature[-1])
    return signature


def recover_signer(digest: bytes, signature: bytes) -> str | None:
    """The address whose key signed the digest, in lower case; None where no key did.

    Args:
        digest: 32 bytes.
        signature: In a form that `normalise_signature` knows.
    """
    normal = normalise_signature(signature)
    if len(normal) != SIGNATURE_BYTES or normal[-1] not in (_V_OFFSET, _V_OFFSET + 1):
        return None
    recoverable = normal[:-1] + bytes([normal[-1] - _V_OFFSET])
    try:
        key = coincurve.PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
    except ValueError:
        return None
    return address_of_key(key)


def address_of_key(key: coincurve.PublicKey) -> str:
    """The address of a public key, in lower case."""
    return to_data(keccak256(key.format(compressed=False)[1:])[-ADDRESS_BYTES:])


def is_6492(signature: bytes) -> bool:
    """Whether it is a wrapped signature of a wallet that is not deployed yet (ERC-6492)."""
    return signature.endswith(_MAGIC_6492)


def delegation_of(code: bytes) -> str | None:
    """The contract that an EIP-7702 account lets act for it; None where the code is no such pointer."""
    if len(code) != len(_DELEGATION) + ADDRESS_BYTES or not code.startswith(_DELEGATION):
        return None
    return to_data(code[len(_DELEGATION) :])


def _v(parity: int) -> bytes:
    return bytes([_V_OFFSET + parity])
