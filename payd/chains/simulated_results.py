"""Whether what a wallet handed back has the shape of a result; nothing is verified cryptographically here.

Source: SPEC.md, "Payment option, action and result (gateway)"; DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Final

from payd.chains.simulated_solana import SIGNATURE_BYTES, TRANSACTION_BYTES_MAX, read_compact_u16
from payd.core.errors import InvalidParams
from payd.core.option import Result, WalletRpc

# The longest useful result is a Solana transaction in base64, a third longer than its bytes.
RESULT_CHARS_MAX: Final = 2048

HASH_BYTES: Final = 32
# r, s and v.
EVM_SIGNATURE_BYTES: Final = 65

_HEX: Final = re.compile("0x(?:[0-9a-fA-F]{2})+")


def decode_results(actions: Sequence[WalletRpc], results: Sequence[Result]) -> tuple[bytes, ...]:
    """The bytes of each result: hex, or base64 where its action is of Solana.

    Args:
        actions: As many as results.
        results: What the wallet handed back.

    Raises:
        InvalidParams: A result is not one string, or the string is too long or not in its encoding.
    """
    pairs = zip(actions, results, strict=True)
    return tuple(_decode(place, action, result) for place, (action, result) in enumerate(pairs))


def fits(action: WalletRpc, data: bytes) -> bool:
    """Whether `data` has the shape of a result of the action."""
    match action.method:
        case "eth_sendTransaction":
            return len(data) == HASH_BYTES
        case "solana_signTransaction":
            return _is_signed_transaction(data)
        case _:
            return len(data) == EVM_SIGNATURE_BYTES


def _decode(place: int, action: WalletRpc, result: Result) -> bytes:
    text = result.data[0] if len(result.data) == 1 else None
    if not isinstance(text, str) or len(text) > RESULT_CHARS_MAX:
        raise InvalidParams(
            f"results[{place}].data must hold one string of at most {RESULT_CHARS_MAX} characters."
        )
    if action.method == "solana_signTransaction":
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if not data:
            raise InvalidParams(f"results[{place}].data must hold the signed transaction in base64.")
        return data
    if _HEX.fullmatch(text) is None:
        raise InvalidParams(
            f"results[{place}].data must hold hex digits after 0x: a signature or a transaction hash."
        )
    return bytes.fromhex(text[2:])


def _is_signed_transaction(data: bytes) -> bool:
    if len(data) > TRANSACTION_BYTES_MAX:
        return False
    found = read_compact_u16(data)
    if found is None:
        return False
    count, start = found
    return count >= 1 and len(data) > start + count * SIGNATURE_BYTES
