"""What is said on every page because it must not wait until somebody looks: failing webhooks, moving money.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from payd.core.endpoint import Endpoint, EndpointState, disables_at_ms
from payd.core.errors import StoreUnavailable
from payd.core.span import span
from payd.store.endpoints import find_endpoint
from payd.store.settlement_changes import next_change_of

if TYPE_CHECKING:
    from payd.web.dashboard.visit import Visit

# Until then it has failed once or twice, and counted seconds would only seem exact.
JUST_MS: Final = 60_000


class Banner(msgspec.Struct, frozen=True):
    """One sentence: `words`, an instant if there is one, `then`, and a link to where it is set right."""

    kind: str
    words: str
    at_ms: int | None
    then: str
    href: str
    link: str


def banners_of(visit: Visit) -> tuple[Banner, ...]:
    """Those of the account: where its live money is to go in any mode, as one signs in to test mode; of the
    endpoint in the visit's mode. None while a store cannot be read, which pages say.
    """
    try:
        found = change_banners(visit)
        endpoint = visit.realm.db.point(find_endpoint, visit.account_id)
    except StoreUnavailable:
        return ()
    if endpoint is None:
        return found
    now_ms = visit.realm.clock.now_ms()
    return (*found, *endpoint_banners(endpoint, now_ms, visit.to("webhooks"), visit.mode))


def change_banners(visit: Visit) -> tuple[Banner, ...]:
    """What is to be said of a destination's change that waits; none does in test mode."""
    live = visit.house.realms.get("live")
    change = None if live is None else live.db.point(next_change_of, visit.account_id)
    if change is None:
        return ()
    where = "" if visit.mode == "live" else "In live mode: "
    words = f"{where}The address to which money goes is to change, first on"
    to = visit.to(f"/d/live/merchants/{change.merchant_id}")
    return (Banner("wait", words, change.due_at_ms, ".", to, "Look, or cancel it"),)


def endpoint_banners(endpoint: Endpoint, now_ms: int, href: str, mode: str) -> tuple[Banner, ...]:
    """What is to be said of an endpoint; a paused one was paused by somebody, on purpose."""
    name = "The webhook endpoint" if mode == "live" else "The test webhook endpoint"
    if endpoint.state is EndpointState.DISABLED:
        off = "" if endpoint.off_since_ms is None else f" for {span(now_ms - endpoint.off_since_ms)}"
        words = f"{name} has been disabled{off}: no webhooks are sent."
        return (Banner("bad", words, None, "", href, "Enable it"),)
    if endpoint.failing_since_ms is None or endpoint.state is not EndpointState.ENABLED:
        return ()
    until_ms = disables_at_ms(endpoint, now_ms)
    lasts_ms = now_ms - endpoint.failing_since_ms
    fails = "has just begun to fail" if lasts_ms < JUST_MS else f"has been failing for {span(lasts_ms)}"
    then = "" if until_ms is None else "; if that goes on, it will be disabled on"
    return (Banner("wait", f"{name} {fails}{then}", until_ms, ".", href, "See why"),)
