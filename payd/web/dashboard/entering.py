"""What happens once somebody has shown who they are, and how tries before that are slowed down.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import hmac
import math
import re
from typing import TYPE_CHECKING, Final

from payd.core.errors import Forbidden, RateLimited
from payd.core.tries import ACCOUNT, ADDRESS, CODE, KNOWN_BROWSER
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.sessions import Session, end_session, insert_session, renew_session
from payd.store.sign_ins import Outcome, SignIn, Way, insert_sign_in
from payd.store.tries import Who, begin_try, forgive
from payd.store.users import User, accounts_of, find_user
from payd.web.client import rate_key
from payd.web.dashboard.cookies import form_token, new_token, token_hash

if TYPE_CHECKING:
    from payd.web.call import Answer
    from payd.web.dashboard.visit import Visit

KNOWN_S: Final = 365 * 86_400

# Where the door may lead: below pages of our own, and nowhere else.
_NEXT: Final = re.compile(r"/(d|settings|join|status)(/[\w.\-/]*)?(\?[\w.\-=&%+:,]*)?", re.ASCII)


def next_of(visit: Visit) -> str:
    """Where somebody wanted to go before they had to show who they are; empty if that is no page of ours."""
    wanted = visit.typed("next") or visit.query("next")
    return wanted if _NEXT.fullmatch(wanted) and "//" not in wanted else ""


def who_tries(visit: Visit, email: str, user: User | None) -> list[Who]:
    """By whom tries with a password are counted.

    A browser in which the person signed in before is counted by itself, so that strangers do not keep the
    person out: neither those who try the person's e-mail, nor those who come from the person's address, which
    is everybody's behind a proxy that hides them.
    """
    nonce = _nonce_of(visit, user)
    if user is not None and nonce:
        return [(KNOWN_BROWSER, f"{user.id} {nonce}")]
    return [(ACCOUNT, email), _address(visit)]


def who_codes(visit: Visit, user: User) -> list[Who]:
    """By whom tries with a code are counted; a browser that is known has no address here, either."""
    return [(CODE, user.id)] if _nonce_of(visit, user) else [(CODE, user.id), _address(visit)]


async def begin(visit: Visit, whos: list[Who]) -> None:
    """Count a try before it is looked at.

    Raises:
        RateLimited: It is too early; the message says how long.
    """
    wait_ms = await visit.house.office.write(begin_try, whos, visit.now_ms)
    if wait_ms:
        seconds = math.ceil(wait_ms / 1000)
        raise RateLimited(
            f"Too many tries. Try again in {in_words(seconds)}.", details={"retryAfterS": seconds}
        )


def in_words(seconds: int) -> str:
    """`40 seconds`, `12 minutes`."""
    if seconds < 60:
        return f"{seconds} second{'s' if seconds > 1 else ''}"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


async def passed(visit: Visit, whos: list[Who]) -> None:
    """It was right."""
    await visit.house.office.write(forgive, whos)


async def note(visit: Visit, user: User | None, email: str, way: Way, outcome: Outcome) -> None:
    """Store a try that did not let anybody in yet."""
    await visit.house.office.write(insert_sign_in, _sign_in(visit, user, email, way, outcome))


async def enter(visit: Visit, user: User, way: Way, to: str = "", said: str = "") -> Answer:
    """Sign a person in: a session with a new token, in place of the browser's session before.

    Raises:
        Forbidden: They have no part in any account any more, or their login was changed meanwhile.
    """
    house, now_ms = visit.house, visit.now_ms
    accounts = house.office.point(accounts_of, user.id)
    if not accounts:
        raise Forbidden("You have no part in any account any more. Ask an owner for an invitation.")
    token = new_token(house.entropy, now_ms)
    session = Session(
        new_id("ses_", now_ms, house.entropy), user.id, accounts[0][0], "test", now_ms, now_ms, now_ms,
        visit.request.client_ip, visit.request.headers.get("user-agent", ""),
    )  # fmt: skip
    before = visit.signed_in

    def step(tx: Tx) -> None:
        _check_unchanged(tx, user)
        if before is not None:
            end_session(tx, before.user.id, before.session.id)
        insert_session(tx, session, token_hash(token))
        insert_sign_in(tx, _sign_in(visit, user, user.email, way, "in"))

    await house.office.write(step)
    nonce = new_token(house.entropy, now_ms)
    visit.set_cookies += [
        visit.cookies.session(token),
        visit.cookies.drop("door"),
        visit.cookies.set("known", f"{nonce}.{_known(visit, user, nonce)}", KNOWN_S),
    ]
    return visit.redirect_raw(to or next_of(visit) or f"/d/{session.mode}/", said)


async def renew(visit: Visit) -> None:
    """Note that the person has just shown again who they are; the session gets another token."""
    token = new_token(visit.house.entropy, visit.now_ms)
    if not await visit.house.office.write(renew_session, visit.session.id, token_hash(token), visit.now_ms):
        raise Forbidden("This session was ended. Sign in again.")
    visit.set_cookies.append(visit.cookies.session(token))


def _check_unchanged(tx: Tx, user: User) -> None:
    """Refuse who showed what counts no more: checking it took a while, and a new password ends all sessions.

    Raises:
        Forbidden: The password is another one.
    """
    now = find_user(tx, user.id)
    if now is None or now.password_hash != user.password_hash:
        raise Forbidden("Your login was changed a moment ago. Sign in again.")


def _address(visit: Visit) -> Who:
    return ADDRESS, rate_key(visit.request.client_ip)


def _nonce_of(visit: Visit, user: User | None) -> str:
    """What a browser is known by in which the person signed in before; empty if it is none."""
    nonce, _, proof = visit.cookies.read(visit.request.headers, "known").partition(".")
    if user is None or not hmac.compare_digest(proof.encode(), _known(visit, user, nonce).encode()):
        return ""
    return nonce


def _known(visit: Visit, user: User, nonce: str) -> str:
    key = visit.house.realms["test"].seal.derive("dashboard browsers")
    return form_token(key, f"{user.id} {nonce}")


def _sign_in(visit: Visit, user: User | None, email: str, way: Way, outcome: Outcome) -> SignIn:
    request = visit.request
    agent = request.headers.get("user-agent", "")
    return SignIn(visit.now_ms, user.id if user else None, email, way, outcome, request.client_ip, agent)
