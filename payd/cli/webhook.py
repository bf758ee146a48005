"""`payd webhook`: the endpoint that is told of each change, from its first test event to its repair."""

from __future__ import annotations

from typing import Any, Final

import click

from payd.cli.deliveries import deliveries, delivery, failure, outcome, resend, show_advice
from payd.cli.failure import Refused
from payd.cli.faults import clear_faults, fault, faults
from payd.cli.options import Operator, on_realm
from payd.cli.replay import cancel_job, job, jobs, recover, replay_missing
from payd.cli.sections import Sections
from payd.cli.show import console, is_terminal, moment, show_fields, show_json, show_rows
from payd.cli.teaching import teach
from payd.cli.verify import verify
from payd.core.endpoint import EVENT_TYPES, FAILURE_GAP_MAX_MS

TEST_TYPE: Final = "payment.succeeded"
GAP_H: Final = FAILURE_GAP_MAX_MS // 3_600_000

SECTIONS: Final = {
    "The endpoint": ("set", "show", "test", "pause", "resume", "disable", "enable", "delete"),
    "Its signing secret": ("reveal", "rotate", "verify"),
    "Deliveries": ("deliveries", "delivery", "resend"),
    "Faults on purpose, in test mode": ("fault", "faults", "clear-faults"),
    "After an outage": ("recover", "replay-missing", "jobs", "job", "cancel-job"),
}
"""In the order in which they are needed."""


@click.group(
    cls=Sections,
    sections=SECTIONS,
    epilog=teach(
        """
payd webhook set --url https://shop.example/hook
payd webhook test
payd webhook deliveries --state failed
""",
        then="payd listen --help, while you write your receiver",
    ),
)
def webhook() -> None:
    """Set and test the webhook endpoint, and repair what failed.

    There is one for each mode. It is told of every change of a payment by a signed POST.
    """


@webhook.command(
    "set",
    epilog=teach(
        """
payd webhook set --url https://shop.example/hook
payd webhook set --mode live --url https://shop.example/hook \\
  --event payment.succeeded --header "Authorization: Bearer …"
""",
        notes=f"Event types: {', '.join(EVENT_TYPES)}.",
        then="payd webhook reveal, and payd webhook test",
    ),
)
@click.option("--url", required=True, help="Where deliveries go.")
@click.option(
    "--event", "events", multiple=True, metavar="TYPE", help="Only these types; repeat. Without: all."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Sent with each delivery; repeat. They replace those before. Without: these stay.",
)
@click.option("--no-headers", is_flag=True, help="Send none of your own any more.")
@on_realm
def set_endpoint(
    operator: Operator, url: str, events: tuple[str, ...], headers: tuple[str, ...], no_headers: bool
) -> None:
    """Register the endpoint, or change it. The secret stays the same until it is rotated."""
    if headers and no_headers:
        raise click.UsageError("--header and --no-headers exclude each other.")
    sent = _headers(headers) if headers or no_headers else None
    _show(operator, operator.ask("webhook.set", url=url, events=events or None, headers=sent))


@webhook.command(
    "show",
    epilog=teach("""
payd webhook show --mode live
payd webhook show --json
"""),
)
@on_realm
def show(operator: Operator) -> None:
    """Show the endpoint, without its secret."""
    _show(operator, operator.ask("webhook.show"))


@webhook.command(
    "rotate",
    epilog=teach(
        """
payd webhook rotate
""",
        then="put the new secret into your receiver within 24 hours",
    ),
)
@on_realm
def rotate(operator: Operator) -> None:
    """Make a new signing secret; the old one signs along for 24 hours.

    So your receiver has a day to take the new one; `payd webhook show` says until when.
    """
    _show(operator, operator.ask("webhook.rotate"))


@webhook.command(
    "reveal",
    epilog=teach("""
payd webhook reveal
payd webhook reveal --mode live --json
"""),
)
@on_realm
def reveal(operator: Operator) -> None:
    """Show the current signing secret.

    Where no terminal shows it, it is printed alone: SECRET=$(payd webhook reveal).
    """
    endpoint = operator.ask("webhook.reveal")
    if operator.as_json or is_terminal():
        _show(operator, endpoint)
    else:
        click.echo(endpoint["secret"])


@webhook.command(
    "pause",
    epilog=teach(
        """
payd webhook pause --mode live
""",
        then="payd webhook resume",
    ),
)
@on_realm
def pause(operator: Operator) -> None:
    """Deliver nothing for a while; events are kept, and sent on resume."""
    _show(operator, operator.ask("webhook.pause"))


@webhook.command(
    "resume",
    epilog=teach("""
payd webhook resume --mode live
"""),
)
@on_realm
def resume(operator: Operator) -> None:
    """Deliver again, beginning with what was kept during the pause."""
    _show(operator, operator.ask("webhook.resume"))


@webhook.command(
    "enable",
    epilog=teach(
        """
payd webhook enable --mode live
""",
        then="payd webhook replay-missing and recover; it says from when",
    ),
)
@on_realm
def enable(operator: Operator) -> None:
    """Deliver again, after the endpoint was disabled.

    What happened meanwhile was missed, and what was tried before may have failed for good; this says how
    much it was, and how to send it.
    """
    endpoint = operator.ask("webhook.enable")
    _show(operator, endpoint)
    if operator.as_json:
        return
    missed, failed = endpoint.get("missedEvents"), endpoint.get("failedDeliveries")
    if missed:
        were = "event was" if missed == 1 else "events were"
        replay = operator.pasted(f"webhook replay-missing --since {endpoint['missedSince']}")
        click.echo(f"\n{missed} {were} missed while it was off. Send them: {replay}")
    if failed:
        deliveries = "delivery" if failed == 1 else "deliveries"
        recover = operator.pasted(f"webhook recover --since {endpoint['missedSince']}")
        click.echo(f"\n{failed} {deliveries} failed for good. Send them again: {recover}")


@webhook.command(
    "disable",
    epilog=teach(
        """
payd webhook disable --mode live
""",
        then="payd webhook enable",
    ),
)
@on_realm
def disable(operator: Operator) -> None:
    """Deliver nothing; what is owed is cancelled."""
    _show(operator, operator.ask("webhook.disable"))


@webhook.command(
    "delete",
    epilog=teach("""
payd webhook delete
payd webhook delete --mode live --yes  for scripts
"""),
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_realm
def delete(operator: Operator, yes: bool) -> None:
    """Delete the endpoint, at once and for good."""
    if not yes:
        click.confirm("The endpoint and its secret are gone for good. Go on?", abort=True, err=True)
    _show(operator, operator.ask("webhook.delete"))


@webhook.command(
    "test",
    epilog=teach(
        """
payd webhook test
payd webhook test --type payment.settled
payd webhook test --all --json
""",
        notes=f"Event types: {', '.join(EVENT_TYPES)}.",
        codes="one was not answered with a 2xx",
    ),
)
@click.option("--type", "event_type", metavar="TYPE", help=f"Which event to send. Without: {TEST_TYPE}.")
@click.option("--all", "every", is_flag=True, help="Send one of each type.")
@on_realm
def test(operator: Operator, event_type: str | None, every: bool) -> None:
    """Send a test event, and show what the endpoint answered.

    It has sample data, and `live` is false. Anything but a 2xx within 15 s is a failure, as it always is.
    """
    if every and event_type:
        raise click.UsageError("--type and --all exclude each other.")
    if every:
        _test_all(operator)
        return
    sent = operator.ask("webhook.test", type=event_type or TEST_TYPE)
    if operator.as_json:
        show_json(sent)
    elif sent["status"] is not None:
        show_fields(
            {
                "Delivery": sent["deliveryId"],
                "Status": sent["status"],
                "Took": f"{sent['durationMs']} ms",
                "Body": sent["body"] or None,
            }
        )
    if sent["errorClass"] is not None:
        raise Refused(f"{operator.ask('webhook.show')['url']} {outcome(sent)}")


for _command in (
    *(deliveries, delivery, resend, verify),
    *(fault, faults, clear_faults),
    *(recover, replay_missing, jobs, job, cancel_job),
):
    webhook.add_command(_command)


def _test_all(operator: Operator) -> None:
    """One test event of each type; every one must be answered with a 2xx."""
    results: list[dict[str, Any]] = []
    with console().status("") as shown:
        for event_type in EVENT_TYPES:
            shown.update(f"{event_type} …")
            sent = operator.ask("webhook.test", type=event_type)
            results.append({"type": event_type, **sent, "error": failure(sent)})
    failed = [one for one in results if one["errorClass"] is not None]
    if operator.as_json:
        show_json([{name: value for name, value in one.items() if name != "error"} for one in results])
    else:
        columns = {"type": "Event", "status": "Status", "durationMs": "ms", "error": "Error"}
        show_rows(results, columns, "")
        show_advice(failed)
    if failed:
        raise Refused(f"{len(failed)} of {len(results)} test events failed.")


def _headers(typed: tuple[str, ...]) -> dict[str, str]:
    """Headers as they were typed. What is wrong is said without the value, which may be a password."""
    headers: dict[str, str] = {}
    for one in typed:
        name, colon, value = (part.strip() for part in one.partition(":"))
        if not (name and colon and value):
            raise click.BadParameter("must be 'Name: value'.", param_hint="--header")
        if name.lower() in map(str.lower, headers):
            raise click.BadParameter(f"{name} is given twice.", param_hint="--header")
        headers[name] = value
    return headers


def _disabling(at: str | None, now: str | None) -> str | None:
    """What gives an endpoint up that fails: never the clock alone."""
    if at is None:
        return None
    if now is not None and at <= now:
        return f"by its next failure, unless that comes after {GAP_H} h without an attempt"
    return f"by the first failure after {moment(at)} UTC; {GAP_H} h without an attempt start the count again"


def _show(operator: Operator, endpoint: dict[str, Any]) -> None:
    if operator.printed_json(endpoint):
        return
    names = {
        "id": "Id",
        "url": "URL",
        "replaced": "In place of",
        "events": "Events",
        "headers": "Headers",
        "state": "State",
        "failingSince": "Failing since",
        "disabling": "Gets disabled",
        "sourceAddresses": "Comes from",
        "secret": "Secret",
        "oldSecrets": "Old secrets",
        "deleted": "Deleted",
    }
    until = moment(endpoint.get("oldSecretsUntil"))
    shown = {
        **endpoint,
        "disabling": _disabling(endpoint.get("disablesAt"), endpoint.get("now")),
        "oldSecrets": until and f"sign along until {until} UTC",
    }
    show_fields({title: shown.get(name) for name, title in names.items() if shown.get(name) != []})
    state = endpoint.get("state")
    if state == "paused":
        click.echo(f"\nEvents are kept. Send them and go on: {operator.pasted('webhook resume')}")
    if state == "disabled":
        since = moment(endpoint.get("offSince"))
        when = f"It is off since {since} UTC" if since else "It is off"
        click.echo(f"\n{when}. Switch it on: {operator.pasted('webhook enable')}")
