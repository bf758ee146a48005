"""Whether the transaction that a wallet told of pays a quote, as far as a node shows it.

A told hash proves nothing: it may be anybody's transaction. What counts is that it pays our destination, with
the payment's own tag. One that no node shows yet is no refusal: once it is mined, its tag is found.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from payd.chains.asking import unavailable
from payd.chains.base import Accepted, Refused, Unseen, Verdict
from payd.chains.evm.actions import Sending
from payd.chains.evm.answers import Receipt, Transaction, decode_receipt, decode_transaction
from payd.chains.evm.binding import payment_tag, tags_in
from payd.chains.evm.commitment import Commitments
from payd.chains.evm.proof import Watched, paid_by
from payd.chains.evm.track import Told
from payd.chains.rpc import Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.witnesses import needed
from payd.core.caip import AccountId, canonical_account, parse_account
from payd.core.errors import InvalidParams
from payd.core.option import Quote
from payd.core.payment import Payment

# A transaction takes about a second from the wallet's node to ours. A buyer waits no longer for it.
LOOKS: Final = 8
LOOK_EVERY_S: Final = 0.5
# One that was waited for is not waited for again, by another quote of the same confirm or by its repetition.
WAITED_MAX: Final = 1024

REVERTED: Final = "The transaction was reverted: nothing was paid. The payment is still open."
PAY_AGAIN: Final = {"reason": "reverted"}
"""For programs: what was asked for can be asked for again, as two nodes show where there are two."""
NOT_FOR_THIS: Final = (
    "The transaction does not pay what the option asks for. Send exactly what the option's action says; the"
    " payment is still open."
)
BY_CONTRACT: Final = (
    "The coins were sent by way of a contract, as some wallets do. There nobody sees which payment they are"
    " for. Do not send them again: ask the merchant, and show the transaction."
)


class Shown(msgspec.Struct, frozen=True):
    """A transaction as a node shows it; mined once there is a receipt."""

    transaction: Transaction
    receipt: Receipt | None


class Sent:
    """The checks of told transactions of one chain.

    Args:
        rpc: Its nodes.
        commitments: Makes what is stored of those that are good.
    """

    def __init__(self, rpc: Rpc, commitments: Commitments) -> None:
        self._rpc = rpc
        self._commitments = commitments
        self._waited: dict[str, None] = {}

    async def check(
        self, payment: Payment, quote: Quote, sending: Sending, tx_hash: str, now_ms: int
    ) -> Verdict:
        """Whether a transaction pays a quote. Waits a few seconds for some node to show it.

        Args:
            payment: What is paid.
            quote: What was handed out.
            sending: The transaction that it asks for.
            tx_hash: What the wallet told, in lower case.
            now_ms: Unix milliseconds.

        Raises:
            ChainUnavailable: No node answers.
        """
        problem: InvalidParams | None = None
        views = await self._find(tx_hash)
        is_witnessed = len(views) >= needed(self._rpc)
        for shown in views:
            problem = self._problem(payment, quote, sending, shown, is_witnessed)
            if problem is None:
                return await self._accept(payment, quote, sending, shown.transaction, now_ms)
        return Unseen() if problem is None else Refused(problem)

    async def _find(self, tx_hash: str) -> list[Shown]:
        """What each node that knows the transaction shows of it."""
        looks = 1 if tx_hash in self._waited else LOOKS
        for look in range(looks):
            if look:
                await trio.sleep(LOOK_EVERY_S)
            shown = await self._look(tx_hash)
            if shown:
                return shown
        while len(self._waited) >= WAITED_MAX:
            del self._waited[next(iter(self._waited))]
        self._waited[tx_hash] = None
        return []

    async def _look(self, tx_hash: str) -> list[Shown]:
        answers = await self._rpc.ask_all(
            [("eth_getTransactionByHash", tx_hash), ("eth_getTransactionReceipt", tx_hash)]
        )
        if not answers:
            raise unavailable("no node answers")
        views = [_shown(tx_hash, results) for _, results in answers]
        return [view for view in views if view is not None]

    def _problem(
        self, payment: Payment, quote: Quote, sending: Sending, shown: Shown, is_witnessed: bool
    ) -> InvalidParams | None:
        """Why the transaction does not pay the quote, as this node shows it; None if it does, or will."""
        transaction, receipt = shown.transaction, shown.receipt
        tag = payment_tag(payment.id)
        destination = parse_account(quote.destination).address.lower()
        wrapped = sending.value == 0 and tag in tags_in(transaction.input, destination, quote.amount)
        by_contract = sending.value > 0 and transaction.to != sending.to and tag in transaction.input
        if not (is_direct(transaction, sending) or wrapped or by_contract):
            return InvalidParams(NOT_FOR_THIS)
        if receipt is not None and receipt.status == 0:
            # Who wrapped the call may do so once more, and no node alone has anybody pay twice.
            is_over = is_witnessed and is_direct(transaction, sending)
            return InvalidParams(REVERTED, details=PAY_AGAIN if is_over else None)
        if by_contract:
            return InvalidParams(BY_CONTRACT)
        if receipt is None:
            return None
        asset = self._commitments.asset_key(quote)
        if sending.value:
            watched = Watched(tokens=set(), destinations={destination}, native=asset)
        else:
            watched = Watched(tokens={sending.to}, destinations={destination})
        paid = paid_by(self._commitments.chain, transaction, receipt, watched, {(tag, asset)})
        if any(one.binding == tag and one.value == quote.amount for one in paid):
            return None
        return InvalidParams(NOT_FOR_THIS)

    async def _accept(
        self, payment: Payment, quote: Quote, sending: Sending, transaction: Transaction, now_ms: int
    ) -> Accepted:
        direct = is_direct(transaction, sending)
        told = Told(transaction.hash, transaction.sender, transaction.nonce if direct else None)
        payer = str(AccountId(self._commitments.chain, transaction.sender))
        asked = canonical_account(parse_account(quote.account))
        # A refund goes to who paid, whoever it was that asked.
        buyer = payer if direct and payer != asked else None
        return Accepted(await self._commitments.sent(payment, quote, told, now_ms, buyer=buyer))


def is_direct(transaction: Transaction, sending: Sending) -> bool:
    """Whether a transaction is the one that was asked for; more data behind it does no harm."""
    same = (transaction.to, transaction.value) == (sending.to, sending.value)
    return same and transaction.input.startswith(sending.data)


def _shown(tx_hash: str, results: Sequence[object]) -> Shown | None:
    transaction, receipt = results
    if isinstance(transaction, RpcError):
        return None
    try:
        found = decode_transaction(transaction)
        mined = None if isinstance(receipt, RpcError) else decode_receipt(receipt)
    except BadAnswer:
        return None
    if found is None or found.hash != tx_hash or (mined is not None and mined.tx_hash != tx_hash):
        return None
    return Shown(found, mined)
