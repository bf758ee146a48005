"""Transfers that chains showed, first those that paid for nothing; and the repair of one by hand.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.core.caip import MalformedCaip, canonical_chain, parse_chain
from payd.core.errors import InvalidParams
from payd.core.money import AmountWire
from payd.core.search import read_search
from payd.store.db import Tx
from payd.store.search import find_anything
from payd.store.transfers import Transfer, transfers_in
from payd.web.call import Answer
from payd.web.checkout.progress import explorer_of
from payd.web.checkout.view import short_account
from payd.web.dashboard.payment import own
from payd.web.dashboard.payments_view import STATUS_WORDS, Mark, amount_words, reference_of
from payd.web.dashboard.visit import Visit
from payd.web.query import parse_instant_ms
from payd.web.schema import Words

ROWS: Final = 50
TX_MAX: Final = 128

KINDS: Final = {
    "matched": Mark("Pays its payment", "good"),
    "late": Mark("Too late", "bad"),
    "partial": Mark("Too little", "bad"),
    "surplus": Mark("Too much", "wait"),
    "unmatched": Mark("Names no payment", "wait"),
}
"""How each kind is called."""


class Row(msgspec.Struct, frozen=True):
    """One transfer. `payment` and `match` are links, empty where there is nothing to go to."""

    seen_at_ms: int
    kind: Mark
    amount: str
    network: str
    sender: str
    tx_id: str
    explorer: str
    payment: str
    match: str
    on_chain: bool


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/transfers: what paid for nothing, or all."""
    everything = visit.query("all") == "yes"
    query = {
        "limit": ROWS,
        "matched": None if everything else "false",
        "cursor": visit.query("cursor") or None,
    }
    found = await visit.ask("GET", "/v1/transfers", query=query)
    chosen = {"all": "yes"} if everything else {}
    more = visit.to("transfers", **chosen, cursor=found["nextCursor"]) if found["nextCursor"] else ""
    return visit.page(
        "transfers.html",
        rows=tuple(_row(visit, one) for one in found["data"]),
        everything=everything,
        live=visit.realm.live,
        astray=visit.to("transfers"),
        all=visit.to("transfers", all="yes"),
        more=more,
    )


async def choose(visit: Visit) -> Answer:
    """GET /d/{mode}/transfers/match: for which payment a transfer counts; then on to its page."""
    tx_id, chain, text = visit.query("tx"), visit.query("chain"), visit.query("payment")
    said = ""
    sought = read_search(text)
    if sought is not None:
        found = await visit.realm.db.read(find_anything, visit.account_id, sought)
        if found.jump is not None and found.jump.kind == "payment":
            return visit.redirect(f"payments/{found.jump.id}/match", tx=tx_id, chain=chain)
        said = "There is no such payment, or more than one. Give its id."
    return visit.page("transfer_choose.html", tx=tx_id, chain=chain, payment=text, said=said)


async def preview(visit: Visit) -> Answer:
    """GET /d/{mode}/payments/{payment}/match: what is known of the transaction, before anything is done."""
    payment, words = own(visit), visit.realm.words
    tx_id = visit.typed("tx") or visit.query("tx")
    chain = visit.typed("chain") or visit.query("chain")
    known: tuple[tuple[str, str], ...] = ()
    if tx_id and chain:
        seen = visit.realm.db.point(_seen, visit.account_id, _chain(chain), _hash(tx_id))
        known = tuple(_known(one, words) for one in seen)
    return visit.page(
        "transfer_match.html",
        reference=reference_of(payment),
        asked=amount_words(payment.amount, words),
        stands=STATUS_WORDS[payment.status.value],
        live=visit.realm.live,
        tx=tx_id,
        chain=chain,
        known=known,
        here=visit.to(f"payments/{payment.id}/match"),
        back=visit.to(f"payments/{payment.id}"),
    )


async def match(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/match: have the transaction counted for the payment.

    Raises:
        PaydError: It is none, or nobody knows it.
    """
    payment = own(visit)
    tx_id, chain = visit.typed("tx"), visit.typed("chain")
    body = {"txId": _hash(tx_id), "chain": _chain(chain) if chain else None}
    found = await visit.ask("POST", f"/v1/payments/{payment.id}/match", body)
    return visit.redirect(f"payments/{payment.id}", found["match"]["words"])


def _row(visit: Visit, one: dict[str, Any]) -> Row:
    explorer = explorer_of(one["chain"], one["txId"])
    payment = visit.to(f"payments/{one['paymentId']}") if one["paymentId"] else ""
    repairs = visit.realm.live and not one["matched"] and visit.may("move_payments")
    amount = AmountWire(one["amount"]["unit"], one["amount"]["value"])
    return Row(
        seen_at_ms=parse_instant_ms(one["seenAt"], "seenAt"),
        kind=KINDS[one["kind"]],
        amount=amount_words(amount, visit.realm.words),
        network=one["amount"]["display"].get("networkName") or one["chain"],
        sender=short_account(one["from"].rpartition(":")[2]),
        tx_id=one["txId"],
        explorer="" if explorer is None else explorer.url,
        payment=payment,
        match=visit.to("transfers/match", tx=one["txId"], chain=one["chain"]) if repairs else "",
        on_chain=one["onChain"],
    )


def _seen(tx: Tx, account_id: str, chain: str, tx_id: str) -> list[Transfer]:
    return [one for one in transfers_in(tx, chain, tx_id) if one.account_id == account_id]


def _known(one: Transfer, words: Words) -> tuple[str, str]:
    amount = amount_words(AmountWire(f"caip19/{one.asset}", one.value), words)
    return f"{amount} from {short_account(one.sender.rpartition(':')[2])}", KINDS[one.kind].word


def _hash(text: str) -> str:
    if not 1 <= len(text) <= TX_MAX or not text.isprintable():
        raise InvalidParams("Give the id of the transaction.")
    return text


def _chain(text: str) -> str:
    try:
        return str(canonical_chain(parse_chain(text)))
    except MalformedCaip:
        raise InvalidParams("There is no such network.") from None
