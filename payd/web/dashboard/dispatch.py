"""The whole life of a visit: page, limits, session, mode, permission, form, proof, handler, refusals.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlencode

import structlog

from payd.core.errors import (
    Forbidden,
    InternalError,
    MethodNotAllowed,
    NotFound,
    OutcomeUnknown,
    PaydError,
    StoreUnavailable,
)
from payd.core.ids import Realm as Mode
from payd.core.roles import LEAST
from payd.store.sessions import SEEN_EVERY_MS, find_session, touch_session
from payd.web.accept import prefers_html, wants_json
from payd.web.call import Answer, Request
from payd.web.client import rate_key
from payd.web.command import real_ms
from payd.web.dashboard.as_labels import as_labels
from payd.web.dashboard.cookies import (
    FLASH_S,
    Cookies,
    form_token,
    is_form_token,
    is_token,
    new_token,
    pack_flash,
    token_hash,
    unpack_flash,
)
from payd.web.dashboard.proof import prove
from payd.web.dashboard.routes import Page, find_pages
from payd.web.dashboard.visit import FIELDS_MAX, Visit
from payd.web.errors import STATUS, error_answer
from payd.web.form import check_same_origin, read_form, read_upload
from payd.web.house import House
from payd.web.html import NO_STORE, root_of
from payd.web.limits import refuse_for

log = structlog.get_logger("payd.dashboard")

ROOTS: Final = (
    "/d",
    "/settings",
    "/login",
    "/logout",
    "/account",
    "/setup",
    "/join",
    "/reset",
    "/prove",
    "/status",
)
BELOW: Final = tuple(f"{root}/" for root in ROOTS)
DOOR_S: Final = 86_400
FORM_TOKEN: Final = "form_token"
SIGNED_OUT: Final = "You were signed out meanwhile, so nothing was done."


def is_page(request: Request) -> bool:
    """Whether a request is for the dashboard; the bare host is, for a person."""
    path = request.path
    if path == "/":
        return prefers_html(request.headers.get("accept", ""))
    return path in ROOTS or path.startswith(BELOW)


def upload_max(house: House, request: Request) -> int:
    """How large the body of a visit may be: as others, or with a file, of who is signed in.

    It is asked before the body is read, so that no stranger has the server hold what is large.
    """
    page = find_pages(request.path)[0].get(request.method)
    token = Cookies.at(house.base_url).read(request.headers, "session")
    if page is None or not page.upload_max or not is_token(token):
        return house.body_max
    known = house.office.point(find_session, token_hash(token), real_ms(house))
    return house.body_max if known is None else house.body_max + page.upload_max


async def answer_page(house: House, request: Request, request_id: str) -> tuple[Answer, str]:
    """Answer a visit, and say by which template of a path it is counted. Does not raise `PaydError`."""
    visit = Visit(request, house, {}, request_id, Cookies.at(house.base_url), real_ms(house))
    pages, visit.params = find_pages(request.path)
    page = pages.get(request.method)
    counted = "/d" if page is None else page.path
    try:
        found = await _answer(visit, page, tuple(sorted(pages)))
    except PaydError as refusal:
        if isinstance(refusal, InternalError):
            log.error("page.failed", request_id=request_id, path=request.path, error=repr(refusal))
        found = _refused(visit, refusal)
    except Exception as bug:
        log.error("page.crashed", request_id=request_id, path=request.path, exc_info=bug)
        found = _refused(visit, InternalError("Something broke on our side. Try again."))
    return replace(found, headers=(*found.headers, *visit.set_cookies)), counted


async def _answer(visit: Visit, page: Page | None, methods: tuple[str, ...]) -> Answer:
    request, house = visit.request, visit.house
    refuse_for(house.limits.per_ip.take(rate_key(request.client_ip)))
    if request.refusal is not None:
        raise request.refusal
    if request.path == "/":
        return visit.redirect("/d/test/")
    if page is None:
        return _nothing_here(visit, methods)
    _find_session(visit)
    if page.may is not None and visit.signed_in is None:
        return _to_login(visit)
    if page.in_mode:
        _choose_mode(visit)
    if page.may is not None and not visit.may(page.may):
        least = LEAST[page.may].value
        raise Forbidden(
            f"This needs the role {least}; yours is {visit.role.value}. Ask an owner of the account."
        )
    await _touch(visit, page)
    if request.method != "POST":
        asked = await prove(visit) if page.proof else None
        return asked or await page.handler(visit)
    return await _post(visit, page)


async def _post(visit: Visit, page: Page) -> Answer:
    """A form: whether it is ours, then what it does; refused, it is shown again."""
    check_same_origin(visit.request, visit.house.base_url)
    if page.upload_max:
        visit.form, visit.upload = read_upload(visit.request, FIELDS_MAX)
    else:
        visit.form = read_form(visit.request, FIELDS_MAX)
    said = visit.typed(FORM_TOKEN) or visit.request.headers.get("x-form-token", "")
    if not is_form_token(said, visit.form_token):
        raise Forbidden(_not_ours(visit))
    asked = await prove(visit) if page.proof else None
    if asked is not None:
        return asked
    try:
        return await page.handler(visit)
    except PaydError as refusal:
        if page.shown_by is None or isinstance(refusal, InternalError):
            raise
        visit.refusal = refusal
        shown = await page.shown_by(visit)
        return Answer(STATUS[type(refusal)], shown.body, (*shown.headers, *_more(refusal)))


def _not_ours(visit: Visit) -> str:
    """What to do about a form that is none of this visit: load it again, where its cookies are kept."""
    if visit.signed_in is None and not visit.cookies.read(visit.request.headers, "door"):
        return (
            "This page is too old, or your browser keeps no cookie of it. Open it where its address begins"
            f" with {visit.house.base_url}, with cookies allowed, and try again."
        )
    return "This page is too old, or was open for another account. Go back, reload it, and try again."


def _find_session(visit: Visit) -> None:
    """Who is there, and what their forms carry."""
    house, headers = visit.house, visit.request.headers
    token = visit.cookies.read(headers, "session")
    if is_token(token):
        visit.signed_in = house.office.point(find_session, token_hash(token), visit.now_ms)
    key = house.realms["test"].seal.derive("dashboard forms")
    if visit.signed_in is not None:
        session = visit.signed_in.session
        visit.form_token = form_token(key, f"{session.id} {session.account_id}")
        visit.mode = session.mode if session.mode in house.realms else "test"
    else:
        door = visit.cookies.read(headers, "door")
        if not is_token(door):
            door = new_token(house.entropy, visit.now_ms)
            if visit.request.method == "GET":
                visit.set_cookies.append(visit.cookies.set("door", door, DOOR_S))
        visit.form_token = form_token(key, f"door {door}")
    flash = visit.cookies.read(headers, "flash")
    if flash and visit.request.method == "GET" and not visit.is_fragment:
        visit.flash = unpack_flash(flash)
        visit.set_cookies.append(visit.cookies.drop("flash"))


def _choose_mode(visit: Visit) -> None:
    wanted = visit.params.pop("mode")
    modes: dict[str, Mode] = {"test": "test", "live": "live"}
    mode = modes.get(wanted)
    if mode is None:
        raise NotFound("There is nothing here.")
    if mode not in visit.house.realms:
        raise NotFound(
            "Live mode does not run yet: no chain is configured. Add [[chains]] to payd.toml and start the"
            " server again."
        )
    visit.mode = mode


async def _touch(visit: Visit, page: Page) -> None:
    """Store that the session is in use, and where: now and then, as each write waits for the disk.

    A page that keeps itself up to date is no use: left open on a desk, it would never let the session end.
    Where nothing can be stored, pages are shown all the same: they say what is wrong.
    """
    if visit.signed_in is None or visit.is_fragment:
        return
    session = visit.session
    moved = page.in_mode and session.mode != visit.mode
    if moved or visit.now_ms - session.seen_at_ms >= SEEN_EVERY_MS:
        with suppress(StoreUnavailable, OutcomeUnknown):
            await visit.house.office.write(touch_session, session.id, visit.now_ms, mode=visit.mode)


def _to_login(visit: Visit) -> Answer:
    """To the door, and back here afterwards; a part of a page has its page go there, and back to itself.

    A form was lost on the way: that is said, and the page on which it stands comes afterwards.
    """
    request = visit.request
    wanted = request.path + (f"?{request.query_string}" if request.query_string else "")
    if visit.is_fragment:
        wanted = _own_path(visit, request.headers.get("hx-current-url", ""))
    elif request.method != "GET":
        wanted = _own_path(visit, request.headers.get("referer", ""))
    query = {"next": wanted} if wanted else {}
    to = f"{root_of(visit.house.base_url)}/login" + (f"?{urlencode(query)}" if query else "")
    if visit.is_fragment:
        return Answer(401, b"", (("HX-Redirect", to), NO_STORE))
    if request.method != "GET":
        visit.set_cookies.append(visit.cookies.set("flash", pack_flash(SIGNED_OUT), FLASH_S))
    return Answer(303, b"", (("Location", to), NO_STORE))


def _own_path(visit: Visit, url: str) -> str:
    """Path and query of a page of ours that a browser names; empty for any other."""
    base_url, whole = visit.house.base_url, url.partition("#")[0]
    return whole.removeprefix(base_url) if whole.startswith(f"{base_url}/") else ""


def _nothing_here(visit: Visit, methods: tuple[str, ...]) -> Answer:
    """A refusal that tells strangers nothing, and a slash that was forgotten."""
    _find_session(visit)
    if visit.request.method == "GET" and find_pages(f"{visit.request.path}/")[0]:
        return visit.redirect(quote(f"{visit.request.path}/"))
    if methods:
        raise MethodNotAllowed(
            f"{visit.request.method} is not possible here.", details={"allowed": list(methods)}
        )
    raise NotFound("There is nothing here.")


def _refused(visit: Visit, refusal: PaydError) -> Answer:
    """A refusal as a page; for a script of ours that asks for JSON, as the API has it."""
    if wants_json(visit.request.headers.get("accept", "")):
        return error_answer(refusal, visit.request_id, visit.house.base_url)
    broken = isinstance(refusal, InternalError)
    found = visit.page(
        "error.html",
        STATUS[type(refusal)],
        heading=_HEADINGS.get(refusal.code, "This did not work"),
        body=as_labels(refusal),
        request_id=visit.request_id if broken else "",
    )
    found.headers += _more(refusal)
    return found


def _more(refusal: PaydError) -> tuple[tuple[str, str], ...]:
    """What a refusal says in headers."""
    said = []
    if "retryAfterS" in refusal.details:
        said.append(("Retry-After", str(refusal.details["retryAfterS"])))
    if "allowed" in refusal.details:
        said.append(("Allow", ", ".join(refusal.details["allowed"])))
    return tuple(said)


_HEADINGS: Final = {
    "not_found": "Not found",
    "payment_not_found": "No such payment",
    "forbidden": "You may not do this",
    "rate_limited": "Too many requests",
    "internal_error": "Something broke on our side",
    "method_not_allowed": "This is not a page",
}
