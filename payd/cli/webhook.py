"""`payd webhook`: the endpoint that is told of each change, and a check of what it received."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.show import show_fields, show_json
from payd.clock import system_wall_ms
from payd.core.endpoint import EVENT_TYPES
from payd.core.signature import SignatureRefused
from payd.core.signature import verify as check_signature

# As much as payd would ever send.
BODY_BYTES_MAX = 1 << 20


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
    """Send a test event with sample data, and show what the endpoint answered."""
    sent = operator.ask("webhook.test", type=event_type)
    if operator.as_json:
        show_json(sent)
        return
    show_fields(
        {
            "Delivery": sent["deliveryId"],
            "Status": sent["status"] or "no answer",
            "Took": f"{sent['durationMs']} ms",
            "Body": sent["body"] or None,
        }
    )


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
