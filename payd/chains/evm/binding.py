"""What ties a transfer on an EVM chain to its payment: 32 bytes that only payd can have handed out.

The payment's id is a capability and never goes on a chain; a hash of it does. `proof.py` reads them back.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Literal

from payd.chains.evm.codec import WORD_BYTES, address_of_word, keccak256, word_of_address, word_of_uint

Leg = Literal["main", "fee"]

# What tells the authorizations of one buyer apart.
NONCE_KEY_BYTES: Final = 24

# The first four bytes of keccak256 of `transfer(address,uint256)`.
TRANSFER_SELECTOR: Final = bytes.fromhex("a9059cbb")
TRANSFER_BYTES: Final = len(TRANSFER_SELECTOR) + 2 * WORD_BYTES

# Tags that are read in one transaction. More transfers than fit a transaction of 128 KiB, Ethereum's largest.
TAGS_MAX: Final = 2000


def payment_tag(payment_id: str) -> bytes:
    """What follows the calldata of a wallet-sent transfer: 32 bytes."""
    return keccak256(f"payd:tag:v1:{payment_id}".encode())


def authorization_nonce(payment_id: str, leg: Leg = "main") -> bytes:
    """The EIP-3009 nonce of a payment's leg: 32 bytes.

    One, however often the buyer signs: the token carries out at most one of those authorizations. Its last 8
    bytes are zero, because some tokens (OpenZeppelin's) take them for a sequence that begins there.
    """
    return keccak256(f"payd:eip3009:v1:{payment_id}:{leg}".encode())[:NONCE_KEY_BYTES] + bytes(8)


def transfer_call(to: str, value: int) -> bytes:
    """Calldata of `transfer(to, value)`."""
    return TRANSFER_SELECTOR + word_of_address(to) + word_of_uint(value)


def tagged_transfer(to: str, value: int, tag: bytes) -> bytes:
    """Calldata of a transfer with a tag after it, which tokens do not read."""
    if len(tag) != WORD_BYTES:
        raise ValueError("a tag has 32 bytes")
    return transfer_call(to, value) + tag


def tags_in(data: bytes, to: str, value: int) -> list[bytes]:
    """The 32 bytes behind each `transfer(to, value)` anywhere in `data`, in order; see `tagged_calls`."""
    return tagged_calls(data).get((to, value), [])


def tagged_calls(data: bytes) -> dict[tuple[str, int], list[bytes]]:
    """Every `transfer` with 32 bytes behind it: the possible tags by recipient and value, in order.

    A smart wallet wraps the call in calldata of its own, at any offset, so that each place is looked at. Most
    of what follows a call that has no tag is zeros or the wallet's next words; a caller keeps what it knows.
    """
    found: dict[tuple[str, int], list[bytes]] = {}
    count, at = 0, data.find(TRANSFER_SELECTOR)
    while at >= 0 and count < TAGS_MAX:
        end = at + TRANSFER_BYTES
        tag = data[end : end + WORD_BYTES]
        to = address_of_word(data[at + len(TRANSFER_SELECTOR) : end - WORD_BYTES])
        if to is not None and len(tag) == WORD_BYTES:
            value = int.from_bytes(data[end - WORD_BYTES : end], "big")
            found.setdefault((to, value), []).append(tag)
            count += 1
        at = data.find(TRANSFER_SELECTOR, at + 1)
    return found
