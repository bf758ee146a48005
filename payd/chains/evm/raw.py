"""What a signed transaction says, read back from its own bytes, so that nothing is stored twice.

Source: DESIGN.md, "10. Live realm"; EIP-1559.
"""

from __future__ import annotations

from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes


def called_by(raw: bytes) -> tuple[str, bytes]:
    """Target and calldata of a transaction that `Signer` signed; the target in lower case."""
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    return "0x" + bytes(fields["to"]).hex(), bytes(fields["data"])
