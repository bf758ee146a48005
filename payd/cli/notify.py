"""`payd notify`: where the operator hears of endpoints that fail, and of live destinations that change."""

from __future__ import annotations

import click

from payd.cli.deliveries import how, outcome, show_advice
from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import moment, show_fields, show_json, show_rows
from payd.cli.teaching import teach


@click.group(
    cls=Sections,
    epilog=teach("""
payd notify show
payd notify test
"""),
)
def notify() -> None:
    """Show and test where warnings about webhook endpoints and live destinations go.

    Set it with url in [notify] of payd.toml. A signed POST goes there for an endpoint that fails for 24, 72
    or 108 hours (endpoint.warning), for one that was disabled after 120 (endpoint.disabled), and for one that
    works again after a warning (endpoint.recovered). Another goes there when a live destination is added
    (destination.added), changed (destination.changed) or deleted (destination.deleted), and when a change
    that is held back is asked for (destination.change_requested) or cancelled (destination.change_cancelled).
    """


@notify.command(
    "show",
    epilog=teach("""
payd notify show
payd notify show --mode live --json
"""),
)
@on_realm
def show(operator: Operator) -> None:
    """Show the address, the secret that signs, and the last notices with how they fared.

    Notices are endpoint.warning, endpoint.disabled and endpoint.recovered, destination.added,
    destination.changed, destination.deleted, destination.change_requested and destination.change_cancelled;
    notify.test is a test.
    """
    found = operator.ask("notify.show")
    if operator.printed_json(found):
        return
    fields = {"URL": found["url"], "Secret": found["secret"], "Failing since": moment(found["failingSince"])}
    show_fields(fields)
    click.echo()
    notices = found["notices"]
    rows = [{**each, "at": moment(each["createdAt"]), "last": how(each)} for each in notices]
    columns = {"at": "Time (UTC)", "type": "Notice", "state": "State", "last": "Last attempt"}
    show_rows(rows, columns, "There was no notice yet.")
    show_advice(each for each in notices if each["state"] != "succeeded")


@notify.command(
    "test",
    epilog=teach(
        """
payd notify test
""",
        codes="it was not answered with a 2xx",
    ),
)
@on_realm
def test(operator: Operator) -> None:
    """Send a test notice and show what came of it; anything but a 2xx is a failure."""
    sent = operator.ask("notify.test")
    if operator.as_json:
        show_json(sent)
    if sent["errorClass"] is not None:
        raise Refused(f"Whoever should have taken the notice {outcome(sent)}")
    if not operator.as_json:
        show_fields({"Status": sent["status"], "Took": f"{sent['durationMs']} ms"})
