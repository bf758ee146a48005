"""What an open payment's page says below "Details": what assets are worth, and where the money goes.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import msgspec
import trio

from payd.core.caip import ChainId, parse_account, parse_asset
from payd.core.payment import Payment
from payd.store.options import Route
from payd.web.checkout.view import short_account, worth_of
from payd.web.checkout.wallets import NAMED_MAX
from payd.web.checkout.words import Language
from payd.web.house import Realm

# A page waits no longer for those who know prices; what they have not said by then is left out.
RATES_S: Final = 1.0


class DetailsView(msgspec.Struct, frozen=True):
    """What the template shows, a line each.

    Attributes:
        rates: What one of each asset is worth, for those of which somebody can say it now.
        settles: The merchant's accounts with their networks. Shortened: a buyer can see that a wallet asks
            for the same, and nobody can copy one, since money sent there by hand is bound to no payment.
    """

    rates: tuple[str, ...]
    settles: tuple[str, ...]


async def details_view(
    realm: Realm, payment: Payment, routes: Sequence[Route], language: Language
) -> DetailsView:
    """What is known of the first ways to pay, as many as the page names."""
    named = routes[:NAMED_MAX]
    return DetailsView(await _rates(realm, payment, named, language), _settles(realm, named))


async def _rates(
    realm: Realm, payment: Payment, routes: Sequence[Route], language: Language
) -> tuple[str, ...]:
    now_ms = realm.clock.now_ms()
    said: list[str | None] = []  # the same asset on two networks is worth the same
    with trio.move_on_after(RATES_S):
        for asset in (parse_asset(route.asset_key) for route in routes):
            chain = realm.payments.chain_of(str(asset.chain))
            shown = None if chain is None else chain.display(asset)
            rate = None if chain is None else await chain.rate(payment.currency, asset, now_ms)
            if shown is not None and rate is not None:
                worth = Fraction(rate.denominator, rate.numerator)
                said.append(worth_of(worth, payment.currency, shown.asset_symbol, language))
    return tuple(dict.fromkeys(line for line in said if line is not None))


def _settles(realm: Realm, routes: Sequence[Route]) -> tuple[str, ...]:
    networks: dict[str, dict[ChainId, str]] = {}
    for route in routes:
        account = parse_account(route.destination)
        name = realm.assets.network(account.chain) or str(account.chain)
        networks.setdefault(account.address, {})[account.chain] = name
    return tuple(f"{short_account(one)} ({', '.join(names.values())})" for one, names in networks.items())
