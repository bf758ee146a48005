"""How far a payment's transfer has come on its chain, and where anybody can look at it.

Only what the watcher has stored is shown: asking a node for each reload of a page would be for strangers to
make expensive.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from payd.chains.base import CountsBlocks
from payd.chains.following import paying
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.chain_cursors import find_cursor
from payd.store.sightings import matched_of
from payd.web.house import Realm

EXPLORERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "eip155:1": "https://etherscan.io/tx/{}",
        "eip155:10": "https://optimistic.etherscan.io/tx/{}",
        "eip155:56": "https://bscscan.com/tx/{}",
        "eip155:137": "https://polygonscan.com/tx/{}",
        "eip155:8453": "https://basescan.org/tx/{}",
        "eip155:42161": "https://arbiscan.io/tx/{}",
        "eip155:43114": "https://snowtrace.io/tx/{}",
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": "https://explorer.solana.com/tx/{}",
        "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "https://explorer.solana.com/tx/{}?cluster=devnet",
        "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z": "https://explorer.solana.com/tx/{}?cluster=testnet",
    }
)
"""Where the public looks at a transaction, by CAIP-2. Of other networks nothing is linked."""

_TX_ID: Final = re.compile("0x[0-9a-fA-F]{64}|[1-9A-HJ-NP-Za-km-z]{64,88}")


class Explorer(msgspec.Struct, frozen=True):
    """A page about a transaction, of somebody else; `host` is what the buyer is told."""

    url: str
    host: str


class Progress(msgspec.Struct, frozen=True):
    """Where a transfer stands.

    Attributes:
        tx_id: Of the transaction that the chain shows; None: it shows none yet.
        done: Blocks that confirm it, at most `depth`.
        depth: How many are waited for; None where it is no number.
    """

    tx_id: str | None = None
    done: int = 0
    depth: int | None = None


def progress_of(realm: Realm, payment: Payment) -> Progress:
    """How far a payment that was sent has come, as far as its chain was read."""
    if payment.success is not None:
        return Progress(payment.success.tx_id)
    if payment.status is not Status.PROCESSING or payment.processing is None or not realm.live:
        return Progress()
    name = payment.processing.chain
    row = paying(payment, realm.db.point(matched_of, payment.id), name)
    chain, head = realm.payments.chain_of(name), realm.db.point(find_cursor, name, "head")
    depth = chain.depth_of(payment) if isinstance(chain, CountsBlocks) else None
    if row is None or head is None or depth is None:
        return Progress(None if row is None else row.tx_id, 0, depth)
    return Progress(row.tx_id, min(max(0, head.number - row.block_number + 1), depth), depth)


def explorer_of(chain: str, tx_id: str) -> Explorer | None:
    """Where to look at a transaction; None on networks without a known explorer, and in tests."""
    pattern = EXPLORERS.get(chain)
    if pattern is None or not _TX_ID.fullmatch(tx_id):
        return None
    return Explorer(pattern.format(tx_id), pattern.split("/")[2])
