"""The relayer's key: it signs the transactions that carry out what buyers signed, and holds gas money only.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, NamedTuple

import coincurve

from payd.chains.evm.codec import COUNT_MAX, UINT256_MAX, to_data
from payd.chains.evm.signature import address_of_key
from payd.core.caip import to_checksum_address

KEY_BYTES: Final = 32


class SignedTransaction(NamedTuple):
    """A transaction to be broadcast: its hash (lower case) is known before any node has seen it."""

    hash: str
    raw: bytes


class Signer:
    """One key.

    Args:
        key: 32 bytes.

    Attributes:
        address: In lower case.

    Raises:
        ValueError: No key has these bytes.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._key = key
        self.address = address_of_key(coincurve.PrivateKey(key).public_key)

    def __repr__(self) -> str:
        return f"Signer({self.address})"

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be copied to where somebody might keep it."""
        raise TypeError("a key is not pickled")

    def sign(
        self,
        chain_id: int,
        nonce: int,
        to: str,
        data: bytes,
        gas: int,
        max_fee: int,
        tip: int,
        value: int = 0,
    ) -> SignedTransaction:
        """An EIP-1559 transaction; the same arguments make the same bytes.

        Args:
            chain_id: Of `eip155:<chain_id>`; the transaction is worth nothing on any other chain.
            nonce: The account's count of transactions before it.
            to: Contract or account, in lower case.
            data: Calldata.
            gas: Most units of gas that it may use.
            max_fee: Most that a unit of gas may cost, in smallest units of the coin; the tip is a part of it.
            tip: Of that, what the producer of the block gets.
            value: Smallest units of the coin that it moves.

        Raises:
            ValueError: A number is out of bounds, or the tip is more than the fee.
        """
        # Here, because it takes half a second: a server that relays nothing never pays for it.
        from eth_account import Account

        _check(0 < chain_id <= COUNT_MAX, "a chain id that no chain has")
        _check(0 <= nonce <= COUNT_MAX and 0 <= gas <= COUNT_MAX, "a nonce or an amount of gas out of bounds")
        _check(0 <= tip <= max_fee <= UINT256_MAX, "a fee out of bounds, or a tip that is no part of it")
        _check(0 <= value <= UINT256_MAX, "a value out of bounds")
        signed = Account.sign_transaction(
            {
                "type": 2,
                "chainId": chain_id,
                "nonce": nonce,
                "to": to_checksum_address(to),
                "value": value,
                "data": data,
                "gas": gas,
                "maxFeePerGas": max_fee,
                "maxPriorityFeePerGas": tip,
                "accessList": (),
            },
            self._key,
        )
        return SignedTransaction(to_data(signed.hash), bytes(signed.raw_transaction))


def _check(holds: bool, words: str) -> None:
    if not holds:
        raise ValueError(f"the transaction has {words}")
