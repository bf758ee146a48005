"""What a wallet hands back for the actions of an EVM chain: one hex text each.

Source: SPEC.md, "Payment option, action and result (gateway)".
"""

from __future__ import annotations

from typing import Final

from payd.chains.evm.codec import from_data, from_hash
from payd.chains.rpc_errors import BadAnswer
from payd.core.errors import InvalidParams
from payd.core.option import Result

# A passkey's signature has some 700 bytes, one of many owners some thousand.
SIGNATURE_BYTES_MAX: Final = 8192


def read_signature(result: Result) -> bytes:
    """The signature, in whatever form the wallet has.

    Raises:
        InvalidParams: It is no hex, or longer than any signature.
    """
    text = _only(result, "a signature")
    try:
        signature = from_data(text)
    except BadAnswer as bad:
        raise InvalidParams("The result of eth_signTypedData_v4 is a signature: 0x and hex digits.") from bad
    if not 0 < len(signature) <= SIGNATURE_BYTES_MAX:
        raise InvalidParams(f"A signature has 1 to {SIGNATURE_BYTES_MAX} bytes.")
    return signature


def read_tx_hash(result: Result) -> str:
    """The transaction's hash, in lower case.

    Raises:
        InvalidParams: It is none.
    """
    try:
        return from_hash(_only(result, "a transaction hash"))
    except BadAnswer as bad:
        raise InvalidParams(
            "The result of eth_sendTransaction is the transaction's hash: 0x and 64 hex digits."
        ) from bad


def _only(result: Result, what: str) -> object:
    if len(result.data) != 1:
        raise InvalidParams(f"A result is a list with {what} and nothing else.")
    return result.data[0]
