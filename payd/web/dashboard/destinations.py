"""Destinations: where a merchant's money goes, and the ceremony of sending it elsewhere.

A stolen session must not move the money silently: a change shows the old address beside the new one, wants
the end of the new one typed, asks who it is, and is in the audit.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.caip import AccountId, MalformedCaip, parse_account, parse_asset, to_checksum_address
from payd.core.errors import InvalidParams, NotFound
from payd.core.settlement_change import SettlementChange
from payd.core.span import span
from payd.store.merchants import Merchant, find_merchant
from payd.store.settlement_changes import changes_of, find_change
from payd.store.settlements import Settlement, find_settlement, list_settlements
from payd.store.users import names_of
from payd.web.call import Answer
from payd.web.dashboard.audit import called
from payd.web.dashboard.visit import Visit
from payd.web.settlements import check_destination, serves

END: Final = 6
"""So many characters of an address are marked at each end, and typed."""

EVM: Final = "eip155"
NO_ADDRESS: Final = (
    "That is no address. Copy it from your wallet: a name that stands for one, such as shop.eth, is none."
)


class Address(msgspec.Struct, frozen=True):
    """An address in three parts, so that its ends can be compared; `checked` says what its capitals prove."""

    start: str
    middle: str
    end: str
    checked: str

    @property
    def whole(self) -> str:
        """The address."""
        return self.start + self.middle + self.end


class Pending(msgspec.Struct, frozen=True):
    """A change that is held back: where to, from when on, who asked for it, and where it is taken back."""

    address: Address
    at_ms: int
    who: str
    cancel: str


class Destination(msgspec.Struct, frozen=True):
    """Where one asset goes."""

    id: str
    href: str
    asset: str
    name: str
    network: str
    address: Address
    works: bool
    pending: Pending | None


class Network(msgspec.Struct, frozen=True):
    """A network with what can be taken there: CAIP-19 and name."""

    name: str
    assets: tuple[tuple[str, str], ...]


def destinations_of(visit: Visit, merchant_id: str) -> tuple[Destination, ...]:
    """Where a merchant of this account is paid."""
    rows = visit.realm.db.point(list_settlements, merchant_id)
    pending = visit.realm.db.point(changes_of, merchant_id)
    return tuple(_shown(visit, row, pending.get(row.id)) for row in rows)


async def add_page(visit: Visit) -> Answer:
    """GET /d/{mode}/merchants/{merchant}/add: the assets that there are, and a form."""
    merchant = own_merchant(visit)
    search = visit.query("q")
    networks = _networks(visit, search)
    return visit.page(
        "destination_add.html",
        name=merchant.name,
        back=visit.to(f"merchants/{merchant.id}"),
        action=visit.to(f"merchants/{merchant.id}/add"),
        networks=networks,
        found=sum(len(one.assets) for one in networks),
        q=search,
        any_asset=not visit.realm.live,
    )


async def add(visit: Visit) -> Answer:
    """POST /d/{mode}/merchants/{merchant}/add."""
    merchant = own_merchant(visit)
    asset = visit.typed("other_asset") or visit.typed("asset")
    if not asset:
        raise InvalidParams("Choose what is paid with.")
    body = {"settlements": [{"asset": asset, "destination": _account(asset, visit.typed("address"))}]}
    await visit.ask("POST", f"/v1/merchants/{merchant.id}/settlements/crypto", body)
    return visit.redirect(f"merchants/{merchant.id}", "Saved: this is where the money goes.")


async def change_page(visit: Visit) -> Answer:
    """GET /d/{mode}/merchants/{merchant}/destinations/{destination}: where the money goes now."""
    merchant, settlement, pending = _own(visit)
    return visit.page(
        "destination.html",
        name=merchant.name,
        back=visit.to(f"merchants/{merchant.id}"),
        one=_shown(visit, settlement, pending),
        delay=_delay(visit),
    )


async def compare(visit: Visit) -> Answer:
    """POST …/destinations/{destination}/compare: the old address beside the new one; changes nothing."""
    merchant, settlement, pending = _own(visit)
    wanted = _account(settlement.asset, visit.typed("address"))
    check_destination(settlement.asset, wanted, "The new address")
    if wanted == settlement.destination:
        keep = "" if pending is None else " To keep it, cancel the change that waits."
        raise InvalidParams(f"That is the address to which the money goes already.{keep}")
    return visit.page(
        "destination_compare.html",
        name=merchant.name,
        back=visit.to(f"merchants/{merchant.id}"),
        one=_shown(visit, settlement, pending),
        new=mark(parse_account(wanted)),
        was=settlement.destination if pending is None else pending.destination,
        end=END,
        delay=_delay(visit),
    )


async def change(visit: Visit) -> Answer:
    """POST …/destinations/{destination}: the money goes elsewhere, from now on or after a while."""
    merchant, settlement, _ = _own(visit)
    address = visit.typed("address")
    wanted = _account(settlement.asset, address)
    if not _same(wanted[-END:], visit.typed("code_end"), wanted):
        raise InvalidParams(f"Those are not the new address's last {END} characters. Nothing was changed.")
    changed = await visit.ask(
        "PUT", _path(settlement), {"destination": wanted, "expected": visit.typed("was")}
    )
    said = f"The money goes to …{wanted[-END:]} from now on."
    if "pending" in changed:
        said = f"The change to …{wanted[-END:]} waits. Until it takes effect, you can cancel it here."
    return visit.redirect(f"merchants/{merchant.id}", said)


async def cancel(visit: Visit) -> Answer:
    """POST …/destinations/{destination}/cancel: the money goes where it goes.

    Nobody is asked again who they are: this moves no money, and may have to be quick.
    """
    merchant, settlement, _ = _own(visit)
    await visit.ask("DELETE", f"{_path(settlement)}/pending")
    return visit.redirect(
        f"merchants/{merchant.id}",
        f"Cancelled: the money goes to …{settlement.destination[-END:]} as before.",
    )


async def delete(visit: Visit) -> Answer:
    """POST …/destinations/{destination}/delete: the asset is not taken any more."""
    merchant, settlement, _ = _own(visit)
    await visit.ask("DELETE", _path(settlement))
    return visit.redirect(f"merchants/{merchant.id}", "Removed. Buyers are not offered it any more.")


def own_merchant(visit: Visit) -> Merchant:
    """The merchant in the path.

    Raises:
        NotFound: No merchant of the account.
    """
    merchant = visit.realm.db.point(find_merchant, visit.params["merchant"])
    if merchant is None or merchant.account_id != visit.account_id:
        raise NotFound("There is no such merchant.")
    return merchant


def mark(account: AccountId) -> Address:
    """An address with its ends, and what its capitals prove."""
    address = account.address
    head = END + 2 * address.startswith("0x")
    checked = ""
    if account.chain.namespace == EVM:
        if address == address.lower():
            checked = f"It has no capitals, so a typo would not be noticed. With them: {_capitals(address)}"
        else:
            checked = "Its checksum is right."
    return Address(address[:head], address[head:-END], address[-END:], checked)


def _own(visit: Visit) -> tuple[Merchant, Settlement, SettlementChange | None]:
    merchant = own_merchant(visit)
    settlement = visit.realm.db.point(find_settlement, merchant.id, visit.params["destination"])
    if settlement is None:
        raise NotFound("There is no such destination.")
    return merchant, settlement, visit.realm.db.point(find_change, settlement.id)


def _path(row: Settlement) -> str:
    return f"/v1/merchants/{row.merchant_id}/settlements/crypto/{row.id}"


def _delay(visit: Visit) -> str:
    """How long a change is held back, in words; empty: not at all."""
    delay_ms = visit.realm.settlement_changes.delay_ms
    return span(delay_ms) if delay_ms else ""


def _shown(visit: Visit, row: Settlement, change: SettlementChange | None) -> Destination:
    asset = parse_asset(row.asset)
    display = visit.realm.assets.display(asset)
    network = (display and display.network_name) or str(asset.chain)
    href = visit.to(f"merchants/{row.merchant_id}/destinations/{row.id}")
    return Destination(
        row.id,
        href,
        row.asset,
        row.asset if display is None else display.asset_symbol,
        network,
        mark(parse_account(row.destination)),
        serves(visit.realm, asset),
        None if change is None else _pending(visit, change, f"{href}/cancel"),
    )


def _pending(visit: Visit, change: SettlementChange, cancel: str) -> Pending:
    names = visit.house.office.point(names_of, [change.actor])
    who = called(change.actor, names)
    return Pending(mark(parse_account(change.destination)), change.due_at_ms, who, cancel)


def _networks(visit: Visit, search: str) -> tuple[Network, ...]:
    """What the realm's chains take, as far as it matches."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in visit.realm.assets.rows:
        asset = parse_asset(row.asset)
        if not serves(visit.realm, asset):
            continue
        network = visit.realm.assets.network(asset.chain) or str(asset.chain)
        if search.casefold() in f"{row.symbol} {row.name} {network} {row.asset}".casefold():
            found.setdefault(network, []).append((row.asset, f"{row.symbol} ({row.name}) on {network}"))
    return tuple(Network(name, tuple(assets)) for name, assets in found.items())


def _account(asset: str, address: str) -> str:
    """An address as CAIP-10 on the asset's chain; what is one already stays as it is."""
    if ":" in address:
        return address
    if not address:
        raise InvalidParams("Type the address of your wallet.")
    try:
        account = f"{parse_asset(asset).chain}:{address}"
    except MalformedCaip as malformed:
        raise InvalidParams(f"The asset {malformed}.") from None
    try:
        parse_account(account)
    except MalformedCaip:
        raise InvalidParams(NO_ADDRESS) from None
    return account


def _same(end: str, typed: str, account: str) -> bool:
    """Whether the end was typed; capitals do not matter where they are but a checksum."""
    if account.startswith(f"{EVM}:"):
        return end.lower() == typed.lower()
    return end == typed


def _capitals(address: str) -> str:
    try:
        return to_checksum_address(address)
    except ValueError:
        return address
