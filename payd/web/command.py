"""What a command of an operator is, and how it asks the API's own handlers.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.store.accounts import Account, choose_account
from payd.store.keys import SCOPES
from payd.store.merchants import account_of_merchant
from payd.store.payments import find_payment
from payd.web.auth import Caller
from payd.web.inside import Query, ask_api

if TYPE_CHECKING:
    from payd.web.house import House, Realm

ACTOR: Final = "cli"
"""Who the audit says it was."""

Mode = Literal["test", "live"]


class Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a command."""


class OfMode(Args, frozen=True, kw_only=True):
    """What all commands on a realm take. `account` is an id or a name; where there is one, it goes unsaid."""

    mode: Mode = "test"
    account: str | None = None


class OfId(OfMode, frozen=True, kw_only=True):
    """A command on one thing."""

    id: str


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it takes and what it does. It raises `PaydError` to refuse.

    `needs_server` is for what the long-lived tasks do: with the stores alone open it would never be done.
    `changes` is whether a log of what operators did has to have it: not so what only looks, which somebody
    may do twice a second.
    """

    args: type[Args]
    run: Callable[[House, Any], Awaitable[Any]]
    needs_server: bool = False
    changes: bool = True


async def ask(
    house: House,
    args: OfMode,
    method: str,
    path: str,
    body: Any = None,
    query: Query | None = None,
    *,
    merchant_id: str | None = None,
) -> Any:
    """What the API's own handler answers to the operator, who may do everything in the account.

    A body of bytes goes as it is, anything else as JSON.

    Raises:
        NotFound: The account has no merchant with that id.
    """
    caller = operator_of(house, args)
    if merchant_id is not None:
        account_id = caller.realm.db.point(account_of_merchant, merchant_id)
        if account_id != caller.account_id:
            raise NotFound(f"There is no merchant {merchant_id}.")
    return await ask_api(house, caller, method, path, body, query, merchant_id=merchant_id)


def operator_of(house: House, args: OfMode) -> Caller:
    """The operator as a caller of the API, who may do everything in the account."""
    account = account_of(house, args)
    return Caller(realm_of(house, args.mode), account.id, ACTOR, frozenset(SCOPES), None)


def real_ms(house: House) -> int:
    """Unix milliseconds by the wall: the office has no realm's time."""
    return house.realms["test"].clock.real_ms()


def realm_of(house: House, mode: Mode) -> Realm:
    """The realm of a mode.

    Raises:
        InvalidParams: There is none.
    """
    realm = house.realms.get(mode)
    if realm is None:
        raise InvalidParams(
            "There is no live mode, because no chain is configured. Add [[chains]] to payd.toml and start the"
            " server again, or use --mode test."
        )
    return realm


def account_of(house: House, args: OfMode) -> Account:
    """Whose the command is: the account that is named, else that of the payment that it is on.

    Raises:
        NotFound: There is no such account, or none at all.
        InvalidParams: There are several, and none is named.
    """
    wanted = args.account
    if wanted is None and isinstance(args, OfId):
        payment = realm_of(house, args.mode).db.point(find_payment, args.id)
        wanted = None if payment is None else payment.account_id
    return house.office.point(choose_account, wanted)
