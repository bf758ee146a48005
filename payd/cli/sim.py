"""`payd sim`: play buyer and chain for a test payment."""

from __future__ import annotations

from typing import Final

import click

from payd.cli.options import Operator, on_realm
from payd.cli.show import show_fields
from payd.cli.teaching import teach

VERBS: Final = {
    "process": "processing",
    "succeed": "succeeded",
    "fail": "failed",
    "expire": "expired",
    "cancel": "cancelled",
    "settle": "settled",
}
"""What is typed, and the state that it leads to; that may be typed as well."""

NOTES: Final = """
What can be typed: process, succeed, fail, expire, cancel, settle. To succeed walks through processing; what
has succeeded settles by itself a little later.
"""


@click.command(
    epilog=teach(
        """
payd sim pay_t… succeed
payd sim pay_t… fail --reason "The card was declined"
""",
        notes=NOTES,
        then="payd payment show pay_t…",
    )
)
@click.argument("payment", metavar="PAYMENT")
@click.argument("to", metavar="TO", type=click.Choice([*VERBS, *VERBS.values()]), required=True)
@click.option("--reason", metavar="TEXT", help="What the merchant is told, of a failure or a cancellation.")
@on_realm
def sim(operator: Operator, payment: str, to: str, reason: str | None) -> None:
    """Move a test payment; every step is a real one, with its version and its webhook."""
    moved = operator.ask("payment.simulate", id=payment, to=VERBS.get(to, to), reason=reason)
    if operator.printed_json(moved):
        return
    settled = (moved.get("settlement") or {}).get("settled")
    show_fields(
        {
            "Payment": moved["paymentId"],
            "Reference": moved["referenceId"],
            "Status": moved["status"] + (", settled" if settled else ""),
        }
    )
