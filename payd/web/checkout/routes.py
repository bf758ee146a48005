"""The buyer's page: who has a payment's link sees it, cancels it, and in the test realm plays it through.

Each handler is as framework-free as those of the API. The id in the path is the capability: there is no key.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from payd.actors.simulation import simulate as move_payment
from payd.core.errors import Forbidden, InvalidParams, NotFound, PaydError, UnsupportedMediaType
from payd.core.payment import CANCELLED_BY_USER, Payment, PaymentCancelled
from payd.core.status import Status
from payd.store.merchants import named_merchants
from payd.store.origins import list_origins
from payd.web.call import Answer, Call, Request
from payd.web.checkout.render import (
    ASSETS,
    NO_SNIFF,
    SAFE,
    STATIC_MAX_AGE_S,
    WALLETS,
    html_answer,
    qr_svg,
    root_of,
)
from payd.web.checkout.solana import solana_view
from payd.web.checkout.view import MOVES, view_of
from payd.web.checkout.wallets import wallets_view
from payd.web.checkout.words import WORDS, say
from payd.web.errors import STATUS
from payd.web.house import House, Realm
from payd.web.schema import Words, buyer_page, cancelled_body

FORM_TYPE: Final = "application/x-www-form-urlencoded"
# The longest form is a merchant's own; a few fields more are somebody else's, and harmless.
FORM_FIELDS_MAX: Final = 24

_BELOW_PAYMENT: Final = re.compile("/pay/([0-9a-z_]+)/")


async def page(call: Call) -> Answer:
    """GET /pay/{id}: the whole page, as it is now."""
    realm, payment = payment_of(call)
    base_url = call.house.base_url
    name, _ = realm.db.point(named_merchants, [payment.merchant_id]).get(payment.merchant_id, ("", None))
    words = Words(tuple(realm.payments.chains))
    shown = view_of(payment, words, name, live=realm.live, now_ms=realm.clock.now_ms())
    way, asset = (call.request.query.get(name, [""])[0] for name in ("way", "asset"))
    here = f"{root_of(base_url)}/pay/{payment.id}"
    solana = await solana_view(realm, payment, here, base_url, way, asset)
    link: str | None = f"{base_url}/pay/{payment.id}"
    if solana is not None and solana.chosen:
        link = solana.code
    qr = qr_svg(link) if payment.status is Status.REQUIRES_ACTION and link else ""
    wallets = wallets_view(realm, payment, base_url)
    origins = realm.db.point(list_origins, payment.merchant_id)
    values: dict[str, Any] = {"p": shown, "link": link, "qr": qr, "here": here, "solana": solana}
    values |= {"wallets": wallets, "app_id": realm.checkout_app_id, "origins": origins}
    return html_answer(200, "checkout.html", base_url, values, origins)


async def status(call: Call) -> Answer:
    """GET /pay/{id}/status: the payment feed's snapshot, for a page whose websocket is down."""
    realm, payment = payment_of(call)
    snapshot = buyer_page(payment, Words(tuple(realm.payments.chains)), realm.clock.now_ms())
    return Answer.json(snapshot, headers=SAFE)


async def cancel(call: Call) -> Answer:
    """POST /pay/{id}/cancel: the buyer calls it off. A payment that is past that is shown as it is."""
    realm, payment = payment_of(call)
    check_same_origin(call.request, call.house.base_url)
    if payment.status is Status.REQUIRES_ACTION:
        trigger = PaymentCancelled(CANCELLED_BY_USER)
        await realm.payments.move_once(payment.id, trigger, None, cancelled_body)
    return _back_to(call, payment)


async def simulate(call: Call) -> Answer:
    """POST /pay/{id}/simulate: a button of the Test Console.

    Raises:
        Forbidden: A live payment, or another site's form.
        InvalidParams: No such move.
        InvalidState: The payment cannot make this move now.
    """
    realm, payment = payment_of(call)
    check_same_origin(call.request, call.house.base_url)
    if realm.live:
        raise Forbidden("This is a live payment; only test payments can be simulated.")
    wanted = read_form(call.request).get("to", [])
    move = next((one for one in MOVES if wanted == [one]), None)
    if move is None:
        raise InvalidParams(f"to must be one of {', '.join(MOVES)}.")
    await move_payment(realm.payments, payment.id, move, None)
    return _back_to(call, payment)


async def static(call: Call) -> Answer:
    """GET /static/{name}: a file of the page. With its `?v=` it may be kept for good."""
    asset = ASSETS.get(call.params["name"])
    if asset is None:
        raise NotFound("There is no such file.")
    fixed = call.request.query.get("v") == [asset.version]
    caching = f"public, max-age={STATIC_MAX_AGE_S}, immutable" if fixed else "no-cache"
    headers = (
        ("Content-Type", asset.content_type),
        ("Cache-Control", caching),
        ("ETag", asset.etag),
        NO_SNIFF,
        ("Cross-Origin-Resource-Policy", "cross-origin" if asset.shared else "same-origin"),
    )
    if call.request.headers.get("if-none-match") == asset.etag:
        return Answer(304, b"", headers[1:])
    return Answer(200, asset.body, headers)


def wants_page(request: Request) -> bool:
    """Whether a refusal is for a person: on a path of these pages, for something that shows HTML."""
    below = request.path in ("/pay", "/collect") or request.path.startswith(("/pay/", "/collect/"))
    return below and prefers_html(request.headers.get("accept", ""))


def error_page(house: House, request: Request, refusal: PaydError, request_id: str) -> Answer:
    """The page of a refusal. Unknown and malformed links look the same."""
    code = "payment_not_found" if isinstance(refusal, NotFound) else refusal.code
    heading = say(f"error.{code}" if f"error.{code}" in WORDS else "error")
    body = say(f"error.{code}.body") if f"error.{code}.body" in WORDS else refusal.message
    match = _BELOW_PAYMENT.match(request.path)
    root = root_of(house.base_url)
    form = request.path.startswith("/collect")
    values = {
        "for_wallet": form,
        "heading": heading,
        "body": body,
        "back": None if match is None or code == "payment_not_found" else f"{root}/pay/{match[1]}",
        "request_id": request_id if code == "internal_error" else None,
    }
    framed_by = WALLETS if form else ()
    answer = html_answer(STATUS[type(refusal)], "error.html", house.base_url, values, framed_by)
    if "retryAfterS" in refusal.details:
        answer.headers += (("Retry-After", str(refusal.details["retryAfterS"])),)
    return answer


def prefers_html(accept: str) -> bool:
    """Whether an `Accept` header names HTML and does not like JSON better."""
    liked: dict[str, float] = {}
    for item in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        weights = [one.removeprefix("q=") for one in parameters if one.startswith("q=")]
        try:
            liked[kind] = float(weights[0]) if weights else 1.0
        except ValueError:
            continue
    return liked.get("text/html", 0.0) > 0 and liked["text/html"] >= liked.get("application/json", 0.0)


def check_same_origin(request: Request, base_url: str) -> None:
    """Let a form through that our own page sent, or that no browser sent.

    A page without a referrer sends `Origin: null` with its own forms, so that `Sec-Fetch-Site` has to tell
    those from another site's; where a browser says neither, the form is refused.

    Raises:
        Forbidden: Another site sent it.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host")
    own = (None, "null", origin_of(base_url), f"http://{host}", f"https://{host}")
    unknown = origin == "null" and site is None
    if origin not in own or site not in (None, "same-origin", "none") or unknown:
        raise Forbidden("This form was sent from another site. Open the payment's own page and use that.")


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, as a browser names an origin."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def payment_of(call: Call) -> tuple[Realm, Payment]:
    """The payment in the path. Raises PaymentNotFound when there is none."""
    realm = call.house.realm_of_payment(call.params["id"])
    return realm, realm.payments.find(call.params["id"])


def read_form(request: Request) -> dict[str, list[str]]:
    """What a form says, blank fields too.

    Raises:
        UnsupportedMediaType: It is no form.
        InvalidParams: It cannot be read.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise UnsupportedMediaType(f"Send the form as {FORM_TYPE}.")
    try:
        return parse_qs(request.body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        raise InvalidParams("The form cannot be read.") from None


def _back_to(call: Call, payment: Payment) -> Answer:
    location = f"{root_of(call.house.base_url)}/pay/{payment.id}"
    return Answer(303, b"", (("Location", location), *SAFE))
