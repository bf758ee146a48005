"""Where a person is signed in, and who tried to be.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from payd.core.errors import NotFound
from payd.store.db import Tx
from payd.store.sessions import end_session, end_sessions, list_sessions
from payd.store.sign_ins import SignIn, list_sign_ins
from payd.web.call import Answer
from payd.web.dashboard.visit import Visit

HERE: Final = "/settings/sessions"
SIGN_INS_SHOWN: Final = 30

_BROWSERS: Final = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)  # fmt: skip
_SYSTEMS: Final = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS", "macOS"), ("Linux", "Linux"),
)  # fmt: skip
_WAYS: Final = {
    "password": "password",
    "code": "password and code",
    "recovery": "password and recovery code",
    "passkey": "passkey",
    "link": "one-time link",
}
_OUTCOMES: Final = {
    "in": ("signed in", "good"),
    "next": ("password right", "wait"),
    "refused": ("refused", "bad"),
}


class SessionLine(msgspec.Struct, frozen=True):
    """One session in the list."""

    id: str
    browser: str
    ip: str
    since_ms: int
    seen_at_ms: int
    this: bool


class SignInLine(msgspec.Struct, frozen=True):
    """One try in the list; `kind` is how it looks."""

    at_ms: int
    way: str
    outcome: str
    kind: str
    ip: str
    browser: str


async def page(visit: Visit) -> Answer:
    """GET /settings/sessions: the sessions that are open, and the last tries with the person's e-mail."""
    office = visit.house.office
    lines = [
        SessionLine(
            one.id, browser_of(one.user_agent), one.ip, one.created_at_ms, one.seen_at_ms,
            one.id == visit.session.id,
        )
        for one in office.point(list_sessions, visit.user.id, visit.now_ms)
    ]  # fmt: skip
    tries = office.point(list_sign_ins, visit.user.id, SIGN_INS_SHOWN)
    return visit.page("sessions.html", sessions=lines, sign_ins=[_line(one) for one in tries], here=HERE)


async def end(visit: Visit) -> Answer:
    """POST /settings/sessions/end: one that is not to go on, at once.

    Raises:
        NotFound: The person has no such session.
    """
    wanted = visit.typed("id")

    def step(tx: Tx) -> bool:
        ended = end_session(tx, visit.user.id, wanted)
        if ended:
            visit.audit(tx, "session.end", wanted)
        return ended

    if not await visit.house.office.write(step):
        raise NotFound("There is no such session any more.")
    return visit.redirect(HERE, "The session is ended.")


async def end_others(visit: Visit) -> Answer:
    """POST /settings/sessions/end-others: all but this one."""

    def step(tx: Tx) -> int:
        visit.audit(tx, "session.end", "others")
        return end_sessions(tx, visit.user.id, but=visit.session.id)

    ended = await visit.house.office.write(step)
    return visit.redirect(HERE, f"Sessions that were ended: {ended}.")


def browser_of(user_agent: str) -> str:
    """What a person would call it: `Firefox on Linux`."""
    browser = next((name for mark, name in _BROWSERS if re.search(rf"\b{mark}", user_agent)), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "Another program"


def _line(one: SignIn) -> SignInLine:
    outcome, kind = _OUTCOMES[one.outcome]
    return SignInLine(one.at_ms, _WAYS[one.way], outcome, kind, one.ip, browser_of(one.user_agent))
