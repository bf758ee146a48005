"""What ties a transfer on Solana to its payment: a reference key among its accounts, and a memo.

The reference is a domain-separated hash of the payment's id, which itself never goes on a chain, and the memo
one of the reference. Nobody holds the reference's key, so that it signs nothing; it is there to be found by.
The binding that is watched for is its 32 bytes; a transfer without the memo is not bound. What pays a payment
back has another reference: it is no transfer for that payment, whoever watches for those.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import hashlib

from solders.pubkey import Pubkey


def reference_of(payment_id: str) -> bytes:
    """The binding of a payment: 32 bytes, the key that each transfer for it names among its accounts."""
    return hashlib.sha256(b"payd:solana:reference:v1:" + payment_id.encode()).digest()


def reference_key(payment_id: str) -> Pubkey:
    """The same as an account."""
    return Pubkey(reference_of(payment_id))


def refund_reference_of(payment_id: str) -> bytes:
    """The binding of what pays a payment back: 32 bytes."""
    return hashlib.sha256(b"payd:solana:refund:v1:" + payment_id.encode()).digest()


def memo_of(reference: bytes) -> str:
    """What the memo beside a reference says: 64 hex digits."""
    return hashlib.sha256(b"payd:solana:memo:v1:" + reference).hexdigest()
