"""`payd events`: what the account was told, as a list, as it happens, and once more."""

from __future__ import annotations

import shlex
from copy import copy
from pathlib import Path
from typing import Final

import click

from payd.cli.deliveries import STATES, resend
from payd.cli.doors import FolderDoor
from payd.cli.listen import Wanted, begins, follow_until_told, place_options
from payd.cli.options import Operator, on_realm
from payd.cli.pasted import with_options
from payd.cli.sections import Sections
from payd.cli.show import Row, moment, show_json, show_rows
from payd.cli.teaching import teach
from payd.cli.ticker import JsonTicker, PlainTicker, Ticker
from payd.core.endpoint import EVENT_TYPES

LIMIT_MAX: Final = 100
TYPES: Final = f"Event types: {', '.join(EVENT_TYPES)}."


@click.group(
    cls=Sections,
    epilog=teach("""
payd events list
payd events tail
payd events resend dlv_…
"""),
)
def events() -> None:
    """Show events, follow them, and send one again.

    An event is kept and shown whether or not there is a webhook endpoint.
    """


@events.command(
    "list",
    epilog=teach(
        """
payd events list --type payment.succeeded
payd events list --payment pay_t… --json
payd events list --delivery failed  what the endpoint did not take
""",
        notes=TYPES,
    ),
)
@click.option("--type", "event_type", type=click.Choice(EVENT_TYPES), metavar="TYPE", help="Only this type.")
@click.option("--payment", metavar="ID", help="Only of this payment.")
@click.option("--delivery", type=click.Choice(STATES), help="Only those whose delivery stands like this.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), metavar="N", help="How many. Without: 20.")
@click.option("--cursor", metavar="CURSOR", help="Go on behind an earlier list.")
@on_realm
def list_events(
    operator: Operator, event_type: str | None, limit: int | None, cursor: str | None, **filters: str | None
) -> None:
    """Show events, newest first."""
    given = {"type": event_type, **filters, "limit": limit}
    found = operator.ask("event.list", **given, cursor=cursor)
    if operator.printed_json(found):
        return
    columns = {
        "at": "Time (UTC)",
        "type": "Event",
        "version": "Version",
        "paymentId": "Payment",
        "id": "Id",
    }
    rows = [
        {
            **one,
            "at": moment(one["createdAt"]),
            "version": one["envelope"]["data"]["payment_state_version"],
        }
        for one in found["data"]
    ]
    show_rows(rows, columns, "There is no such event.", _brief)
    if found["nextCursor"] is not None:
        typed = {**given, "cursor": found["nextCursor"]}
        click.echo(f"\nThere are more: {operator.pasted(with_options('events list', typed))}")


@events.command(
    "show",
    epilog=teach("""
payd events show evt_…
"""),
)
@click.argument("event_id", metavar="ID")
@on_realm
def show(operator: Operator, event_id: str) -> None:
    """Show one event: the body of its webhook, indented for reading."""
    found = operator.ask("event.show", id=event_id)
    show_json(found if operator.as_json else found["envelope"])


@events.command(
    "tail",
    epilog=teach(
        """
payd events tail
payd events tail --json --cursor place  goes on from where it was
""",
        notes=TYPES,
    ),
)
@click.option(
    "--type", "types", multiple=True, type=click.Choice(EVENT_TYPES), metavar="TYPE", help="Repeat."
)
@place_options
@on_realm
def tail(operator: Operator, types: tuple[str, ...], after: str | None, file: Path | None) -> None:
    """Show each event as it happens, until Ctrl-C; with --json, an object a line.

    While the server is away it waits, and goes on where it was: no event is left out.
    """
    ticker: Ticker = JsonTicker() if operator.as_json else PlainTicker()
    typed = [f"--type {one}" for one in types] + ([f"--cursor {shlex.quote(str(file))}"] if file else [])
    wanted = Wanted(
        url=None,
        headers=(),
        events=frozenset(types or EVENT_TYPES),
        cursor=begins(after, file),
        file=file,
        again=operator.pasted(" ".join(["events tail", *typed])),
    )
    door = FolderDoor(operator, None, wanted.cursor, file=wanted.file, tell=ticker.state)
    door.check()
    follow_until_told(wanted, door, ticker)


@events.command(
    "sample",
    epilog=teach(
        """
payd events sample payment.settled
""",
        notes=TYPES,
    ),
)
@click.argument("event_type", metavar="TYPE", type=click.Choice(EVENT_TYPES))
@on_realm
def sample(operator: Operator, event_type: str) -> None:
    """Show what a webhook of a type looks like; `payd webhook test` sends one."""
    found = operator.ask("sample.show", type=event_type)
    show_json(found if operator.as_json else found["envelope"])


_resend = copy(resend)
_resend.epilog = teach(
    """
payd events resend evt_…
""",
    codes="the endpoint did not take it",
)
events.add_command(_resend)


def _brief(row: Row) -> str:
    return (
        f"{click.style(row['id'], bold=True)}  {row['type']}\n"
        f"  {row['at']}  {row['paymentId']}, version {row['version']}"
    )
