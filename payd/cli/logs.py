"""`payd logs`: who asked the API for what and how it ended, as a list and as it happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import click
import trio

from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import Row, json_line, moment, show_rows
from payd.cli.teaching import teach
from payd.core.text import on_one_line
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin

LIMIT_MAX: Final = 500
LINES: Final = 10
# The server writes its log every second.
POLL_S: Final = 1.0

EXAMPLES: Final = """
payd logs {0}
payd logs {0} --status 4xx
payd logs {0} --method POST --path /v1/payments
payd logs {0} --path pay_t…
payd logs {0} --merchant mrch_…
"""
NOTES: Final = (
    "--status takes 404, 2xx, 3xx, 4xx, 5xx or refused; --path a path, its template, or an id in it."
)


def _filters(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--request", metavar="ID", help="Only this request, by its Request-Id."),
        click.option("--merchant", metavar="ID", help="Only of this merchant: they name it or its payment."),
        click.option("--key", metavar="ID", help="Only of this key or app."),
        click.option("--path", metavar="PATH|ID", help="Only of this path, or with this id in it."),
        click.option("--method", metavar="METHOD", help="Only with this method."),
        click.option("--status", metavar="STATUS", help="Only with this status, such as 404 or 4xx."),
    ):
        function = option(function)
    return function


@click.group(
    cls=Sections,
    epilog=teach("""
payd logs list
payd logs tail --status refused
"""),
)
def logs() -> None:
    """Show the requests to the API, and follow them.

    Each has its Request-Id, and of a refusal what it said. Bodies and keys are never kept.
    """


@logs.command("list", epilog=teach(EXAMPLES.format("list"), notes=NOTES))
@_filters
@click.option("--since", metavar="TIME", help="Only since then, RFC 3339.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), metavar="N", help="How many. Without: 20.")
@on_realm
def list_logs(operator: Operator, **filters: Any) -> None:
    """Show the newest requests, newest first."""
    found = operator.ask("log.list", **filters)["data"]
    if operator.printed_json(found):
        return
    columns = {
        "time": "Time (UTC)",
        "status": "Status",
        "method": "Method",
        "path": "Path",
        "durationMs": "ms",
        "code": "Refused because",
        "requestId": "Request",
    }
    rows = [{**one, "time": moment(one["at"]), "code": (one["error"] or {}).get("code")} for one in found]
    show_rows(rows, columns, "No request that fits is logged.", _line)


@logs.command("tail", epilog=teach(EXAMPLES.format("tail"), notes=NOTES))
@_filters
@click.option(
    "--lines",
    type=click.IntRange(0, LIMIT_MAX),
    default=LINES,
    show_default=True,
    metavar="N",
    help="Begin with the last N.",
)
@on_realm
def tail(operator: Operator, lines: int, **filters: Any) -> None:
    """Show each request as it is logged, until Ctrl-C; with --json, an object a line.

    While the server is away it waits, and goes on where it was.
    """
    begun = operator.ask("log.follow", **filters, limit=max(lines, 1))
    for one in reversed(begun["data"][:lines]):
        _tell(operator, one)
    with suppress(KeyboardInterrupt):
        trio.run(_follow, operator, filters, begun["newest"])


async def _follow(operator: Operator, filters: dict[str, Any], after: int) -> None:
    given = {name: value for name, value in filters.items() if value is not None}
    away = False
    while True:
        args = {**operator.scope, **given, "after": after, "limit": LIMIT_MAX}
        try:
            reply = await call_admin(operator.config.data_dir / SOCKET_NAME, "log.follow", args)
        except (NoServer, NoAnswer):
            if not away:
                click.echo("The server is away; waiting for it.", err=True)
            away = True
            await trio.sleep(POLL_S)
            continue
        if away:
            click.echo("The server is back.", err=True)
        away = False
        if reply.error is not None:
            raise Refused(reply.error.message)
        found = reply.result
        for one in found["data"]:
            _tell(operator, one)
        after = found["newest"]
        if len(found["data"]) < LIMIT_MAX:
            await trio.sleep(POLL_S)


def _tell(operator: Operator, one: Row) -> None:
    click.echo(json_line(one) if operator.as_json else _line(one))


def _line(one: Row) -> str:
    status = click.style(str(one["status"]), fg="green" if one["status"] < 400 else "red")
    code = (one["error"] or {}).get("code")
    parts = [
        str(moment(one["at"])),
        status,
        one["method"].ljust(6),
        on_one_line(one["path"]),
        f"{one['durationMs']} ms",
        one["requestId"],
        *([code] if code else []),
    ]
    return "  ".join(parts)
