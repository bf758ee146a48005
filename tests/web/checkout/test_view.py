"""What a buyer is shown of a payment, for every status, currency and shop's URL."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.money import AmountWire
from payd.core.payment import (
    Cancelled,
    Checkout,
    Expired,
    Failed,
    Payment,
    Processing,
    Settled,
    Success,
)
from payd.core.status import Status
from payd.web.checkout.view import (
    PaymentView,
    asset_number,
    fiat_number,
    moment,
    time_left,
    view_of,
    way_back,
)
from payd.web.schema import Words

AT_MS = 1_780_000_000_000
PAID = AmountWire("caip19/eip155:8453/slip44:60", "4125")
PROCESSING = Processing(AT_MS, PAID, PAID, None, "eip155:8453")
OPEN = Payment(
    id="pay_t1",
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="ORDER-1",
    currency="EUR",
    value=2500,
    created_at_ms=AT_MS,
    expires_at_ms=AT_MS + 900_000,
    updated_at_ms=AT_MS,
    checkout=Checkout("https://shop.example/thanks", "https://shop.example/cart"),
)
MORE: dict[Status, dict[str, object]] = {
    Status.REQUIRES_ACTION: {},
    Status.PROCESSING: {"processing": PROCESSING},
    Status.SUCCEEDED: {"processing": PROCESSING, "success": Success(AT_MS, "0xab")},
    Status.FAILED: {"failed": Failed(AT_MS, "It was refused")},
    Status.EXPIRED: {"expired": Expired(AT_MS)},
    Status.CANCELLED: {"cancelled": Cancelled(AT_MS, "cancelled_by_user")},
}


def payment_in(status: Status, **more: object) -> Payment:
    return msgspec.structs.replace(OPEN, status=status, version=1, **(MORE[status] | more))


def shown(payment: Payment, *, live: bool = False, now_ms: int = AT_MS) -> PaymentView:
    return view_of(payment, Words(()), "Café Größe", live=live, now_ms=now_ms)


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [
        (1250, "USD", "12.50"),
        (5, "EUR", "0.05"),
        (2500, "JPY", "2,500"),
        (1_234_567, "KWD", "1,234.567"),
        (999_999_999_999_999_999, "USD", "9,999,999,999,999,999.99"),
        (1, "XAU", "1"),
    ],
)
def test_an_amount_has_the_decimals_of_its_currency(value: int, currency: str, text: str) -> None:
    assert fiat_number(msgspec.structs.replace(OPEN, value=value, currency=currency)) == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (12_500_000, 6, "12.50"),
        (4_125_000_000_000_000, 18, "0.004125"),
        (1_000_000_000_000, 6, "1,000,000.00"),
        (7, 0, "7"),
        (7, 1, "0.7"),
        (1, 18, "0.000000000000000001"),
    ],
)
def test_an_on_chain_amount_loses_only_zeros_that_say_nothing(value: int, decimals: int, text: str) -> None:
    assert asset_number(value, decimals) == text


@pytest.mark.parametrize(
    ("left_ms", "text"),
    [
        (900_000, "15:00"),
        (899_999, "14:59"),
        (59_000, "0:59"),
        (0, "0:00"),
        (-1, "0:00"),
        (3_600_000, "1:00:00"),
    ],
)
def test_the_time_left_is_counted_in_whole_seconds(left_ms: int, text: str) -> None:
    assert time_left(left_ms) == text


def test_an_instant_is_said_in_utc_and_in_full_for_scripts() -> None:
    at = moment(1_780_000_000_000)
    assert (at.iso, at.text) == ("2026-05-28T20:26:40.000Z", "28 May 2026, 20:26 UTC")


@pytest.mark.parametrize("status", [status for status in Status if not status.is_final])
def test_there_is_no_way_back_before_the_end(status: Status) -> None:
    assert way_back(payment_in(status)) is None


@pytest.mark.parametrize("status", [status for status in Status if status.is_final])
def test_a_final_page_leads_back_to_the_url_of_its_outcome(status: Status) -> None:
    back = way_back(payment_in(status))
    assert back is not None
    path = "thanks" if status is Status.SUCCEEDED else "cart"
    assert (back.url, back.host) == (f"https://shop.example/{path}?payment_id=pay_t1", "shop.example")


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("https://a.example", "https://a.example?payment_id=pay_t1"),
        ("https://a.example/?o=1&x=%20y", "https://a.example/?o=1&x=%20y&payment_id=pay_t1"),
        ("https://a.example/x?o=1#top", "https://a.example/x?o=1&payment_id=pay_t1#top"),
        ("https://a.example:8443/x#/spa?r=1", "https://a.example:8443/x?payment_id=pay_t1#/spa?r=1"),
    ],
)
def test_the_payments_id_is_added_and_the_rest_of_the_url_kept(url: str, there: str) -> None:
    back = way_back(payment_in(Status.SUCCEEDED, checkout=Checkout(url, url)))
    assert back is not None
    assert back.url == there


def test_a_url_that_no_browser_would_follow_is_no_way_back() -> None:
    assert way_back(payment_in(Status.SUCCEEDED, checkout=Checkout("https://[1", "https://[1"))) is None
    assert way_back(payment_in(Status.SUCCEEDED, checkout=None)) is None


def test_the_console_offers_what_is_possible_now() -> None:
    def allowed(status: Status) -> set[str]:
        return {move.to for move in shown(payment_in(status)).moves if move.allowed}

    assert allowed(Status.REQUIRES_ACTION) == {"succeeded", "failed", "expired", "cancelled"}
    assert allowed(Status.PROCESSING) == {"succeeded", "failed", "expired"}


def test_there_is_no_console_in_the_live_realm_nor_after_the_end() -> None:
    assert shown(OPEN, live=True).moves == ()
    assert all(shown(payment_in(status)).moves == () for status in Status if status.is_final)


def test_a_payment_says_how_it_was_paid() -> None:
    settled = Settled(AT_MS, "0xab", PAID)
    view = shown(payment_in(Status.SUCCEEDED, settled=settled))
    assert (view.paid, view.tx_id, view.was_sent) == ("0.000000000000004125 ETH on Base", "0xab", True)
    assert view.date is not None
    assert shown(OPEN).paid is None


def test_the_title_says_what_is_going_on() -> None:
    assert shown(OPEN).title == "Pay 25.00 EUR to Café Größe"
    assert shown(payment_in(Status.EXPIRED)).title == "This payment has expired · 25.00 EUR · Café Größe"
