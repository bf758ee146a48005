"""Which stored transfer pays a payment, and when the chain is looked at again for it; of every kind of chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from payd.chains.base import Found
from payd.core.payment import Payment, Processing
from payd.store.sightings import Sighting
from payd.store.transfers import Follow


def paying(payment: Payment, matched: Iterable[Sighting], chain: str) -> Sighting | None:
    """The transfer that pays it, on this chain; of several the one that it was told to be paid by."""
    rows = [row for row in matched if row.chain == chain]
    told = None if payment.success is None else payment.success.tx_id
    return next((row for row in rows if row.tx_id == told), next(iter(rows), None))


class Notes(Protocol):
    """What every kind of chain notes of a commitment."""

    @property
    def asset(self) -> str:
        """Canonical CAIP-19."""
        raise NotImplementedError

    @property
    def recipient(self) -> str:
        """Canonical CAIP-10."""
        raise NotImplementedError

    @property
    def value(self) -> str:
        """In smallest units."""
        raise NotImplementedError


def is_committed(
    processing: Processing | None, row: Sighting, notes_of: Callable[[Processing], Notes]
) -> bool:
    """Whether a transfer is what the buyer was committed to.

    It is not where what was seen first was never mined, or a reorg took it, and the buyer paid in another
    asset, maybe on another chain; or where the same was paid to another address that was offered.
    """
    if processing is None or processing.chain != row.chain:
        return False
    notes = notes_of(processing)
    return (row.asset, row.recipient, str(row.value)) == (notes.asset, notes.recipient, notes.value)


def until_final(row: Sighting) -> Follow:
    """Look again when the transfer's block is final."""
    return Follow(row.chain, row.tx_id, block_of(row), "final")


def later(row: Sighting, follow: Follow) -> Found | None:
    """Only the time of the next look, if it is another than what is stored."""
    if (row.awaits, row.look_at) == (follow.awaits, follow.look_at):
        return None
    return Found(None, follow=follow)


def block_of(row: Sighting) -> str:
    """The block that shows it."""
    assert row.block_hash is not None, "the chain shows it"
    return row.block_hash
