"""`payd webhook fault`, `faults` and `clear-faults`: what goes wrong on purpose, to try a receiver."""

from __future__ import annotations

from typing import Any

import click

from payd.cli.options import Operator, on_realm
from payd.cli.show import Row, moment, show_rows
from payd.cli.teaching import teach
from payd.core.endpoint import EVENT_TYPES
from payd.core.fault import FAULT_KINDS, WORDS

NOTES = f"""\b
Faults:
  duplicate        it is sent, and then a copy of it
  reorder          it waits until a later one has gone, for a minute at most
  delay            it waits for --delay
  drop             the attempt is lost on the way
  stale_timestamp  signed for ten minutes ago; your receiver should answer 400
  bad_signature    signed over other bytes; your receiver should answer 400
  wrong_secret     signed with another secret; your receiver should answer 400

Event types: {", ".join(EVENT_TYPES)}.
"""


@click.command(
    "fault",
    epilog=teach(
        """
payd webhook fault duplicate --deliveries 3
payd webhook fault drop --for 10m --event payment.succeeded
payd webhook fault delay --delay 90s --payment pay_t…
""",
        notes=NOTES,
        then="payd trigger payment.succeeded",
    ),
)
@click.argument("kind", metavar="FAULT", type=click.Choice(FAULT_KINDS))
@click.option("--deliveries", type=int, metavar="N", help="For the next N deliveries. Without --for: 1.")
@click.option("--for", "lasts", metavar="TIME", help="For all deliveries of a time, such as 10m or 2h.")
@click.option("--delay", metavar="TIME", help="How long the fault delay holds back. Without: 30s.")
@click.option("--event", "events", multiple=True, metavar="TYPE", help="Only these types; repeat.")
@click.option("--payment", metavar="ID", help="Only events of this payment.")
@on_realm
def fault(
    operator: Operator,
    kind: str,
    deliveries: int | None,
    lasts: str | None,
    delay: str | None,
    events: tuple[str, ...],
    payment: str | None,
) -> None:
    """Have deliveries go wrong on purpose, in test mode.

    The attempt's log names the fault, so that nobody takes it for a failure. Afterwards everything goes on by
    the schedule: what was dropped or forged is sent again, rightly.
    """
    made = operator.ask(
        "fault.inject",
        fault=kind,
        deliveries=deliveries,
        lasts=lasts,
        delay=delay,
        events=list(events) or None,
        payment=payment,
    )
    if operator.printed_json(made):
        return
    _show([made], "")
    click.echo(f"\nEnd it: {operator.pasted('webhook clear-faults')}")


@click.command(
    "faults",
    epilog=teach("""
payd webhook faults
payd webhook faults --json
"""),
)
@on_realm
def faults(operator: Operator) -> None:
    """Show the faults that were injected, newest first, and what is left of each."""
    found = operator.ask("fault.list")
    if operator.printed_json(found):
        return
    _show(found, f"There is none. Inject one: {operator.pasted('webhook fault duplicate')}")


@click.command(
    "clear-faults",
    epilog=teach("""
payd webhook clear-faults
"""),
)
@click.argument("fault_id", metavar="ID", required=False)
@on_realm
def clear_faults(operator: Operator, fault_id: str | None) -> None:
    """End a fault, or all of them; what is held back goes now."""
    ended = operator.ask("fault.end", id=fault_id)
    if operator.printed_json(ended):
        return
    _show(ended, "No fault was active.")


def _show(found: list[dict[str, Any]], empty: str) -> None:
    columns = {
        "id": "Fault",
        "fault": "Kind",
        "state": "State",
        "for": "Still for",
        "injected": "Done",
        "about": "About",
    }
    rows = [{**one, "for": _left(one), "about": _about(one)} for one in found]
    show_rows(rows, columns, empty, _brief)


def _left(one: Row) -> str:
    if one["state"] == "over":
        return "nothing"
    if one["left"] is not None:
        return f"{one['left']} deliver{'y' if one['left'] == 1 else 'ies'}"
    return f"until {moment(one['until'])} UTC"


def _about(one: Row) -> str:
    about = [*one["events"], *filter(None, [one["paymentId"]])]
    return " ".join(about) or "all events"


def _brief(row: Row) -> str:
    return (
        f"{click.style(row['id'], bold=True)}  {row['fault']}  {row['state']}\n"
        f"  {WORDS[row['fault']]}\n"
        f"  for {row['for']}, done {row['injected']} times; {row['about']}"
    )
