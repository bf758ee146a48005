"""The depth of a payment by its worth: in dollars, in what stands for them, in anything that has a price."""

from __future__ import annotations

import msgspec
import pytest

from payd.chains.assets import Asset, AssetBook
from payd.chains.defaults import Depth, DepthPolicy
from payd.chains.depth import depth_of, depth_of_quote
from payd.chains.market.prices import Priced
from payd.chains.market.table import TablePrices
from payd.core.option import Quote
from payd.core.payment import Payment

POLICY = DepthPolicy.of({"0": 3, "1000": 12, "10000": "finalized"})
PAYMENT = Payment("pay_1", "acct_1", "mrch_1", "R", "USD", 1, 0, 900_000, 0)
USDC = Asset(asset="eip155:1/erc20:0x1", symbol="USDC", name="", decimals=6, kind="erc20", par="USD")
EURC = Asset(asset="eip155:1/erc20:0x2", symbol="EURC", name="", decimals=6, kind="erc20", par="EUR")
ETH = Asset(asset="eip155:1/slip44:60", symbol="ETH", name="", decimals=18, kind="native")
PRICES = TablePrices({"ETH/USD": "2500", "EURC/USD": "1.1"})


class Unasked:
    """Prices whose feeds may be away: nobody is to wait for them."""

    async def price(self, currency: str, asset: Asset, now_ms: int) -> Priced | None:
        raise AssertionError("nobody needs to know")


@pytest.mark.parametrize(
    ("currency", "value", "row", "amount", "expected"),
    [
        ("USD", 99_999, ETH, 1, 3),
        ("USD", 100_000, ETH, 1, 12),
        ("USD", 999_999, USDC, 1, 12),
        ("USD", 1_000_000, USDC, 1, "finalized"),
        # A payment in another currency is worth what it is paid with.
        ("EUR", 1, USDC, 999_990_000, 3),
        ("EUR", 1, USDC, 999_990_001, 12),
        ("EUR", 1, EURC, 909_080_000, 3),
        ("EUR", 1, EURC, 909_090_910, 12),
        ("EUR", 1, ETH, 4 * 10**18, "finalized"),
        ("JPY", 1, ETH, 4 * 10**17 - 10**15, 3),
        ("JPY", 1, ETH, 4 * 10**17, 12),
    ],
)
async def test_the_depth_is_that_of_the_payments_worth_in_dollars(
    currency: str, value: int, row: Asset, amount: int, expected: Depth
) -> None:
    payment = msgspec.structs.replace(PAYMENT, currency=currency, value=value)
    assert await depth_of(POLICY, PRICES, payment, row, amount, 0) == expected


async def test_what_nobody_knows_the_worth_of_waits_longest() -> None:
    payment = msgspec.structs.replace(PAYMENT, currency="EUR")

    assert await depth_of(POLICY, TablePrices({}), payment, ETH, 1, 0) == "finalized"
    assert await depth_of(POLICY, PRICES, payment, None, 1, 0) == "finalized"


async def test_a_quote_is_worth_what_all_of_it_costs_in_the_asset_that_the_book_has() -> None:
    payment = msgspec.structs.replace(PAYMENT, currency="EUR")
    quote = Quote("opt_1", PAYMENT.id, USDC.asset, "", 1_000_000_000, "", (), 0, 0, due=1)

    assert await depth_of_quote(POLICY, PRICES, AssetBook([USDC]), payment, quote, 0) == 12
    assert await depth_of_quote(POLICY, PRICES, AssetBook(), payment, quote, 0) == "finalized"


async def test_one_depth_for_all_needs_no_price() -> None:
    payment = msgspec.structs.replace(PAYMENT, currency="EUR")

    assert await depth_of(DepthPolicy.of(1), Unasked(), payment, ETH, 1, 0) == 1
