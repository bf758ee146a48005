"""`payd clock`: the test realm's time, and how to get ahead of it."""

from __future__ import annotations

from typing import Any, Final

import click
import trio

from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import console, moment, show_fields
from payd.cli.teaching import teach
from payd.core.span import span

# How often the job is looked at while somebody waits for it.
POLL_S: Final = 0.2


@click.group(
    cls=Sections,
    epilog=teach("""
payd clock show
payd clock advance 15m
"""),
)
def clock() -> None:
    """Show the test clock, and move it forward.

    Payments expire, retries are made and endpoints are given up by it. It stays moved, and goes forward only.
    """


@clock.command(
    "show",
    epilog=teach("""
payd clock show
payd clock show --json
"""),
)
@on_realm
def show(operator: Operator) -> None:
    """Show the test realm's time, and how far it is ahead."""
    _show(operator, operator.ask("clock.show"))


@clock.command(
    "advance",
    epilog=teach("""
payd clock advance 15m            a payment expires
payd clock advance 28h --no-wait  all retries of a webhook
"""),
)
@click.argument("by", metavar="TIME")
@click.option("--no-wait", is_flag=True, help="Do not wait for what falls due on the way.")
@on_realm
def advance(operator: Operator, by: str, no_wait: bool) -> None:
    """Move the test clock forward by a time such as 300s, 15m, 28h or 5d.

    What falls due on the way is done in its order: this returns when it is.
    """
    now = operator.ask("clock.advance", by=by)
    _show(operator, now if no_wait else _wait(operator, now))


def _wait(operator: Operator, now: dict[str, Any]) -> dict[str, Any]:
    """Look at the clock until it is there; whoever interrupts this does not stop it."""
    try:
        with console().status("") as shown:
            while now["job"]["state"] == "running":
                shown.update(f"{moment(now['now'])} UTC, {now['job']['events']} events …")
                trio.run(trio.sleep, POLL_S)
                now = operator.ask("clock.watch")
    except (KeyboardInterrupt, click.Abort):
        look = operator.pasted("clock show")
        click.echo(f"\nThe clock goes on in the server. Look: {look}", err=True)
        raise click.Abort from None
    return now


def _show(operator: Operator, now: dict[str, Any]) -> None:
    if operator.printed_json(now):
        return
    ahead, job = now["offsetS"], now["job"]
    events = None if job is None else f"{job['events']} event{'' if job['events'] == 1 else 's'}"
    show_fields(
        {
            "Now": f"{moment(now['now'])} UTC",
            "Ahead": f"by {span(ahead * 1000)}" if ahead else "not at all",
            "Last move": None if job is None else f"{job['state']}, {events}",
        }
    )
