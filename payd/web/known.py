"""What is found out about a request before its handler runs: the same for each request with the same head.

A backend that asks for a status sends the same bytes again and again. Its route, its caller, its version and
its merchant follow from them and from what hardly anybody changes: keys, apps and merchants, which the store
watches, and the version of the account. While none of these has changed, they are not looked for again. What
changes with each request is: the limits of the caller, and all that a handler says.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

from dataclasses import dataclass

from payd.store.accounts import Account
from payd.web.auth import Caller
from payd.web.call import Call, Request
from payd.web.house import House
from payd.web.routes import Route


@dataclass(slots=True, frozen=True)
class Known:
    """What a key's request comes to, up to its handler.

    Attributes:
        route: What is asked for.
        params: Those in its path.
        caller: Whose key it is.
        version: In which it is answered.
        merchant_id: Whose request it is, where it says so.
        account: The caller's, as it was.
        epoch: The store's, as it was.
    """

    route: Route
    params: dict[str, str]
    caller: Caller
    version: str
    merchant_id: str | None
    account: Account | None
    epoch: int

    @property
    def prompt(self) -> bool:
        """Whether it waits for a commit at most."""
        return self.route.prompt


def note_known(call: Call, route: Route) -> None:
    """Remember what `call` came to for requests with the same head, if the door remembers heads."""
    request, caller = call.request, call.caller
    if request.seen is None or caller is None or not request.headers.get("api-key"):
        return
    account = _account(call.house, caller)
    params = dict(call.params)  # a handler may add to its own
    epoch = caller.realm.db.epoch
    request.seen.known = Known(route, params, caller, call.version, call.merchant_id, account, epoch)


def still_known(house: House, request: Request) -> Known | None:
    """What is known of requests with this head, if it still holds."""
    if request.seen is None or not isinstance(known := request.seen.known, Known):
        return None
    caller = known.caller
    if caller.realm.db.epoch != known.epoch or _account(house, caller) is not known.account:
        request.seen.known = None
        return None
    return known


def _account(house: House, caller: Caller) -> Account | None:
    return None if caller.account_id is None else house.accounts.get(caller.account_id)
