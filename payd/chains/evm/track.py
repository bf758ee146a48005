"""What is noted of a commitment on an EVM chain: what will show it, and what may still bring it about.

Frozen with the commitment. A change of the configuration does not change what was committed under it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import msgspec

from payd.chains.defaults import Depth
from payd.chains.following import Notes
from payd.core.payment import Payment, Processing


class Told(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that a node showed.

    Attributes:
        tx_hash: In lower case.
        sender: Who signed it, in lower case.
        nonce: The sender's; None where the sender is not the payer, who can come back with another sender.
        assigned: The merchant named it; nothing in it binds its transfer to the payment.
    """

    tx_hash: str
    sender: str
    nonce: int | None
    assigned: bool = False


class Track(Notes, frozen=True, array_like=True):
    """The notes.

    Attributes:
        bindings: Any of which ties the transfer to the payment.
        depth: How deep it lies when the payment has succeeded.
        token: The contract that knows the authorization; None where none was signed, as the next two.
        nonce: Of the authorization.
        valid_until_s: In chain time: from then on the authorization cannot land.
        told: The transaction that was sent instead; None where something was signed.
    """

    bindings: tuple[bytes, ...]
    depth: Depth
    token: str | None = None
    nonce: bytes | None = None
    valid_until_s: int | None = None
    told: Told | None = None


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
