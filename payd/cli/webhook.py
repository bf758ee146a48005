"""`payd webhook`: the endpoint that is told of each change, and a check of what it received."""

from __future__ import annotations

from typing import Any, BinaryIO, Final

import click

from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.show import show_fields, show_json, show_rows
from payd.clock import system_wall_ms
from payd.core.endpoint import EVENT_TYPES
from payd.core.signature import SignatureRefused
from payd.core.signature import verify as check_signature

# As much as payd would ever send.
BODY_BYTES_MAX = 1 << 20

# What to look at when a test event was not answered, by the class of the failure.
CAUSES: Final = {
    "connection_refused": "Is your receiver running?",
    "connection_reset": "Does your receiver speak HTTP there?",
    "dns_error": "Is the host spelled right?",
    "timeout_connect": "Is there a firewall between?",
    "timeout_response": "Answer at once, and do the work afterwards.",
    "tls_error": "Is its certificate valid for this host?",
}


@click.group()
def webhook() -> None:
    """Set and test the webhook endpoint, and check deliveries.

    There is one for each mode. It is told of every change of a payment by a signed POST.
    """


@webhook.command("set", epilog=f"Event types: {', '.join(EVENT_TYPES)}.")
@click.option("--url", required=True, help="Where deliveries go.")
@click.option(
    "--event", "events", multiple=True, metavar="TYPE", help="Only these types; repeat. Without: all."
)
@on_realm
def set_endpoint(operator: Operator, url: str, events: tuple[str, ...]) -> None:
    """Register the endpoint, or change it. The secret stays the same until it is rotated."""
    _show(operator, operator.ask("webhook.set", url=url, events=events or None))


@webhook.command("show")
@on_realm
def show(operator: Operator) -> None:
    """Show the endpoint, without its secret."""
    _show(operator, operator.ask("webhook.show"))


@webhook.command("rotate")
@on_realm
def rotate(operator: Operator) -> None:
    """Make a new signing secret; the old one signs along for 24 hours."""
    _show(operator, operator.ask("webhook.rotate"))


@webhook.command("reveal")
@on_realm
def reveal(operator: Operator) -> None:
    """Show the current signing secret."""
    _show(operator, operator.ask("webhook.reveal"))


@webhook.command("enable")
@on_realm
def enable(operator: Operator) -> None:
    """Deliver again, after the endpoint was disabled."""
    _show(operator, operator.ask("webhook.enable"))


@webhook.command("disable")
@on_realm
def disable(operator: Operator) -> None:
    """Deliver nothing; what is owed is cancelled."""
    _show(operator, operator.ask("webhook.disable"))


@webhook.command("delete")
@click.confirmation_option(
    "--yes", prompt="The endpoint and its secret are gone for good. Go on?", help="Do not ask."
)
@on_realm
def delete(operator: Operator) -> None:
    """Delete the endpoint, at once and for good."""
    _show(operator, operator.ask("webhook.delete"))


@webhook.command("test", epilog=f"Event types: {', '.join(EVENT_TYPES)}.")
@click.option(
    "--type", "event_type", default="payment.succeeded", show_default=True, help="Which event to send."
)
@on_realm
def test(operator: Operator, event_type: str) -> None:
    """Send a test event with sample data, and show what the endpoint answered; no answer is a failure."""
    sent = operator.ask("webhook.test", type=event_type)
    if operator.as_json:
        show_json(sent)
    if sent["status"] is None:
        url, reason = operator.ask("webhook.show")["url"], sent["errorClass"]
        words = f"{url} did not answer: {reason.replace('_', ' ')}. {CAUSES.get(reason, '')}"
        raise Refused(words.rstrip())
    if operator.as_json:
        return
    show_fields(
        {
            "Delivery": sent["deliveryId"],
            "Status": sent["status"],
            "Took": f"{sent['durationMs']} ms",
            "Body": sent["body"] or None,
        }
    )


@webhook.command("deliveries")
@on_realm
def deliveries(operator: Operator) -> None:
    """Show the last deliveries, newest first: where they stand, and when they are tried again."""
    found = operator.ask("webhook.deliveries")
    if operator.as_json:
        show_json(found)
        return
    columns = {
        "at": "Time (UTC)",
        "eventType": "Event",
        "paymentId": "Payment",
        "state": "State",
        "attempts": "Attempts",
        "lastStatus": "Last status",
        "next": "Next attempt",
    }
    rows = [
        {**each, "at": _moment(each["createdAt"]), "next": _moment(each["nextAttemptAt"])} for each in found
    ]
    show_rows(rows, columns, "There is none: an endpoint is told of what happens once it is set.")


@webhook.command("verify")
@click.option("--secret", required=True, envvar="PAYD_WEBHOOK_SECRET", show_envvar=True, help="whsec_…")
@click.option("--id", "message_id", required=True, help="The webhook-id header.")
@click.option("--timestamp", required=True, help="The webhook-timestamp header.")
@click.option("--signature", required=True, help="The webhook-signature header.")
@click.option(
    "--body", required=True, type=click.File("rb"), metavar="FILE", help="The raw bytes; - reads them here."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def verify(
    secret: str, message_id: str, timestamp: str, signature: str, body: BinaryIO, as_json: bool
) -> None:
    """Check a delivery as its receiver should: the signature on the raw bytes, and the time."""
    raw = body.read(BODY_BYTES_MAX)
    try:
        check_signature(
            secret,
            message_id=message_id,
            timestamp=timestamp,
            signature=signature,
            body=raw,
            now_s=system_wall_ms() // 1000,
        )
    except SignatureRefused as refused:
        if as_json:
            show_json({"authentic": False, "reason": str(refused)})
        raise Refused(str(refused)) from None
    if as_json:
        show_json({"authentic": True})
        return
    click.echo("Authentic: the signature fits and the time is right.")


def _moment(instant: str | None) -> str | None:
    """To the second, so that a row has room for its ids."""
    return None if instant is None else instant[:19].replace("T", " ")


def _show(operator: Operator, endpoint: dict[str, Any]) -> None:
    if operator.as_json:
        show_json(endpoint)
        return
    names = {
        "id": "Id",
        "url": "URL",
        "events": "Events",
        "state": "State",
        "failingSince": "Failing since",
        "secret": "Secret",
        "deleted": "Deleted",
    }
    show_fields({title: endpoint.get(name) for name, title in names.items()})
