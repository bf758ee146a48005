"""The log of API requests: who asked for what, how it ended, and what a refusal said.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.actors.maintenance import DAY_MS, REQUESTS_KEPT_MS
from payd.core.text import on_one_line
from payd.store.api_log import LogFilter, LogRow, list_logged
from payd.store.apps import list_apps
from payd.store.keys import list_keys
from payd.web.call import Answer
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.dashboard.visit import Visit
from payd.web.dashboard.webhooks_view import instant_ms, pretty, zone_word
from payd.web.log_commands import METHODS, place_of

PAGE_ROWS: Final = 50
FILTERS: Final = ("key", "method", "request", "code", "since")
CODES: Final[dict[str, tuple[str, tuple[int, int]]]] = {
    "refused": ("All refusals", (400, 599)),
    "2xx": ("2xx", (200, 299)),
    **{str(code): (str(code), (code, code)) for code in (400, 401, 403, 404, 409, 410, 413, 422, 429)},
    "5xx": ("5xx", (500, 599)),
}


class Entry(msgspec.Struct, frozen=True):
    """One request; `error` is the refusal as it was sent, for reading."""

    seq: int
    at_ms: int
    key: str
    method: str
    path: str
    status: int
    kind: str
    took_ms: int
    request_id: str
    error: str
    words: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/log: query key, method, request, code, since, cursor; live, how many came since."""
    chosen = _filter(visit)
    cursor = visit.query("cursor")
    before_seq = decode_cursor(cursor, (int,))[0] if cursor else None
    asked = {name: visit.query(name) for name in FILTERS}
    rows = await visit.realm.db.read(
        list_logged, chosen, None if visit.is_fragment else before_seq, PAGE_ROWS + 1
    )
    if visit.is_fragment:
        return _live(visit, rows, asked)
    more, rows = len(rows) > PAGE_ROWS, rows[:PAGE_ROWS]
    newest = rows[0].seq if rows and before_seq is None else 0
    return visit.page(
        "log.html",
        rows=[_entry(row) for row in rows],
        asked=asked,
        is_filtered=any(asked.values()) or bool(cursor),
        keys=_keys(visit),
        methods=[("", "Any"), *((one, one) for one in METHODS)],
        codes=[("", "Any"), *((name, words) for name, (words, _) in CODES.items())],
        zone=zone_word(visit.request.headers),
        keep_days=REQUESTS_KEPT_MS // DAY_MS,
        here=visit.to("log"),
        newest=visit.to("log", **asked) if cursor else "",
        older=visit.to("log", **asked, cursor=encode_cursor(rows[-1].seq)) if more else "",
        live="" if cursor else visit.to("log", **asked, after=str(newest)),
    )


def _filter(visit: Visit) -> LogFilter:
    method, code, since = visit.choice("method", METHODS), visit.choice("code", CODES), visit.query("since")
    asked = visit.query("request")
    is_id = asked.startswith("req_")
    route, subject = place_of(None if is_id else asked or None, method or None)
    return LogFilter(
        account_id=visit.account_id,
        actor=visit.query("key") or None,
        method=method or None,
        statuses=CODES[code][1] if code else None,
        start_ms=instant_ms(visit.request.headers, since, "since") if since else None,
        route=route,
        request_id=asked if is_id else None,
        subject=subject,
    )


def _keys(visit: Visit) -> list[tuple[str, str]]:
    """Those whose requests may be in the log; each `payd listen` had one of its own, and there were many."""
    since_ms = visit.realm.clock.now_ms() - REQUESTS_KEPT_MS
    keys = visit.realm.db.point(list_keys, visit.account_id, since_ms)
    apps = visit.realm.db.point(list_apps, visit.account_id)
    return [
        ("", "Any"),
        *((one.id, f"{one.name} (…{one.last4})") for one in keys),
        *((one.id, f"{one.name} (app)") for one in apps),
    ]


def _live(visit: Visit, rows: list[LogRow], asked: dict[str, str]) -> Answer:
    known = visit.row("after") or 0
    new = sum(row.seq > known for row in rows)
    words = "" if not new else f"more than {PAGE_ROWS}" if new > PAGE_ROWS else str(new)
    return visit.page("log_live.html", new=words, here=visit.to("log", **asked))


def _entry(row: LogRow) -> Entry:
    logged = row.logged
    key = logged.actor if row.key_name is None else f"{row.key_name} (…{row.key_last4})"
    return Entry(
        seq=row.seq,
        at_ms=logged.at_ms,
        key=key,
        method=logged.method,
        path=on_one_line(logged.path),
        status=logged.status,
        kind="good" if logged.status < 400 else "bad",
        took_ms=logged.took_ms,
        request_id=logged.request_id,
        error="" if logged.error is None else pretty(logged.error),
        words=_words(logged.error),
    )


def _words(error: bytes | None) -> str:
    """A refusal's code; empty where there is none to be read, as in one that was cut."""
    if error is None:
        return ""
    try:
        found: Any = msgspec.json.decode(error)
    except msgspec.DecodeError:
        return ""
    code = found.get("code") if isinstance(found, dict) else None
    return code if isinstance(code, str) else ""
