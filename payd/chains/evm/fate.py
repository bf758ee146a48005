"""What became of transactions whose nonces the chain has counted: by the word of each node that is asked.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from payd.chains.evm.answers import Receipt, decode_receipt
from payd.chains.evm.codec import from_count
from payd.chains.rpc import Call, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results


class Sought(msgspec.Struct, frozen=True):
    """A nonce of the sender, and the hashes of all that was signed for it."""

    nonce: int
    hashes: tuple[str, ...]


Word: TypeAlias = Receipt | Literal["behind", "taken"]
"""behind: the node has not come that far. taken: something else used the nonce, as far as the node knows."""


async def fates(
    rpc: Rpc, sender: str, sought: Sequence[Sought], *, at_most: int | None
) -> list[tuple[Word, ...]]:
    """For each that is sought, what every node says that answers.

    Args:
        rpc: The nodes.
        sender: The account.
        sought: One batch for each node.
        at_most: How many nodes; None: all that are healthy.

    Raises:
        NodesDown: None gave an answer that can be read.
    """
    calls: list[Call] = [("eth_getTransactionCount", sender, "latest")]
    calls += [("eth_getTransactionReceipt", one) for each in sought for one in each.hashes]
    answers = await rpc.ask_all(calls, at_most=at_most)
    said = [words for _, results in answers if (words := _read(results, sought)) is not None]
    if not said:
        raise NodesDown("no node says what became of the relayer's transactions")
    return list(zip(*said, strict=True))


def _read(results: Results, sought: Sequence[Sought]) -> list[Word] | None:
    """One node's words; None where it is no answer."""
    try:
        count = from_count(results[0])
        receipts = [decode_receipt(result) for result in results[1:]]
    except BadAnswer:
        return None
    words: list[Word] = []
    for each in sought:
        own, receipts = receipts[: len(each.hashes)], receipts[len(each.hashes) :]
        mined = next(
            (
                one
                for one, hash in zip(own, each.hashes, strict=True)
                if one is not None and one.tx_hash == hash
            ),
            None,
        )
        words.append(mined or ("taken" if count > each.nonce else "behind"))
    return words


def agreed(words: Sequence[Word]) -> Word | None:
    """What all nodes say that have come that far; "behind" where none has; None where they contradict."""
    said = [word for word in words if word != "behind"]
    if not said:
        return "behind"
    return said[0] if all(_gist(word) == _gist(said[0]) for word in said) else None


def likeliest(words: Sequence[Word]) -> Word:
    """What to believe of nodes that go on contradicting each other.

    One that shows a receipt knows more than one that does not; of two receipts, the one that more show, and
    of as many the one that was reverted: what is tried again in vain costs less than what is not.
    """
    receipts = [word for word in words if isinstance(word, Receipt)]
    if not receipts:
        return "taken" if "taken" in words else "behind"
    gists = [_gist(one) for one in receipts]
    return max(receipts, key=lambda one: (gists.count(_gist(one)), one.status == 0))


def cost_of(receipt: Receipt, words: Sequence[Word], gas_max: int, max_fee: int) -> int:
    """What a mined transaction cost its sender, by the node that makes it least.

    No word makes gas dearer than what was signed, and where none names a price it is that.

    Args:
        receipt: What is believed of it.
        words: What every node says.
        gas_max: Units of gas that it had at most.
        max_fee: What a unit cost at most.
    """
    return min(
        min(one.gas_used, gas_max) * min(one.gas_price or max_fee, max_fee) + one.l1_fee
        for one in words
        if isinstance(one, Receipt) and _gist(one) == _gist(receipt)
    )


def _gist(word: Word) -> object:
    return (word.tx_hash, word.block_hash, word.status) if isinstance(word, Receipt) else word
