"""`payd payment`: payments, what the chain showed of one, and a transaction that was not found by itself."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import Any, Final

import click

from payd.chains.defaults import SOLANA
from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.pasted import with_options
from payd.cli.sections import Sections
from payd.cli.show import Row, amount_words, moment, show_fields, show_json, show_rows
from payd.cli.teaching import teach
from payd.core.event import iso_ms
from payd.core.ids import realm_of
from payd.core.payment import cancelled_words
from payd.core.status import Status

LIMIT_MAX: Final = 200  # as the API has it
STATUSES: Final = tuple(status.value for status in Status)

LINKED: Final = ("matched", "recorded")
"""What of a match comes to something."""


@click.group(
    cls=Sections,
    epilog=teach("""
payd payment list --reference ORDER-1
payd payment show pay_…
payd payment match pay_… 0x… --mode live
"""),
)
def payment() -> None:
    """Find and show payments, and have a transaction counted for one."""


@payment.command(
    "list",
    epilog=teach("""
payd payment list --reference ORDER-1
payd payment list --status succeeded --mode live
payd payment list --merchant mrch_… --limit 50 --json
"""),
)
@click.option("--reference", metavar="TEXT", help="Only those whose reference id begins so.")
@click.option("--status", type=click.Choice(STATUSES), help="Only with this status.")
@click.option("--merchant", metavar="ID", help="Only of this merchant.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), metavar="N", help="How many. Without: 20.")
@click.option("--cursor", metavar="CURSOR", help="Go on behind an earlier list.")
@on_realm
def list_payments(operator: Operator, limit: int | None, cursor: str | None, **filters: str | None) -> None:
    """Show payments, newest first."""
    given = {**filters, "limit": limit}
    found = operator.ask("payment.list", **given, cursor=cursor)
    if operator.printed_json(found):
        return
    columns = {"at": "Created (UTC)", "referenceId": "Reference", "amount": "Amount"}
    columns |= {"status": "Status", "paymentId": "Payment"}
    rows = [
        {**one, "at": moment(one["createdAt"]), "amount": amount_words(one["fiatAmount"])}
        for one in found["data"]
    ]
    show_rows(rows, columns, "There is no such payment.", _brief_payment)
    if found["nextCursor"] is not None:
        typed = {**given, "cursor": found["nextCursor"]}
        click.echo(f"\nThere are more: {operator.pasted(with_options('payment list', typed))}")


@payment.command(
    "show",
    epilog=teach("""
payd payment show pay_…
payd payment show pay_… --json
"""),
)
@click.argument("payment_id", metavar="PAYMENT")
@on_realm
def show(operator: Operator, payment_id: str) -> None:
    """Show a payment and the transfers that were seen for it."""
    found = _of(operator, payment_id).ask("payment.show", id=payment_id)
    if operator.printed_json(found):
        return
    _show(found)
    click.echo()
    _show_transfers(found["transfers"])


@payment.command(
    "match",
    epilog=teach(
        """
payd payment match pay_… 0x… --mode live
payd payment match pay_… 0x… --mode live --chain eip155:8453
""",
        codes="it came to nothing; the message says why",
    ),
)
@click.argument("payment_id", metavar="PAYMENT")
@click.argument("tx", metavar="TX")
@click.option("--chain", metavar="CAIP-2", help="Where to look, such as eip155:8453. Without: everywhere.")
@on_realm
def match(operator: Operator, payment_id: str, tx: str, chain: str | None) -> None:
    """Have the transaction TX counted for a PAYMENT that somebody paid and that is still open.

    It is for transfers that lost what binds them to their payment, as when a buyer sent them by hand. The
    chain's nodes must agree on the transaction. One that is exact and in time pays the payment; another one
    is recorded with it. What is bound to another payment stays there. The same again is harmless.
    """
    found = _of(operator, payment_id).ask("payment.match", id=payment_id, tx=tx, chain=chain)
    matched = found["match"]
    if operator.as_json:
        show_json(found)
    if matched["outcome"] not in LINKED:
        raise Refused(matched["words"])
    if operator.as_json:
        return
    click.echo(f"{matched['words']}\n")
    _show(found["payment"])
    click.echo()
    _show_transfers(matched["transfers"])


def _of(operator: Operator, payment_id: str) -> Operator:
    """The operator of the payment's own mode, which its id names.

    Raises:
        Refused: It is no payment's id but something else, such as the merchant's own reference.
    """
    if not payment_id.startswith("pay_"):
        find = operator.pasted(f"payment list --reference {shlex.quote(payment_id)}")
        raise Refused(f"A payment's id begins with pay_. To find one by its reference id: {find}")
    mode = realm_of(payment_id)
    return operator if mode is None else dataclasses.replace(operator, scope={**operator.scope, "mode": mode})


def _show(found: Row) -> None:
    settled = (found["settlement"] or {}).get("settled")
    refund = found.get("refund")
    why = found["failureReason"] or cancelled_words(found.get("cancellationReason") or "")
    reason = f": {why}" if why else ""
    show_fields(
        {
            "Payment": found["paymentId"],
            "Reference": found["referenceId"],
            "Amount": amount_words(found["amount"]),
            "Status": f"{found['status']}{reason}{', settled' if settled else ''}",
            "Created": f"{moment(found['createdAt'])} UTC",
            "Expires": f"{moment(iso_ms(1000 * found['expiresAt']))} UTC",
            "Merchant": found["merchantId"],
            "Buyer's page": found.get("gatewayUrl"),
            "Transaction": (found["info"] or {}).get("txId"),
            "Refunded": refund and f"{moment(refund['recordedAt'])} UTC",
            "Refund by": refund and refund["txId"],
        }
    )


def _show_transfers(transfers: Sequence[Row]) -> None:
    columns = {
        "at": "Seen (UTC)",
        "kind": "Kind",
        "value": "Amount",
        "block": "Block or slot",
        "from": "From",
        "txId": "Transaction",
    }
    rows = [
        {**each, "at": moment(each["seenAt"]), "value": amount_words(each["amount"]), "block": _block(each)}
        for each in transfers
    ]
    show_rows(rows, columns, "No transfer was seen for it.", _brief)


def _block(row: Row) -> Any:
    return row["blockNumber"] if row["onChain"] else "taken by a reorg"


def _unit(row: Row) -> str:
    return "slot" if row["chain"].startswith(SOLANA) else "block"


def _brief_payment(row: Row) -> str:
    return (
        f"{click.style(row['paymentId'], bold=True)}  {row['status']}\n"
        f"  {row['at']}  {row['amount']}  {row['referenceId']}"
    )


def _brief(row: Row) -> str:
    return (
        f"{click.style(row['kind'], bold=True)}  {row['value']}, {_unit(row)} {row['block'] or '–'}\n"
        f"  {row['at']}  from {row['from']}\n"
        f"  {row['txId']}"
    )
