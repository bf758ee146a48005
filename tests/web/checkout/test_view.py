"""What a buyer is shown of a payment, for every status, currency and shop's URL."""

from __future__ import annotations

import msgspec
import pytest

from payd.core import failure
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
from payd.core.status import FINAL, Status
from payd.web.checkout.progress import Progress
from payd.web.checkout.view import (
    RENEW_MS,
    Failure,
    PaymentView,
    moment,
    rate_of,
    short_account,
    time_left,
    view_of,
    way_back,
)
from payd.web.checkout.words import Language
from payd.web.schema import Words

ENGLISH = Language("en")
AT_MS = 1_780_000_000_000
PAID = AmountWire("caip19/eip155:8453/slip44:60", "4125")
TX_ID = "0x" + "ab" * 32
BUYER = "eip155:8453:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
PROCESSING = Processing(AT_MS, PAID, PAID, BUYER, "eip155:8453")
SENT = Progress(TX_ID)
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
    Status.SUCCEEDED: {"processing": PROCESSING, "success": Success(AT_MS, TX_ID)},
    Status.FAILED: {"failed": Failed(AT_MS, "It was refused")},
    Status.EXPIRED: {"expired": Expired(AT_MS)},
    Status.CANCELLED: {"cancelled": Cancelled(AT_MS, "cancelled_by_user")},
}


def payment_in(status: Status, **more: object) -> Payment:
    return msgspec.structs.replace(OPEN, status=status, version=1, **(MORE[status] | more))


def shown(
    payment: Payment, progress: Progress = SENT, *, live: bool = False, now_ms: int = AT_MS
) -> PaymentView:
    return view_of(payment, Words(()), "Café Größe", ENGLISH, progress, live=live, now_ms=now_ms)


@pytest.mark.parametrize(
    ("left_ms", "text"),
    [
        (900_000, "15:00"),
        (899_999, "14:59"),
        (59_000, "0:59"),
        (0, "0:00"),
        (-1, "0:00"),
        (-61_000, "0:00"),
        (3_600_000, "1:00:00"),
    ],
)
def test_the_time_left_is_counted_in_whole_seconds(left_ms: int, text: str) -> None:
    assert time_left(left_ms) == text


def test_an_instant_is_said_in_utc_and_in_full_for_scripts() -> None:
    at = moment(1_780_000_000_000, ENGLISH)
    assert (at.iso, at.text) == ("2026-05-28T20:26:40.000Z", "May 28, 2026, 8:26 PM UTC")


def test_a_payment_that_is_being_confirmed_leads_nowhere() -> None:
    assert way_back(payment_in(Status.PROCESSING)) is None


@pytest.mark.parametrize("status", [one for one in Status if one is not Status.PROCESSING])
def test_a_page_leads_back_to_the_url_of_its_outcome(status: Status) -> None:
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


@pytest.mark.parametrize(
    "odd", ["https://[1", "http://a.example/", "javascript:alert(1)", "https://u@a.example/"]
)
def test_both_urls_are_https_or_neither_is_a_way_back(odd: str) -> None:
    good = "https://a.example/"
    for urls in (Checkout(odd, good), Checkout(good, odd)):
        assert way_back(payment_in(Status.SUCCEEDED, checkout=urls)) is None
        assert way_back(payment_in(Status.FAILED, checkout=urls)) is None
    assert way_back(payment_in(Status.SUCCEEDED, checkout=None)) is None


@pytest.mark.parametrize("status", Status)
def test_who_has_a_question_is_told_the_shops_host_in_every_status(status: Status) -> None:
    assert shown(payment_in(status)).shop == "shop.example"
    assert shown(payment_in(status, checkout=None)).shop is None
    insecure = Checkout("https://shop.example/", "http://shop.example/")
    assert shown(payment_in(status, checkout=insecure)).shop is None


@pytest.mark.parametrize(
    "host",
    ["shop.example:8443", "caf\u00e9.example", "xn--caf-dma.example", "a" * 60 + ".example", "[2001:db8::1]"],
)
def test_the_buyer_is_told_the_host_as_the_merchant_wrote_it(host: str) -> None:
    url = f"https://{host}/x"
    back = way_back(payment_in(Status.SUCCEEDED, checkout=Checkout(url, url)))
    assert back is not None
    assert (back.host, back.url) == (host, f"{url}?payment_id=pay_t1")


def test_the_console_offers_what_is_possible_now() -> None:
    def allowed(status: Status) -> set[str]:
        return {move.to for move in shown(payment_in(status)).moves if move.allowed}

    assert allowed(Status.REQUIRES_ACTION) == {"succeeded", "failed", "expired", "cancelled"}
    assert allowed(Status.PROCESSING) == {"succeeded", "failed", "expired"}


def test_there_is_no_console_in_the_live_realm_nor_after_the_end() -> None:
    assert shown(OPEN, live=True).moves == ()
    assert all(shown(payment_in(status)).moves == () for status in FINAL)


def test_a_payment_says_how_it_was_paid() -> None:
    settled = Settled(AT_MS, "0xab", PAID)
    view = shown(payment_in(Status.SUCCEEDED, settled=settled))
    assert view.transfer is not None
    assert (view.transfer.paid, view.transfer.tx_id) == ("0.000000000000004125 ETH on Base", TX_ID)
    assert (view.transfer.sender_short, view.transfer.depth) == ("0xf39F…2266", None)
    assert view.transfer.explorer is not None
    assert view.transfer.explorer.url == f"https://basescan.org/tx/{TX_ID}"
    assert view.transfer.explorer.host == "basescan.org"
    assert view.date is not None
    assert shown(OPEN).transfer is None


def test_blocks_are_counted_and_the_count_is_renewed_until_it_is_paid() -> None:
    processing = shown(payment_in(Status.PROCESSING), Progress(TX_ID, 2, 3)).transfer
    assert processing is not None
    assert (processing.done, processing.depth, processing.renew_at_ms) == (2, 3, AT_MS + RENEW_MS)
    uncounted = shown(payment_in(Status.PROCESSING), Progress(TX_ID)).transfer
    assert uncounted is not None
    assert (uncounted.depth, uncounted.renew_at_ms) == (None, None)


@pytest.mark.parametrize(
    ("value", "currency", "paid", "decimals", "rate"),
    [
        (2500, "EUR", 27_130_000, 6, "0.921489 EUR"),
        (2500, "USD", 25_000_000, 6, "1.00 USD"),
        (250_000, "EUR", 10**18, 18, "2,500.00 EUR"),
        (3000, "JPY", 2 * 10**6, 6, "1,500.00 JPY"),
        (1, "USD", 10**30, 18, "0.00000000000001 USD"),
        (10**17, "KWD", 1, 0, "100,000,000,000,000.00 KWD"),
    ],
)
def test_a_rate_is_what_one_of_the_asset_was_worth(
    value: int, currency: str, paid: int, decimals: int, rate: str
) -> None:
    payment = msgspec.structs.replace(OPEN, value=value, currency=currency)
    assert rate_of(payment, paid, decimals, "X", ENGLISH) == f"1 X = {rate}"


def test_there_is_no_rate_of_nothing() -> None:
    assert rate_of(OPEN, 0, 6, "X", ENGLISH) is None
    assert rate_of(OPEN, 10**60, 6, "X", ENGLISH) is None


@pytest.mark.parametrize(
    ("reason", "code", "sent", "said", "money"),
    [
        (failure.SIMULATED, "declined_user", False, "simulated", "unsent"),
        (failure.SIMULATED, "declined_user", True, "simulated", "sent"),
        (failure.MISALIGNED, "declined_user", False, "misaligned", "sent"),
        (failure.TAKEN_BACK, "declined_user", True, "taken_back", "unsent"),
        (failure.REPLACED, "declined_user", True, "replaced", "sent"),
        (failure.REVERTED, "broadcast_failed", True, "reverted", "kept"),
        (failure.PAID_NOTHING, "broadcast_failed", True, "unpaid", "sent"),
        (f"{failure.NOT_BROUGHT}no gas", "broadcast_failed", True, "not_brought", "unsent"),
        (f"{failure.REFUSED}{failure.NO_FUNDS}.", "broadcast_failed", True, "no_funds", "kept"),
        ("<b>own words</b>", "declined_user", False, "declined", "unsent"),
        ("own words", "broadcast_failed", True, "broadcast", "sent"),
    ],
)
def test_a_failure_is_told_by_its_kind_and_says_what_became_of_the_money(
    reason: str, code: str, sent: bool, said: str, money: str
) -> None:
    more: dict[str, object] = {"processing": PROCESSING} if sent else {}
    view = shown(payment_in(Status.FAILED, failed=Failed(AT_MS, reason, code), **more))
    assert view.failure == Failure(f"failed.{said}", f"failed.{money}")
    for key in (view.failure.reason, view.failure.money):
        assert ENGLISH.say(key, merchant="Shop")


def test_an_account_is_short_unless_it_is_short_already() -> None:
    assert short_account("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v") == "EPjFWd…Dt1v"
    assert short_account("alice.near") == "alice.near"


def test_the_title_says_what_is_going_on() -> None:
    assert shown(OPEN).title == "Pay €25.00 to Café Größe"
    assert shown(payment_in(Status.EXPIRED)).title == "This payment has expired · €25.00 · Café Größe"
