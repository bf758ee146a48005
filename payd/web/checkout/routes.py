"""The buyer's page: who has a payment's link sees it, cancels it, and in the test realm plays it through.

Each handler is as framework-free as those of the API. The id in the path is the capability: there is no key.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from payd.actors.simulation import simulate as move_payment
from payd.core.errors import Forbidden, InvalidParams, InvalidState, NotFound, PaydError
from payd.core.payment import CANCELLED_BY_USER, Payment
from payd.core.status import Status
from payd.store.logos import shown_logo
from payd.store.origins import list_origins
from payd.store.transfers import transfers_of_payment
from payd.web.accept import prefers_html
from payd.web.call import Answer, Call, Request
from payd.web.checkout.details import details_view
from payd.web.checkout.paths import Paths, paths_of
from payd.web.checkout.progress import progress_of
from payd.web.checkout.render import SAFE, WALLETS, html_answer
from payd.web.checkout.solana import solana_view
from payd.web.checkout.view import MOVES, view_of
from payd.web.checkout.wallets import wallet_routes, wallets_view
from payd.web.errors import STATUS
from payd.web.form import check_same_origin, read_form
from payd.web.house import House, Realm
from payd.web.html import root_of
from payd.web.logos import logo_path
from payd.web.lookup import linked_payment, who_is_paid
from payd.web.qr import qr_svg
from payd.web.schema import buyer_page, cancelled_body

OWN_PAGE: Final = "Open the payment's own page and use that."

_BELOW_PAYMENT: Final = re.compile("/pay/([0-9a-z_]+)/")


async def page(call: Call) -> Answer:
    """GET /pay/{id}: the whole page, as it is now."""
    realm, payment = linked_payment(call)
    base_url, paths = call.house.base_url, paths_for(call)
    name, _ = who_is_paid(realm, payment)
    words = realm.words
    progress, now_ms = progress_of(realm, payment), realm.clock.now_ms()
    shown = view_of(payment, words, name, paths.language, progress, live=realm.live, now_ms=now_ms)
    way, asset = (call.request.query.get(name, [""])[0] for name in ("way", "asset"))
    solana = await solana_view(realm, payment, paths, base_url, way, asset)
    link: str | None = f"{base_url}/pay/{payment.id}"
    if solana is not None and solana.chosen:
        link = solana.code
    qr = qr_svg(link) if payment.status is Status.REQUIRES_ACTION and link else ""
    routes = wallet_routes(realm, payment)
    wallets = wallets_view(realm, payment, routes, base_url)
    origins = realm.db.point(list_origins, payment.merchant_id)
    chosen = {"way": way, "asset": solana.asset} if solana is not None and solana.chosen else {}
    values: dict[str, Any] = {
        "p": shown,
        "link": link,
        "qr": qr,
        "solana": solana,
        "wallets": wallets,
        "more": await details_view(realm, payment, routes, paths.language),
        "app_id": realm.checkout_app_id,
        "logo": logo_for(realm, payment),
        "origins": origins,
        "arrived": payment.status is Status.CANCELLED and _has_arrived(realm, payment),
        "here": paths.payment(payment.id),
        "cancel_at": paths.payment(payment.id, "/cancel"),
        "simulate_at": paths.payment(payment.id, "/simulate"),
        "languages": paths.languages(f"/pay/{payment.id}", **chosen),
    }
    return html_answer(200, "checkout.html", base_url, paths, values, origins)


async def status(call: Call) -> Answer:
    """GET /pay/{id}/status: the payment feed's snapshot, for a page whose websocket is down."""
    realm, payment = linked_payment(call)
    snapshot = buyer_page(payment, realm.words, realm.clock.now_ms())
    return Answer.json(snapshot, headers=SAFE)


async def cancel(call: Call) -> Answer:
    """POST /pay/{id}/cancel: the buyer calls it off. A payment that is past that is shown as it is."""
    realm, payment = linked_payment(call)
    check_same_origin(call.request, call.house.base_url, OWN_PAGE)
    if payment.status is Status.REQUIRES_ACTION:
        with suppress(InvalidState):
            await realm.payments.cancel(payment.id, CANCELLED_BY_USER, None, cancelled_body)
    return _back_to(call, payment)


async def simulate(call: Call) -> Answer:
    """POST /pay/{id}/simulate: a button of the Test Console.

    Raises:
        Forbidden: A live payment, or another site's form.
        InvalidParams: No such move.
        InvalidState: The payment cannot make this move now.
    """
    realm, payment = linked_payment(call)
    check_same_origin(call.request, call.house.base_url, OWN_PAGE)
    if realm.live:
        raise Forbidden("This is a live payment; only test payments can be simulated.")
    wanted = read_form(call.request).get("to", [])
    move = next((one for one in MOVES if wanted == [one]), None)
    if move is None:
        raise InvalidParams(f"to must be one of {', '.join(MOVES)}.")
    await move_payment(realm.payments, payment.id, move, None)
    return _back_to(call, payment)


def wants_page(request: Request) -> bool:
    """Whether a refusal is for a person: on a path of these pages, for something that shows HTML."""
    below = request.path in ("/pay", "/collect") or request.path.startswith(("/pay/", "/collect/"))
    return below and prefers_html(request.headers.get("accept", ""))


def error_page(house: House, request: Request, refusal: PaydError, request_id: str) -> Answer:
    """The page of a refusal. Unknown and malformed links look the same."""
    code = "payment_not_found" if isinstance(refusal, NotFound) else refusal.code
    paths = paths_of(root_of(house.base_url), request)
    say, has = paths.language.say, paths.language.has
    heading = say(f"error.{code}" if has(f"error.{code}") else "error")
    match = _BELOW_PAYMENT.match(request.path)
    form = request.path.startswith("/collect")
    body = say(f"error.{code}.body" if has(f"error.{code}.body") else "error.form" if form else "error.body")
    values = {
        "for_wallet": form,
        "heading": heading,
        "body": body,
        "back": None if match is None or code == "payment_not_found" else paths.payment(match[1]),
        "request_id": request_id if code == "internal_error" else None,
    }
    framed_by = WALLETS if form else ()
    answer = html_answer(STATUS[type(refusal)], "error.html", house.base_url, paths, values, framed_by)
    if "retryAfterS" in refusal.details:
        answer.headers += (("Retry-After", str(refusal.details["retryAfterS"])),)
    return answer


def logo_for(realm: Realm, payment: Payment) -> str | None:
    """Where the logo of who is paid is, below the root; None: its first letter stands for it."""
    digest = realm.db.point(shown_logo, payment.merchant_id)
    return None if digest is None else logo_path(digest)


def _has_arrived(realm: Realm, payment: Payment) -> bool:
    """Whether a chain showed money for it: then nobody is told that nothing was charged."""
    return bool(realm.db.point(transfers_of_payment, payment.id))


def paths_for(call: Call) -> Paths:
    """Where the pages are for who calls, and in which language."""
    return paths_of(root_of(call.house.base_url), call.request)


def _back_to(call: Call, payment: Payment) -> Answer:
    return Answer(303, b"", (("Location", paths_for(call).payment(payment.id)), *SAFE))
