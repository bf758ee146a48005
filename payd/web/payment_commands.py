"""What an operator can do with payments: each is one call of the API's own handler.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from payd.web.command import Command, OfId, OfMode, ask
from payd.web.payments import gateway_url

if TYPE_CHECKING:
    from payd.web.house import House


SHOWN: Final = 20  # the newest: a screen; more are asked for


class _Payments(OfMode, frozen=True, kw_only=True):
    """`reference` is how the merchant's own reference begins."""

    reference: str | None = None
    status: str | None = None
    merchant: str | None = None
    cursor: str | None = None
    limit: int = SHOWN


class _Match(OfId, frozen=True, kw_only=True):
    """`tx` is the id of a transaction, `chain` the CAIP-2 id of where it is, if that is known."""

    tx: str
    chain: str | None = None


async def _list(house: House, args: _Payments) -> Any:
    query = {
        "referenceId": args.reference,
        "status": args.status,
        "merchantId": args.merchant,
        "cursor": args.cursor,
        "limit": args.limit,
    }
    return await ask(house, args, "GET", "/v1/payments", query=query)


async def _show(house: House, args: OfId) -> Any:
    """The API's detail, with the buyer's link, which only who creates a payment is told there."""
    shown = await ask(house, args, "GET", _path(args))
    return {**shown, "gatewayUrl": gateway_url(house.base_url, shown["paymentId"])}


async def _match(house: House, args: _Match) -> Any:
    return await ask(house, args, "POST", f"{_path(args)}/match", {"txId": args.tx, "chain": args.chain})


def _path(args: OfId) -> str:
    return f"/v1/payments/{quote(args.id, safe='')}"


PAYMENT_COMMANDS: Final[dict[str, Command]] = {
    "payment.list": Command(_Payments, _list, changes=False),
    "payment.show": Command(OfId, _show, changes=False),
    # What it comes to, the long-lived tasks do.
    "payment.match": Command(_Match, _match, needs_server=True),
}
"""The commands on payments."""
