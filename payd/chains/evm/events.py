"""The two events of tokens that prove a payment: a transfer, and a used authorization.

Source: DESIGN.md, "10. Live realm"; EIP-20; EIP-3009.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from payd.chains.evm.answers import Log
from payd.chains.evm.codec import WORD_BYTES, address_of_word

# keccak256 of `Transfer(address,address,uint256)` and of `AuthorizationUsed(address,bytes32)`.
TRANSFER: Final = bytes.fromhex("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
AUTHORIZATION_USED: Final = bytes.fromhex("98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5")


class TokenTransfer(NamedTuple):
    """What a token says it moved. Addresses in lower case; `value` in the token's smallest units."""

    token: str
    sender: str
    recipient: str
    value: int


class UsedAuthorization(NamedTuple):
    """An EIP-3009 authorization that a token carried out, and its nonce of 32 bytes."""

    token: str
    authorizer: str
    nonce: bytes


def decode_transfer(log: Log) -> TokenTransfer | None:
    """The transfer that the log tells of; None where it tells of something else.

    A transfer of a non-fungible token has the same topic, but four of them.
    """
    if len(log.topics) != 3 or log.topics[0] != TRANSFER or len(log.data) != WORD_BYTES:
        return None
    sender, recipient = address_of_word(log.topics[1]), address_of_word(log.topics[2])
    if sender is None or recipient is None:
        return None
    return TokenTransfer(log.address, sender, recipient, int.from_bytes(log.data, "big"))


def decode_used_authorization(log: Log) -> UsedAuthorization | None:
    """The authorization that the log tells of; None where it tells of something else."""
    if len(log.topics) != 3 or log.topics[0] != AUTHORIZATION_USED or log.data:
        return None
    authorizer = address_of_word(log.topics[1])
    return None if authorizer is None else UsedAuthorization(log.address, authorizer, log.topics[2])
