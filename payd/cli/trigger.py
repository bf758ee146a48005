"""`payd trigger`: a payment that ends with an event, or tells a whole story, made by the real server."""

from __future__ import annotations

from textwrap import fill
from typing import Final

import click

from payd.cli.options import Operator, on_realm
from payd.cli.show import Row, show_fields, show_rows
from payd.cli.teaching import teach
from payd.core.scenario import BY_EVENT, SCENARIOS, Scenario

COLUMNS = 76
FIELDS: Final = {
    "data.amount.value": "value",
    "data.amount.unit": "unit",
    "data.reference_id": "reference",
}
"""What of an event can be chosen; all else follows from what is done."""
WIDTH = max(len(one.name) for one in SCENARIOS)


def _told(scenario: Scenario) -> str:
    """Its name and what happens, for a terminal of 80 columns."""
    begin = f"  {scenario.name.ljust(WIDTH)}  "
    return fill(scenario.words, COLUMNS, initial_indent=begin, subsequent_indent=" " * len(begin))


NAMES = "\n".join(
    [
        "\b",
        "Events:",
        *(f"  {one}" for one in BY_EVENT),
        "",
        "\b",
        "Scenarios:",
        *(_told(one) for one in SCENARIOS),
    ]
)


@click.command(
    epilog=teach(
        """
payd trigger payment.succeeded
payd trigger duplicate-webhook --merchant mrch_…
payd trigger payment.failed --payment pay_t…  one that waits for its buyer
payd trigger happy-path --override data.amount.value=1999
payd trigger --list --json
""",
        notes=NAMES,
        then="payd events list",
    )
)
@click.argument("name", metavar="EVENT|SCENARIO", required=False)
@click.option("--merchant", metavar="ID", help="Who is paid. Without: the first that can be.")
@click.option("--payment", metavar="ID", help="Go on with this payment. Without: a new one.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help=f"What the event is to say; {', '.join(FIELDS)}. Repeat.",
)
@click.option("--list", "lists", is_flag=True, help="Show the scenarios and what each tells.")
@on_realm
def trigger(
    operator: Operator,
    name: str | None,
    merchant: str | None,
    payment: str | None,
    overrides: tuple[str, ...],
    lists: bool,
) -> None:
    """Have a test payment end with an event, or go through a scenario.

    Everything is real but the money: the payment, its steps, its signed webhooks.
    """
    if lists:
        _list(operator)
        return
    if name is None:
        raise click.UsageError("Name an event or a scenario, such as payment.succeeded; --list shows them.")
    given = _overridden(overrides)
    if payment is not None and given:
        raise click.UsageError(
            "A payment that is there keeps what it says; leave --override or --payment out."
        )
    made = operator.ask("scenario.run", name=name, merchant=merchant, payment=payment, **given)
    if operator.printed_json(made):
        return
    show_fields(
        {
            "Scenario": made["scenario"],
            "Payment": made["paymentId"],
            "Reference": made["referenceId"],
            "Status": made["status"],
            "Page": made["gatewayUrl"],
        }
    )
    for step in made["steps"]:
        if step.get("refused"):
            click.echo(f"\n{step['did']} was refused as it should be: {step['refused']}")
    click.echo("\nYour receiver is told:")
    rows = [{**one, "note": one["note"] or ""} for one in made["expectedEvents"]]
    columns = {"type": "Event", "version": "Version", "requests": "Requests", "note": ""}
    show_rows(rows, columns, "Nothing more.", _brief)
    follow = operator.pasted(f"events list --payment {made['paymentId']}")
    click.echo(f"\nWhat it was told by now: {follow}")


def _overridden(overrides: tuple[str, ...]) -> dict[str, str]:
    """What the command calls the fields that an event is to have."""
    given: dict[str, str] = {}
    for one in overrides:
        field, equals, value = one.partition("=")
        if field not in FIELDS or not equals or not value:
            raise click.UsageError(f"--override is FIELD=VALUE, and FIELD one of {', '.join(FIELDS)}.")
        if FIELDS[field] in given:
            raise click.UsageError(f"--override has {field} twice.")
        given[FIELDS[field]] = value
    return given


def _list(operator: Operator) -> None:
    found = operator.ask("scenario.list")
    if operator.printed_json(found):
        return
    rows = [
        {**one, "tells": " → ".join(told["type"].removeprefix("payment.") for told in one["expectedEvents"])}
        for one in found
    ]
    columns = {"name": "Scenario", "description": "What happens", "tells": "Tells"}
    show_rows(rows, columns, "", lambda row: f"{row['name']}\n  {row['description']}\n  {row['tells']}")


def _brief(row: Row) -> str:
    times = "" if row["requests"] == 1 else f", {row['requests']} requests"
    return f"  {row['type']}, version {row['version']}{times}" + (f": {row['note']}" if row["note"] else "")
