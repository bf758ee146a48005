"""Merchants: the shops that buyers see, and what each of them asks and shows.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any, Final

import msgspec

from payd.core.collect import FIELDS_MAX, Field
from payd.core.errors import InvalidParams
from payd.store.audit import insert_audit
from payd.store.db import Tx
from payd.store.logos import find_logo, wish_copy
from payd.store.merchants import Merchant, find_merchant
from payd.store.origins import list_origins
from payd.web.call import Answer
from payd.web.dashboard.destinations import destinations_of, own_merchant
from payd.web.dashboard.visit import Visit
from payd.web.logos import logo_out
from payd.web.merchants import STATUSES

SHOWN: Final = 50
# Rows for questions that are not asked yet.
BLANK: Final = 2
KINDS: Final = (("text", "Text"), ("date", "Date"), ("checkbox", "Checkbox"))

_NO_ID: Final = re.compile(r"[^A-Za-z0-9]+")


class Row(msgspec.Struct, frozen=True):
    """A merchant in the list."""

    href: str
    name: str
    email: str
    status: str
    kind: str
    logo: str


class Shown(msgspec.Struct, frozen=True):
    """A merchant with its own page."""

    id: str
    href: str
    name: str
    email: str
    status: str
    kind: str
    created_at_ms: int
    icon_url: str
    logo: str
    logo_words: str
    origins: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/merchants: the list, and a form for another one."""
    status, search, cursor = visit.query("status"), visit.query("q"), visit.query("cursor")
    query = {"limit": SHOWN, "status": status or None, "search": search or None, "cursor": cursor or None}
    found = await visit.ask("GET", "/v1/merchants", query=query)
    following = found["nextCursor"]
    return visit.page(
        "merchants.html",
        rows=tuple(_row(visit, one) for one in found["data"]),
        total=found["totalCount"],
        statuses=(("", "Any status"), *((one, one.capitalize()) for one in STATUSES)),
        chosen=status,
        q=search,
        filtered=bool(status or search),
        more=visit.to("merchants", q=search, status=status, cursor=following) if following else "",
        may_edit=visit.may("edit_merchants"),
    )


async def create(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants."""
    body = {"merchantName": visit.typed("name"), "merchantEmail": visit.typed("email")}
    made = await visit.ask("POST", "/v1/merchants", body)
    return visit.redirect(
        f"merchants/{made['merchant']['id']}", "Merchant created. Now say where its money goes."
    )


async def show(visit: Visit) -> Answer:
    """GET /d/{mode}/merchants/{merchant}: everything of one."""
    merchant = own_merchant(visit)
    return visit.page(
        "merchant.html",
        m=_shown(visit, merchant),
        destinations=destinations_of(visit, merchant.id),
        questions=_rows_of(visit, merchant.collect),
        was_asked=_mark(merchant.collect),
        kinds=KINDS,
        statuses=tuple((one, one.capitalize()) for one in STATUSES),
        may_edit=visit.may("edit_merchants"),
        may_move_money=visit.may("change_destinations"),
    )


async def edit(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}: name, e-mail, status; those that were changed in the form.

    A form that was open for long undoes nothing that somebody else has changed.
    """
    fields = (("merchantName", "name"), ("merchantEmail", "email"), ("status", "status"))
    body = {field: visit.typed(name) for field, name in fields if visit.is_changed(name)}
    if not body:
        return visit.redirect(f"merchants/{own_merchant(visit).id}", "Nothing was changed.")
    return await _patch(visit, body, "Saved.")


async def ask_buyers(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/collect: what buyers are asked; a row without words is left out.

    A form that was open for long undoes nothing that somebody else has changed; nor does that of the sites.
    """
    fields: list[dict[str, Any]] = []
    taken = {visit.typed(f"id_{place}") for place in range(FIELDS_MAX)}
    for place in range(FIELDS_MAX):
        words, field_id = visit.typed(f"ask_{place}"), visit.typed(f"id_{place}")
        if not words:
            continue
        field_id = field_id or _id_of(words, taken)
        taken.add(field_id)
        fields.append(
            {
                "id": field_id,
                "type": visit.typed(f"type_{place}"),
                "name": words,
                "required": bool(visit.typed(f"required_{place}")),
            }
        )
    now = own_merchant(visit).collect
    if visit.typed("was_asked") not in ("", _mark(now)) and fields != [*msgspec.to_builtins(now)]:
        return visit.redirect(
            f"merchants/{visit.params['merchant']}",
            "The questions were changed meanwhile, and yours are not saved. These are asked now.",
        )
    said = "Buyers are asked this from now on." if fields else "Buyers are asked nothing."
    return await _patch(visit, {"collect": fields}, said)


async def set_origins(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/origins: whose pages may show the checkout in a frame."""
    origins = visit.typed("origins").split()
    now = [*visit.realm.db.point(list_origins, own_merchant(visit).id)]
    if "was_origins" in visit.form and now not in (visit.typed("was_origins").split(), origins):
        return visit.redirect(
            f"merchants/{visit.params['merchant']}",
            "The sites were changed meanwhile, and yours are not saved. These may show the checkout now.",
        )
    said = "These sites may show the checkout." if origins else "No site may show the checkout."
    return await _patch(visit, {"checkoutOrigins": origins}, said)


async def set_icon(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/icon: a picture that is copied from the web; empty: none.

    To the API an address that it knows says nothing: it may be merely sent back. Here somebody asks for it.
    """
    merchant, url = own_merchant(visit), visit.typed("icon_url")
    if not url:
        return await _patch(visit, {"iconUrl": None}, "There is no address any more.")
    answer = await _patch(visit, {"iconUrl": url}, "The picture is copied.")
    at_ms, wished_ms = visit.realm.clock.now_ms(), visit.realm.clock.real_ms()

    def step(tx: Tx) -> None:
        logo = find_logo(tx, merchant.id)
        if find_merchant(tx, merchant.id) is None or (logo is not None and logo.source_url == url):
            return
        wish_copy(tx, merchant.id, url, wished_ms)
        insert_audit(
            tx,
            at_ms=at_ms,
            account_id=visit.account_id,
            actor=visit.actor,
            act="merchant.logo",
            subject=merchant.id,
            details={"from": url},
        )

    await visit.realm.db.write(step)
    visit.realm.logos.wake()
    return answer


async def set_logo(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/logo: a picture from the person's own machine."""
    merchant = own_merchant(visit)
    if not visit.upload:
        raise InvalidParams("Choose a picture first: a PNG, JPEG, WebP or AVIF.")
    await visit.ask("PUT", f"/v1/merchants/{merchant.id}/logo", visit.upload)
    return visit.redirect(f"merchants/{merchant.id}", "This is the logo from now on.")


async def drop_logo(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/logo/remove: pages show the first letter again."""
    merchant = own_merchant(visit)
    await visit.ask("DELETE", f"/v1/merchants/{merchant.id}/logo")
    return visit.redirect(f"merchants/{merchant.id}", "The logo is gone.")


async def delete(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/delete, with its name typed."""
    merchant = own_merchant(visit)
    if _as_seen(visit.typed("its_name")) != _as_seen(merchant.name):
        raise InvalidParams("Type the merchant's name as it stands there. Nothing was deleted.")
    await visit.ask("DELETE", f"/v1/merchants/{merchant.id}")
    return visit.redirect("merchants", f"{merchant.name} is deleted. Its payments stay.")


async def _patch(visit: Visit, body: dict[str, Any], said: str) -> Answer:
    merchant = own_merchant(visit)
    await visit.ask("PATCH", f"/v1/merchants/{merchant.id}", body)
    return visit.redirect(f"merchants/{merchant.id}", said)


def _row(visit: Visit, one: dict[str, Any]) -> Row:
    logo = one["logo"]
    return Row(
        visit.to(f"merchants/{one['id']}"),
        one["name"],
        one["email"],
        one["status"],
        _kind(one["status"]),
        (logo and logo["url"]) or "",
    )


def _shown(visit: Visit, merchant: Merchant) -> Shown:
    logo = logo_out(visit.house.base_url, visit.realm.db.point(find_logo, merchant.id))
    words = ""
    if logo is not None and logo.state == "copying":
        words = "The picture is being copied."
    elif logo is not None and logo.problem is not None:
        words = f"The picture could not be copied: {logo.problem}"
    return Shown(
        merchant.id,
        visit.to(f"merchants/{merchant.id}"),
        merchant.name,
        merchant.email,
        merchant.status,
        _kind(merchant.status),
        merchant.created_at_ms,
        merchant.icon_url or "",
        (logo and logo.url) or "",
        words,
        "\n".join(visit.realm.db.point(list_origins, merchant.id)),
    )


def _kind(status: str) -> str:
    return {"active": "good", "suspended": "bad"}.get(status, "soft")


def _rows_of(visit: Visit, asked: tuple[Field, ...]) -> tuple[Field, ...]:
    """What is asked, and some room for more; after a refusal with the ticks of the form."""
    blank = Field("", "text", "", required=False)
    rows = (*asked, *[blank] * min(BLANK, FIELDS_MAX - len(asked)))
    if visit.refusal is None or "ask_0" not in visit.form:
        return rows
    ticked = [bool(visit.typed(f"required_{place}")) for place in range(len(rows))]
    return tuple(msgspec.structs.replace(row, required=tick) for row, tick in zip(rows, ticked, strict=True))


def _mark(asked: tuple[Field, ...]) -> str:
    """What questions are known again by."""
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:16]


def _as_seen(name: str) -> str:
    """A name as people see it: not how wide a space is, nor of how many characters a letter is made."""
    return unicodedata.normalize("NFC", " ".join(name.split()))


def _id_of(words: str, taken: set[str]) -> str:
    """A field's id from its question; of one in letters that ids do not have, its number.

    The API refuses what makes none.
    """
    made = _NO_ID.sub("_", words).strip("_")[:40]
    if made[:1].isalpha() or not any(map(str.isalnum, words)):
        return made
    return next(one for n in range(1, FIELDS_MAX + 2) if (one := f"question_{n}") not in taken)
