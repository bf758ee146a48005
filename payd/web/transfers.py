"""Transfers that chains showed, over REST: the list of them, and the repair by a transaction's id.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.actors.claims import Claimed, claim
from payd.core.caip import MalformedCaip, canonical_chain, parse_chain
from payd.core.errors import InvalidParams
from payd.store.transfers import list_transfers, transfers_of_payment
from payd.web import query
from payd.web.call import Answer, Call
from payd.web.cursor import encode_cursor
from payd.web.events import before_seq
from payd.web.limits import refuse_for
from payd.web.lookup import own_payment
from payd.web.schema import PaymentDetail, TransferOut, TransferPage

LIST_DEFAULT: Final = 50
LIST_MAX: Final = 200


class MatchIn(msgspec.Struct, rename="camel"):
    """A transaction that paid, as the merchant believes; `chain` is its CAIP-2 id, if that is known."""

    tx_id: str
    chain: str | None = None


class MatchOut(msgspec.Struct, frozen=True):
    """What became of it, in a word and in words, and what the transaction paid here."""

    outcome: str
    words: str
    transfers: list[TransferOut]


class Matched(msgspec.Struct, frozen=True):
    """The payment as it is now, and what the transaction was found to be."""

    payment: PaymentDetail
    match: MatchOut


async def list_all(call: Call) -> Answer:
    """GET /v1/transfers: what chains showed, `matched=false` for what paid for nothing."""
    matched = query.flag(call, "matched")
    limit = query.limit_in(call, LIST_MAX, LIST_DEFAULT)
    before = before_seq(call)
    rows = await call.realm.db.read(
        lambda tx: list_transfers(tx, call.account_id, matched=matched, before_seq=before, limit=limit + 1)
    )
    words = call.realm.words
    data = [words.transfer(transfer) for _, transfer in rows[:limit]]
    return Answer.json(TransferPage(data, encode_cursor(rows[limit - 1][0]) if len(rows) > limit else None))


async def match(call: Call) -> Answer:
    """POST /v1/payments/{id}/match: have a transaction counted for a payment. The same one again is harmless.

    Unknown to the chains: 404. What is known is answered with 200, whatever came of it.
    """
    payment = own_payment(call)
    body = call.json(MatchIn)
    if not call.realm.live:
        raise InvalidParams(
            "A test payment has no transaction to match. Move it with"
            f" POST /v1/test/payments/{payment.id}/simulate instead."
        )
    chain = None if body.chain is None else _chain(body.chain)
    refuse_for(call.house.limits.matches.take(call.account_id))
    realm = call.realm
    claimed = await claim(
        realm.payments, realm.live_chains, payment, body.tx_id, chain, call.actor, call.merchants
    )
    return Answer.json(_matched(call, payment.id, claimed))


def _matched(call: Call, payment_id: str, claimed: Claimed) -> Matched:
    words, realm = call.realm.words, call.realm
    payment = realm.payments.find(payment_id)
    transfers = [words.transfer(one) for one in claimed.transfers]
    return Matched(
        words.detail(payment, realm.db.point(transfers_of_payment, payment_id)),
        MatchOut(claimed.outcome, claimed.words, transfers),
    )


def _chain(text: str) -> str:
    """The canonical CAIP-2 id.

    Raises:
        InvalidParams: It is none.
    """
    try:
        return str(canonical_chain(parse_chain(text)))
    except MalformedCaip as malformed:
        raise InvalidParams(f"chain: {malformed}, such as eip155:8453.") from None
