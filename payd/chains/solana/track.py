"""What is noted of a commitment on Solana: what will show it, and what may still bring it about.

Frozen with the commitment. A change of the configuration does not change what was committed under it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import msgspec

from payd.chains.following import Notes
from payd.chains.solana.terms import Commitment
from payd.core.payment import Payment, Processing


class Track(Notes, frozen=True, array_like=True):
    """The notes.

    Attributes:
        reference: The binding that its transaction carries, 32 bytes.
        depth: The commitment at which the payment has succeeded.
        tx_id: The transaction that pays: what we were given to bring, or what the chain showed first.
        valid_until_height: The last block height at which that can land; None: the chain showed it first.
        assigned: The merchant named the transaction; nothing in it has to bind it to the payment.
    """

    reference: bytes
    depth: Commitment
    tx_id: str
    valid_until_height: int | None = None
    assigned: bool = False


def read_track(payment: Payment) -> Track:
    """The notes of a payment that has them.

    Raises:
        msgspec.DecodeError: They are of another kind of chain.
    """
    assert payment.processing is not None
    return notes_of(payment.processing)


def notes_of(processing: Processing) -> Track:
    """The notes of a commitment on this kind of chain.

    Raises:
        msgspec.DecodeError: It is on another kind.
    """
    return msgspec.msgpack.decode(processing.track, type=Track)
