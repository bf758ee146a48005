"""What an operator can look for in what happened: events, and the log of requests, as they come.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from payd.core.errors import InvalidParams
from payd.core.event import iso_ms
from payd.store.api_log import LogFilter, LogRow, list_logged, logged_after, newest_logged
from payd.web.command import Command, OfId, OfMode, account_of, ask, realm_of
from payd.web.query import parse_instant_ms
from payd.web.routes import match_route

if TYPE_CHECKING:
    from payd.web.house import House

SHOWN: Final = 20  # the newest: a screen; more are asked for
TAKEN_MAX: Final = 500  # by who follows, at once

CLASSES: Final = {
    "2xx": (200, 299),
    "3xx": (300, 399),
    "4xx": (400, 499),
    "5xx": (500, 599),
    "refused": (400, 599),
}
"""Statuses that are asked for by a word."""
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""Those of the API."""


class _Events(OfMode, frozen=True, kw_only=True):
    type: str | None = None
    payment: str | None = None
    delivery: str | None = None
    cursor: str | None = None
    limit: int = SHOWN


class _Logs(OfMode, frozen=True, kw_only=True):
    """`after` is a `seq`: what is behind it, oldest first; else the newest, newest first, before `before`."""

    status: str | None = None
    method: str | None = None
    path: str | None = None
    key: str | None = None
    request: str | None = None
    merchant: str | None = None
    since: str | None = None
    after: int | None = None
    before: int | None = None
    limit: int = SHOWN


async def _events(house: House, args: _Events) -> Any:
    query = {
        "type": args.type,
        "paymentId": args.payment,
        "delivery": args.delivery,
        "cursor": args.cursor,
        "limit": args.limit,
    }
    return await ask(house, args, "GET", "/v1/events", query=query)


async def _event(house: House, args: OfId) -> Any:
    return await ask(house, args, "GET", f"/v1/events/{quote(args.id, safe='')}")


async def _logs(house: House, args: _Logs) -> Any:
    """`{data, newest}`: requests, and the `seq` behind which nothing was when it was looked for."""
    realm, chosen = realm_of(house, args.mode), filter_of(account_of(house, args).id, args)
    newest = realm.db.point(newest_logged)
    limit = max(1, min(args.limit, TAKEN_MAX))
    if args.after is None:
        rows = await realm.db.read(list_logged, chosen, args.before, limit)
    else:
        # A log that was forgotten as a whole begins anew with 1.
        after = args.after if args.after <= newest else 0
        rows = await realm.db.read(logged_after, chosen, after, limit)
        newest = rows[-1].seq if len(rows) == limit else max([newest, *(row.seq for row in rows)])
    return {"data": [_shown(row) for row in rows], "newest": newest}


def filter_of(account_id: str, args: _Logs) -> LogFilter:
    """Which requests are wanted.

    Raises:
        InvalidParams: A filter is none.
    """
    method = None if args.method is None else args.method.upper()
    if method is not None and method not in METHODS:
        raise InvalidParams(f"The method must be one of {', '.join(METHODS)}.")
    route, subject = place_of(args.path, method)
    return LogFilter(
        account_id=account_id,
        actor=args.key,
        method=method,
        route=route,
        subject=subject,
        request_id=args.request,
        merchant_id=args.merchant,
        statuses=None if args.status is None else _statuses(args.status),
        start_ms=None if args.since is None else parse_instant_ms(args.since, "since"),
    )


def _statuses(text: str) -> tuple[int, int]:
    if text in CLASSES:
        return CLASSES[text]
    if text.isascii() and text.isdecimal() and len(text) == 3:
        return int(text), int(text)
    raise InvalidParams(f"The status must be a number such as 404, or one of {', '.join(CLASSES)}.")


def place_of(path: str | None, method: str | None) -> tuple[str | None, str | None]:
    """The template of a path, and the id in it; an id alone is one in any path."""
    if path is None:
        return None, None
    if not path.startswith("/"):
        return None, path
    for one in (method,) if method else METHODS:
        route, params = match_route(one, path)
        if route is not None and "{" not in path:
            return route.path, next(iter(params.values()), None)
    return path, None


def _shown(row: LogRow) -> dict[str, Any]:
    logged = row.logged
    return {
        "seq": row.seq,
        "at": iso_ms(logged.at_ms),
        "method": logged.method,
        "path": logged.path,
        "status": logged.status,
        "durationMs": logged.took_ms,
        "requestId": logged.request_id,
        "keyId": logged.actor,
        "keyName": row.key_name,
        "error": _error(logged.error),
    }


def _error(body: bytes | None) -> Any:
    """A refusal as it was sent; null where it was cut."""
    if body is None:
        return None
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


LOG_COMMANDS: Final[dict[str, Command]] = {
    "event.list": Command(_Events, _events, changes=False),
    "event.show": Command(OfId, _event, changes=False),
    "log.list": Command(_Logs, _logs, changes=False),
    # For who follows: without a server, nothing would ever come.
    "log.follow": Command(_Logs, _logs, needs_server=True, changes=False),
}
"""The commands on events and on the log of requests."""
