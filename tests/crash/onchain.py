"""What a chain shows in the end of the money that a merchant was sent, read without payd's own reading."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from payd.chains.evm.codec import address_of_word
from payd.chains.evm.events import TRANSFER

if TYPE_CHECKING:
    from tests.chains.fake_chain import FakeBlock, FakeTransaction
    from tests.simulation.chain import Chain

NATIVE: Final = "slip44:60"


@dataclass(frozen=True)
class Moved:
    """Money that came to the merchant.

    Attributes:
        place: (transaction, place among its logs), -1 of the coin, as a transfer is named everywhere.
        asset: Canonical CAIP-19.
        recipient: A wallet's address, in lower case.
        there_s: When that was first to be seen in this block: one of a reorg is older by its own time.
        carries: All that the transaction says beside, where it may name payments.
        is_listed: Whether it is among what came to where payments are expected; else only who looks for a
            payment that is open finds it.
    """

    place: tuple[str, int]
    asset: str
    value: int
    sender: str
    recipient: str
    block_number: int
    block_hash: str
    block_time_s: int
    there_s: int
    carries: bytes
    is_listed: bool = True


@dataclass(frozen=True)
class Onchain:
    """A chain, when all is at rest.

    Attributes:
        hashes: Of its blocks, by number.
        times_s: When they were made, by number.
        moved: To merchants, by place.
    """

    hashes: tuple[str, ...]
    times_s: tuple[int, ...]
    moved: dict[tuple[str, int], Moved]

    @classmethod
    def of(cls, chain: Chain, name: str, wallets: Collection[str]) -> Onchain:
        """What the chain shows; `name` is its CAIP-2, `wallets` are addresses in lower case."""
        moved = [
            one
            for block in chain.blocks
            for sent in block.transactions
            for wallet in wallets
            for one in _moved(name, wallet, block, chain.made_s[block.hash], sent)
        ]
        return cls(
            tuple(block.hash for block in chain.blocks),
            tuple(block.time_s for block in chain.blocks),
            {one.place: one for one in moved},
        )


def _moved(name: str, merchant: str, block: FakeBlock, there_s: int, sent: FakeTransaction) -> list[Moved]:
    if sent.status != 1:
        return []
    amounts = [(-1, NATIVE, sent.value, sent.sender)] if sent.to == merchant and sent.value else []
    for place, log in enumerate(sent.logs):
        if log.topics[0] == TRANSFER and address_of_word(log.topics[2]) == merchant:
            sender = address_of_word(log.topics[1])
            assert sender is not None
            amounts.append((place, f"erc20:{log.address}", int.from_bytes(log.data, "big"), sender))
    carried = sent.input + b"".join(topic for log in sent.logs for topic in log.topics)
    return [
        Moved(
            (sent.hash, place),
            f"{name}/{asset}",
            value,
            f"{name}:{sender}",
            merchant,
            block.number,
            block.hash,
            block.time_s,
            there_s,
            carried,
        )
        for place, asset, value, sender in amounts
    ]
