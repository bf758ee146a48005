"""Showing again who one is, before something that a stolen session must not do.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

from payd.core.errors import Forbidden, RateLimited
from payd.web.call import Answer
from payd.web.dashboard.entering import begin, next_of, note, passed, renew, who_tries
from payd.web.dashboard.passkeys import ask_for_one, check_one
from payd.web.dashboard.visit import Visit
from payd.web.errors import STATUS

FRESH_MS: Final = 10 * 60_000
"""So long a proof holds."""

OWN_FIELDS: Final = ("form_token", "once", "proof_password", "proof_passkey", "proof_challenge")
"""What the page that asks for it adds to the form that it interrupts."""

WRONG: Final = "The password is wrong."


async def prove(visit: Visit) -> Answer | None:
    """None if the person showed lately who they are, or does with this form; else the page that asks."""
    # One of the future was made while the clock was wrong, and would hold until then.
    if abs(visit.now_ms - visit.session.proved_at_ms) < FRESH_MS:
        return None
    password, passkey = visit.secret("proof_password"), visit.secret("proof_passkey")
    if not password and not passkey:
        return ask_for_proof(visit)
    try:
        await (_by_passkey(visit, passkey) if passkey else _by_password(visit, password))
    except (Forbidden, RateLimited) as refusal:
        visit.refusal = refusal
        return ask_for_proof(visit, STATUS[type(refusal)])
    await renew(visit)
    return None


def ask_for_proof(visit: Visit, status: int = 403) -> Answer:
    """A page that asks, with what was typed kept in it: once shown, the form goes on as if nothing was."""
    if visit.request.method == "POST":
        action = visit.to(visit.request.path)
        kept = [(name, one) for name, found in visit.form.items() if name not in OWN_FIELDS for one in found]
    else:
        query = visit.request.query_string
        action = visit.to("/prove")
        kept = [("next", visit.request.path + (f"?{query}" if query else ""))]
    return visit.page("proof.html", status, action=action, kept=kept, passkey=ask_for_one(visit, visit.user))


async def go_on(visit: Visit) -> Answer:
    """POST /prove: on to the page that asked."""
    return visit.redirect_raw(next_of(visit) or f"/d/{visit.mode}/")


async def _by_password(visit: Visit, password: str) -> None:
    whos = who_tries(visit, visit.user.email, visit.user)
    await begin(visit, whos)
    if not await visit.house.passwords.verify(visit.user.password_hash, password):
        await note(visit, visit.user, visit.user.email, "password", "refused")
        raise Forbidden(WRONG)
    await passed(visit, whos)


async def _by_passkey(visit: Visit, answer: str) -> None:
    found = await check_one(visit, answer, visit.typed("proof_challenge"))
    if found.user_id != visit.user.id:
        raise Forbidden("This is another person's passkey.")
