"""What an operator can do with merchants: each is a call or two of the API's own handlers.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from payd.core.collect import Field
from payd.web.command import Command, OfMode, ask

if TYPE_CHECKING:
    from payd.web.house import House

LIST_MAX: Final = 10_000  # merchants in one answer; more are for the API and its pages


class _MerchantCreate(OfMode, frozen=True, kw_only=True):
    name: str
    email: str


class _OfMerchant(OfMode, frozen=True, kw_only=True):
    merchant: str


class _MerchantCollect(_OfMerchant, frozen=True, kw_only=True):
    """`fields` left out: what is asked now."""

    fields: tuple[Field, ...] | None = None


class _Origins(_OfMerchant, frozen=True, kw_only=True):
    origins: list[str] | None = None


class _DestinationAdd(_OfMerchant, frozen=True, kw_only=True):
    asset: str
    destination: str


class _OfDestination(_OfMerchant, frozen=True, kw_only=True):
    id: str


class _DestinationChange(_OfDestination, frozen=True, kw_only=True):
    destination: str


class _Logo(_OfMerchant, frozen=True, kw_only=True):
    """`picture` is the file's bytes; without it and without `remove`: what is shown now."""

    picture: bytes | None = None
    remove: bool = False


async def _merchant_create(house: House, args: _MerchantCreate) -> Any:
    body = {"merchantName": args.name, "merchantEmail": args.email}
    return (await ask(house, args, "POST", "/v1/merchants", body))["merchant"]


async def _merchant_list(house: House, args: OfMode) -> Any:
    merchants: list[Any] = []
    query: dict[str, str | int | None] = {"limit": 100}
    while len(merchants) < LIST_MAX:
        page = await ask(house, args, "GET", "/v1/merchants", query=query)
        merchants += page["data"]
        query["cursor"] = page["nextCursor"]
        if query["cursor"] is None:
            break
    return merchants


async def _merchant_collect(house: House, args: _MerchantCollect) -> Any:
    path = _path(args)
    if args.fields is None:
        return (await ask(house, args, "GET", path))["collect"]
    return (await ask(house, args, "PATCH", path, {"collect": args.fields}))["collect"]


async def _destination_add(house: House, args: _DestinationAdd) -> Any:
    body = {"settlements": [{"asset": args.asset, "destination": args.destination}]}
    path = f"{_path(args)}/settlements/crypto"
    return (await ask(house, args, "POST", path, body))["settlements"][0]


async def _destination_list(house: House, args: _OfMerchant) -> Any:
    path = f"{_path(args)}/settlements"
    return (await ask(house, args, "GET", path))["crypto"]


async def _destination_change(house: House, args: _DestinationChange) -> Any:
    return await ask(house, args, "PUT", _destination(args), {"destination": args.destination})


async def _destination_cancel(house: House, args: _OfDestination) -> Any:
    return await ask(house, args, "DELETE", f"{_destination(args)}/pending")


async def _destination_delete(house: House, args: _OfDestination) -> Any:
    return await ask(house, args, "DELETE", _destination(args))


async def _origins(house: House, args: _Origins) -> Any:
    """Whose pages may frame the checkout; with some named, these from now on."""
    path = _path(args)
    if args.origins is None:
        return (await ask(house, args, "GET", path))["checkoutOrigins"]
    return (await ask(house, args, "PATCH", path, {"checkoutOrigins": args.origins}))["checkoutOrigins"]


async def _logo(house: House, args: _Logo) -> Any:
    """What became of a merchant's logo, after it was sent or taken away."""
    if args.picture is not None:
        return (await ask(house, args, "PUT", f"{_path(args)}/logo", args.picture))["logo"]
    if args.remove:
        return (await ask(house, args, "DELETE", f"{_path(args)}/logo"))["logo"]
    return (await ask(house, args, "GET", _path(args)))["logo"]


def _path(args: _OfMerchant) -> str:
    return f"/v1/merchants/{quote(args.merchant, safe='')}"


def _destination(args: _OfDestination) -> str:
    return f"{_path(args)}/settlements/crypto/{quote(args.id, safe='')}"


MERCHANT_COMMANDS: Final[dict[str, Command]] = {
    "merchant.create": Command(_MerchantCreate, _merchant_create),
    "merchant.list": Command(OfMode, _merchant_list, changes=False),
    "merchant.collect": Command(_MerchantCollect, _merchant_collect),
    "destination.add": Command(_DestinationAdd, _destination_add),
    "destination.list": Command(_OfMerchant, _destination_list, changes=False),
    "destination.change": Command(_DestinationChange, _destination_change),
    "destination.cancel": Command(_OfDestination, _destination_cancel),
    "destination.delete": Command(_OfDestination, _destination_delete),
    "merchant.origins": Command(_Origins, _origins),
    "merchant.logo": Command(_Logo, _logo),
}
"""The commands on merchants and their destinations."""
