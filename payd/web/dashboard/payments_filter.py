"""Which payments a list shows: what a visitor chose, as a query's words and as the store's filter.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from payd.core.caip import MalformedCaip, canonical_asset, canonical_chain, parse_asset, parse_chain
from payd.core.errors import InvalidParams
from payd.core.money import MINOR_UNITS
from payd.core.period import OFFSET_MIN_HIGHEST, OFFSET_MIN_LOWEST, QUARTER_MIN, bounds_ms
from payd.core.search import read_search
from payd.core.status import Status
from payd.store.db import Tx
from payd.store.ledger import currencies_used
from payd.store.merchants import list_merchants
from payd.store.payments import PaymentFilter
from payd.store.settlements import assets_taken
from payd.web.dashboard.cookies import zone_offset_min, zone_place
from payd.web.dashboard.payments_view import STATUS_WORDS
from payd.web.dashboard.visit import Visit
from payd.web.schema import Words

# A select of more is no help; the search box finds them by name.
MERCHANTS_MAX: Final = 200

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A filter as it stands in the query; empty is no wish.

    Attributes:
        q: Whatever was typed into the search box.
        since: The first day, such as `2026-05-18`, by the user's clock.
        until: The last day.
    """

    q: str = ""
    status: str = ""
    merchant: str = ""
    currency: str = ""
    asset: str = ""
    network: str = ""
    since: str = ""
    until: str = ""

    @property
    def query(self) -> dict[str, str]:
        """What of it is chosen."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def is_text_alone(self) -> bool:
        """Whether nothing but the search box was used."""
        return [*self.query] == ["q"]


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen, as pairs of a value and its name."""

    statuses: Pairs
    merchants: Pairs
    currencies: Pairs
    assets: Pairs
    networks: Pairs

    def including(self, chosen: Chosen, merchants: Mapping[str, str]) -> Choices:
        """With what is chosen, also where it is no choice any more: else the list would be called another.

        Args:
            chosen: The filter.
            merchants: The names of those in the list.
        """
        name = merchants.get(chosen.merchant, chosen.merchant)
        return replace(
            self,
            merchants=_with(self.merchants, chosen.merchant, name),
            currencies=_with(self.currencies, chosen.currency, chosen.currency),
            assets=_with(self.assets, chosen.asset, chosen.asset),
            networks=_with(self.networks, chosen.network, chosen.network),
        )


def _with(pairs: Pairs, value: str, name: str) -> Pairs:
    return pairs if value in dict(pairs) else (*pairs, (value, name))


def chosen_of(visit: Visit) -> Chosen:
    """What the query says."""
    return Chosen(**{name: visit.query(name) for name in Chosen.__dataclass_fields__})


def offset_of(visit: Visit) -> int:
    """How far the user's clock is ahead of UTC now, in whole quarters of an hour.

    What the page's script measured is of its last page, maybe of another season; the place knows.
    """
    place = zone_place(visit.request.headers)
    if place is None:
        minutes = zone_offset_min(visit.request.headers)
    else:
        now = datetime.fromtimestamp(visit.realm.clock.now_ms() / 1000, place)
        minutes = (now.utcoffset() or timedelta()) // timedelta(minutes=1)
    minutes = minutes // QUARTER_MIN * QUARTER_MIN
    return min(max(minutes, OFFSET_MIN_LOWEST), OFFSET_MIN_HIGHEST)


def filter_of(visit: Visit, chosen: Chosen) -> PaymentFilter:
    """The store's filter.

    Raises:
        InvalidParams: Something in the query is not what the page offers.
    """
    place = zone_place(visit.request.headers)
    start_ms, end_ms = bounds_ms(chosen.since, chosen.until, offset_of(visit), place)
    if chosen.status and chosen.status not in STATUS_WORDS:
        raise InvalidParams("There is no such status.")
    if chosen.currency and chosen.currency not in MINOR_UNITS:
        raise InvalidParams("There is no such currency.")
    text = read_search(chosen.q)
    if chosen.q and text is None:
        raise InvalidParams("That is too long to be looked for.")
    try:
        asset = canonical_asset(parse_asset(chosen.asset)) if chosen.asset else None
        networks = (str(canonical_chain(parse_chain(chosen.network))),) if chosen.network else ()
    except MalformedCaip:
        raise InvalidParams("There is no such asset or network.") from None
    return PaymentFilter(
        account_id=visit.account_id,
        start_ms=start_ms,
        end_ms=end_ms,
        statuses=(chosen.status,) if chosen.status else (),
        merchants=(chosen.merchant,) if chosen.merchant else None,
        asset=asset,
        networks=networks,
        currency=chosen.currency or None,
        text=text,
    )


def choices_of(tx: Tx, account_id: str, words: Words) -> Choices:
    """What an account can choose from: its merchants, what they take, and what its payments are in."""
    merchants, _ = list_merchants(tx, account_id, limit=MERCHANTS_MAX)
    assets, networks = [], {}
    for asset in assets_taken(tx, account_id):
        shown = words.display(f"caip19/{asset}")
        network = str(parse_asset(asset).chain)
        networks[network] = shown.network_name or network
        assets.append((asset, f"{shown.asset_symbol} on {networks[network]}"))
    return Choices(
        (("", "Any status"), *((one.value, STATUS_WORDS[one.value].word) for one in Status)),
        (("", "All merchants"), *((one.id, one.name) for one in merchants)),
        (("", "Any currency"), *((code, code) for code in currencies_used(tx, account_id))),
        (("", "Any asset"), *sorted(assets, key=lambda pair: pair[1])),
        (("", "Any network"), *sorted(networks.items(), key=lambda pair: pair[1])),
    )
