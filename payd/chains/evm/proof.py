"""What a mined transaction paid, and for which payment: transfers out of its receipt, each with its binding.

A receipt's status proves only that nothing was reverted; its `Transfer` logs say what moved. What binds a
transfer to a payment is an authorization that the token carried out, or a tag in the calldata. Two rules keep
one transfer from paying for two payments, and one's own payment from being paid by somebody else's transfer:

- An authorization is the word of the payer and of the token: its transfer takes no tag. Authorizations are
  paired with all transfers of their token, not only with those that are watched.
- A tag is the word of whoever sent the transaction. Where that is not the payer, as with bundlers of smart
  wallets, and more payments claim a sum than were paid with it, none of them gets it. What was minted has no
  payer, and takes none: a bridge mints for whoever brings it its message, and with whatever behind it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgspec

from payd.chains.base import SeenTransfer
from payd.chains.evm.answers import Receipt, Transaction
from payd.chains.evm.binding import TRANSFER_BYTES, TRANSFER_SELECTOR, tagged_calls
from payd.chains.evm.codec import WORD_BYTES, ZERO_ADDRESS, word_of_address
from payd.chains.evm.events import decode_transfer, decode_used_authorization
from payd.chains.rpc_errors import BadAnswer
from payd.core.caip import AccountId, AssetId, ChainId

# The place of a native transfer, which has no log.
NATIVE_LOG_INDEX: Final = -1

# Each is looked up, and whoever sends a transaction chooses what is in it.
CANDIDATES_MAX: Final = 1000

Known: TypeAlias = Set[tuple[bytes, str]]
"""Bindings that were handed out, each with the canonical asset that it was handed out for."""


class Watched(msgspec.Struct, frozen=True):
    """What is looked for on a chain. Addresses in lower case; `native` is the coin's canonical CAIP-19."""

    tokens: Set[str]
    destinations: Set[str]
    native: str | None = None


class BoundTransfer(SeenTransfer, frozen=True):
    """A transfer to a watched destination, where it stands, and what binds it to a payment, if anything does.

    `tx_id` is in lower case. `log_index` is the place among the logs of its own transaction, which a reorg
    does not change.
    """

    block_number: int
    block_hash: str
    binding: bytes | None = None


class _Moved(NamedTuple):
    """A transfer to a watched destination, at its place in the receipt; `token` is None for the coin."""

    place: int
    asset: str
    token: str | None
    sender: str
    recipient: str
    value: int


def candidate_bindings(
    chain: ChainId, transaction: Transaction, receipt: Receipt, watched: Watched
) -> tuple[bytes, ...]:
    """What could bind a transfer of the transaction to a payment; to be looked up, for `paid_by`.

    Most are nobody's binding. Without doubles, and `CANDIDATES_MAX` at most.

    Raises:
        BadAnswer: The receipt is of another transaction.
    """
    moved = _moved(chain, transaction, receipt, watched)
    authorized = _authorized(receipt)
    sums = {(one.recipient, one.value) for one in moved}
    found = [nonce for one in moved if (nonce := authorized.get(one.place)) is not None]
    found += [tag for one in moved if (tag := _own_tag(transaction, one)) is not None]
    for call, tags in tagged_calls(transaction.input).items():
        found += tags if call in sums else []
    return tuple(islice(dict.fromkeys(found), CANDIDATES_MAX))


def paid_by(
    chain: ChainId,
    transaction: Transaction,
    receipt: Receipt,
    watched: Watched,
    known: Known,
    at: int | None = None,
) -> tuple[BoundTransfer, ...]:
    """Every transfer of a watched asset to a watched destination: the coin, then tokens as in the receipt.

    No binding is on two of them, and each is known for the asset of its transfer.

    Args:
        chain: Canonical.
        transaction: What was sent.
        receipt: What it did.
        watched: What is looked for.
        known: The bindings that count.
        at: The place where a tag was found when all counted: of transfers of one sum, those of other
            payments may come first.

    Raises:
        BadAnswer: The receipt is of another transaction.
    """
    moved = _moved(chain, transaction, receipt, watched)
    bindings = _bindings(transaction, moved, _authorized(receipt), known, at)
    return tuple(
        BoundTransfer(
            chain=str(chain),
            tx_id=receipt.tx_hash,
            log_index=one.place,
            asset=one.asset,
            value=one.value,
            sender=str(AccountId(chain, one.sender)),
            recipient=str(AccountId(chain, one.recipient)),
            block_number=receipt.block_number,
            block_hash=receipt.block_hash,
            binding=bindings.get(one.place),
        )
        for one in moved
    )


def _moved(chain: ChainId, transaction: Transaction, receipt: Receipt, watched: Watched) -> list[_Moved]:
    """What moved to watched destinations. Nothing is paid by nothing, nor by a destination to itself."""
    if transaction.hash != receipt.tx_hash:
        raise BadAnswer(f"the receipt of {receipt.tx_hash} was given for {transaction.hash}")
    if receipt.status != 1:
        return []
    found = []
    if transaction.to is not None and watched.native is not None:
        sender, to, value = transaction.sender, transaction.to, transaction.value
        found.append(_Moved(NATIVE_LOG_INDEX, watched.native, None, sender, to, value))
    for place, log in enumerate(receipt.logs):
        if log.address in watched.tokens and not log.removed and (transfer := decode_transfer(log)):
            token, sender, to, value = transfer
            asset = str(AssetId(chain, "erc20", token))
            found.append(_Moved(place, asset, token, sender, to, value))
    return [
        one
        for one in found
        if one.recipient in watched.destinations and one.value > 0 and one.sender != one.recipient
    ]


class _Told(NamedTuple):
    """What a token told of one payer, at its place: a used authorization, or a transfer, without a nonce."""

    place: int
    nonce: bytes | None
    value: int = 0


def _authorized(receipt: Receipt) -> dict[int, bytes | None]:
    """Nonces by the places of the transfers that their authorizations made; None where that cannot be told.

    A token tells of an authorization right before its transfer, or right after it; what others do between
    the two is not in the way. A token that does now this and now that binds nothing.
    """
    told: dict[tuple[str, str], list[_Told]] = defaultdict(list)
    for place, log in enumerate(receipt.logs):
        if log.removed:
            continue
        if used := decode_used_authorization(log):
            told[used.token, used.authorizer].append(_Told(place, used.nonce))
        elif transfer := decode_transfer(log):
            told[transfer.token, transfer.sender].append(_Told(place, None, transfer.value))
    return {place: nonce for events in told.values() for place, nonce in _paired(events).items()}


def _paired(events: list[_Told]) -> dict[int, bytes | None]:
    """The transfer behind each authorization of one token and one payer, or else the one before each.

    Anybody can have a token tell that somebody moved nothing: that is no authorization's, while others fit.
    """
    for told in ([one for one in events if one.nonce is not None or one.value > 0], events):
        uses = [(at, one.nonce) for at, one in enumerate(told) if one.nonce is not None]
        for step in (1, -1):
            beside = [(at + step, nonce) for at, nonce in uses]
            if all(0 <= at < len(told) and told[at].nonce is None for at, _ in beside):
                return {told[at].place: nonce for at, nonce in beside}
    return {one.place: None for one in events if one.nonce is None}


class _Bindings:
    """Bindings by the places of their transfers, as they are given away: each once."""

    def __init__(self, known: Known) -> None:
        self.by_place: dict[int, bytes] = {}
        self._known = known
        self._given: set[bytes] = set()

    def fits(self, one: _Moved, binding: bytes) -> bool:
        free = one.place not in self.by_place and binding not in self._given
        return free and (binding, one.asset) in self._known

    def give(self, binding: bytes, ones: Iterable[_Moved]) -> None:
        """To the first that it fits."""
        one = next((one for one in ones if self.fits(one, binding)), None)
        if one is not None:
            self.by_place[one.place] = binding
            self._given.add(binding)


def _bindings(
    transaction: Transaction,
    moved: list[_Moved],
    authorized: dict[int, bytes | None],
    known: Known,
    at: int | None,
) -> dict[int, bytes]:
    """Bindings by the places of their transfers: the surest are given away first."""
    bindings = _Bindings(known)
    untied: dict[tuple[str, int], list[_Moved]] = defaultdict(list)
    for one in moved:
        if one.place in authorized:
            nonce = authorized[one.place]
            if nonce is not None:
                bindings.give(nonce, [one])
        elif (tag := _own_tag(transaction, one)) is not None:
            bindings.give(tag, [one])
        elif one.sender != ZERO_ADDRESS:
            untied[one.recipient, one.value].append(one)
    for call, tags in tagged_calls(transaction.input).items():
        paid = sorted(untied[call], key=lambda one: one.place != at)
        claims = {tag for tag in tags if any(bindings.fits(one, tag) for one in paid)}
        if len(claims) <= len(paid) or all(one.sender == transaction.sender for one in paid):
            for tag in tags:
                bindings.give(tag, paid)
    return bindings.by_place


def _own_tag(transaction: Transaction, one: _Moved) -> bytes | None:
    """The tag of a payer that called the token itself, or paid the coin; None where it did not, or has none.

    A token may keep a part of what it is told to move: its value may be another than that of the call.
    """
    if one.sender != transaction.sender:
        return None
    if one.token is None:
        tag = transaction.input[:WORD_BYTES]
    elif transaction.to == one.token and transaction.input.startswith(
        TRANSFER_SELECTOR + word_of_address(one.recipient)
    ):
        tag = transaction.input[TRANSFER_BYTES:][:WORD_BYTES]
    else:
        return None
    return tag if len(tag) == WORD_BYTES else None
