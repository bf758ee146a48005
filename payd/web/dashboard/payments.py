"""The list of payments: found, filtered, kept up to date, and taken along as CSV.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.payment import Payment
from payd.core.period import day_of
from payd.core.roles import Permission
from payd.store.db import Tx
from payd.store.ledger import NEW_MAX, count_new, newest_seq, payments_by_id
from payd.store.merchants import named_merchants
from payd.store.payments import PaymentFilter, list_payments
from payd.store.search import Hit, HitKind, find_anything
from payd.web.call import Answer
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.dashboard.export import export_payments
from payd.web.dashboard.payments_filter import Chosen, choices_of, chosen_of, filter_of, offset_of
from payd.web.dashboard.payments_view import row_of
from payd.web.dashboard.render import SAFE
from payd.web.dashboard.visit import Visit

ROWS: Final = 40
"""Of a page: with its forms it stays small."""

_WHY: Final = {
    "id": "this is its id",
    "reference": "its reference",
    "transaction": "its transaction",
    "buyer": "its buyer",
    "sender": "its sender",
    "destination": "its destination",
    "name": "its name",
    "refund": "its refund",
}

_NEEDS: Final[dict[HitKind, Permission]] = {"key": "manage_keys", "request": "view_log"}
"""What is on pages of its own that not everybody sees."""


class Other(msgspec.Struct, frozen=True):
    """Something that was found and is no payment; `href` is empty where it has no page."""

    what: str
    label: str
    why: str
    href: str


class _Listed(msgspec.Struct, frozen=True):
    rows: list[tuple[int, Payment]]
    merchants: dict[str, str]
    newest: int


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/payments: a page of the list; one thing that was searched for is shown itself."""
    chosen = chosen_of(visit)
    if visit.is_fragment:
        return await _live(visit, chosen)
    wanted, words = filter_of(visit, chosen), visit.realm.words
    others: tuple[Other, ...] = ()
    if chosen.is_text_alone and wanted.text is not None:
        found = await visit.realm.db.read(find_anything, visit.account_id, wanted.text)
        jump = "" if found.jump is None else _page_of(found.jump)
        if jump:
            return visit.redirect(jump)
        others = tuple(_other(visit, hit) for hit in found.hits if _is_other(visit, hit))
    cursor = visit.query("cursor")
    after = decode_cursor(cursor, (int, int)) if cursor else None
    listed = await visit.realm.db.read(_list, wanted, after)
    choices = await visit.realm.db.read(choices_of, visit.account_id, words)
    shown = listed.rows[:ROWS]
    more = ""
    if len(listed.rows) > ROWS:
        seq, last = shown[-1]
        more = visit.to("payments", **chosen.query, cursor=encode_cursor(last.created_at_ms, seq))
    return visit.page(
        "payments.html",
        rows=tuple(row_of(visit, one, words, listed.merchants.get(one.merchant_id, "")) for _, one in shown),
        chosen=chosen,
        choices=choices.including(chosen, listed.merchants),
        others=others,
        more=more,
        first=visit.to("payments", **chosen.query) if cursor else "",
        live=visit.to("payments", **chosen.query, after=str(listed.newest)),
        here=visit.to("payments"),
        csv=visit.to("payments.csv", **chosen.query),
        create=visit.to("payments/create") if visit.may("create_payments") else "",
        new=0,
    )


async def export(visit: Visit) -> Answer:
    """GET /d/{mode}/payments.csv: the list with the same filter, all of it."""
    parts = export_payments(visit.realm, visit.realm.words, filter_of(visit, chosen_of(visit)))
    day = day_of(visit.realm.clock.now_ms(), offset_of(visit))
    name = f"payments-{visit.mode}-{day}.csv"
    headers = (
        ("Content-Type", "text/csv; charset=utf-8"),
        ("Content-Disposition", f'attachment; filename="{name}"'),
        *SAFE,
    )
    return Answer(200, b"", headers, parts)


async def _live(visit: Visit, chosen: Chosen) -> Answer:
    """What of the rows that a page shows is not so any more, and how many are new."""
    wanted, words = filter_of(visit, chosen), visit.realm.words
    known = dict(one.rpartition(".")[::2] for one in visit.request.query.get("row", [])[:ROWS])
    since = visit.row("after") or 0

    def look(tx: Tx) -> tuple[list[Payment], int]:
        return payments_by_id(tx, visit.account_id, [*known]), count_new(tx, wanted, since)

    payments, new = await visit.realm.db.read(look)
    changed = [one for one in payments if known[one.id] != str(one.version)]
    return visit.page(
        "payments_live.html",
        rows=tuple(row_of(visit, one, words, "") for one in changed),
        new=new,
        said=visit.query("new") == str(new),
        is_more=new >= NEW_MAX,
        here=visit.to("payments", **chosen.query),
    )


def _list(tx: Tx, wanted: PaymentFilter, after: tuple[int, int] | None) -> _Listed:
    newest = newest_seq(tx)
    rows = list_payments(tx, wanted, after, ROWS + 1)
    named = named_merchants(tx, sorted({one.merchant_id for _, one in rows}))
    return _Listed(rows, {merchant_id: name for merchant_id, (name, _) in named.items()}, newest)


def _page_of(hit: Hit) -> str:
    """The page of something that was found, without root and mode; empty where it has none."""
    if hit.kind == "payment":
        return f"payments/{hit.id}"
    if hit.kind == "delivery":
        return f"webhooks/deliveries/{hit.id}"
    if hit.payment_id is not None:
        return f"payments/{hit.payment_id}"
    if hit.kind == "transfer":
        return "transfers"
    return ""


def _is_other(visit: Visit, hit: Hit) -> bool:
    """Whether it is named beside the payments, to this person."""
    needed = _NEEDS.get(hit.kind, "view")
    return hit.kind != "payment" and visit.may(needed)


def _other(visit: Visit, hit: Hit) -> Other:
    if hit.kind == "merchant":
        href = visit.to("payments", merchant=hit.id)
    elif hit.kind == "request":
        href = visit.to("log", request=hit.id)
    elif hit.kind == "key":
        href = visit.to("keys")
    else:
        found = _page_of(hit)
        href = visit.to(found) if found else ""
    return Other(hit.kind, hit.label or hit.id, _WHY.get(hit.why, hit.why), href)
