"""What a transfer is for the payment that it is bound to."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.option import QUOTE_GRACE_MS, Quote
from payd.core.status import FINAL, Status
from payd.core.transfer import Claim, Kind, Sighting, classify

TOKEN = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
COIN = "eip155:8453/slip44:60"
SHOP = "eip155:8453:0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B"
OTHER = "eip155:8453:0x52908400098527886e0f7030069857d2e4169ee7"
FROM_MS, UNTIL_MS = 1_000_000, 1_600_000

QUOTE = Quote("opt_1", "pay_l1", TOKEN, "eip155:8453:0xb0", 500, SHOP, (), FROM_MS, UNTIL_MS)
PAID = Sighting(TOKEN.lower(), 500, SHOP.lower(), 1_300_000)
OPEN = Claim(Status.REQUIRES_ACTION, [QUOTE])
UNDER_WAY = Claim(Status.PROCESSING, [QUOTE], committed=(PAID.asset, 500))

sightings = st.builds(
    Sighting,
    asset=st.sampled_from([PAID.asset, COIN]),
    value=st.integers(1, 1000),
    recipient=st.sampled_from([PAID.recipient, OTHER]),
    block_at_ms=st.integers(0, 3_000_000),
)
quotes = st.builds(
    Quote,
    option_id=st.just("opt_1"),
    payment_id=st.just("pay_l1"),
    asset=st.sampled_from([TOKEN, COIN]),
    account=st.just("eip155:8453:0xb0"),
    amount=st.integers(1, 1000),
    destination=st.sampled_from([SHOP, OTHER]),
    actions=st.just(()),
    valid_from_ms=st.integers(0, 1_500_000),
    valid_until_ms=st.integers(1_500_000, 3_000_000),
)
commitments = st.tuples(st.sampled_from([PAID.asset, COIN]), st.integers(1, 1000))


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    status = draw(st.sampled_from(Status))
    committed = draw(commitments) if status in (Status.PROCESSING, Status.SUCCEEDED) else None
    held = status is not Status.PROCESSING or draw(st.booleans())
    return Claim(status, draw(st.lists(quotes, max_size=5)), committed, held, draw(st.booleans()))


def kind(transfer: Sighting, claim: Claim | None) -> Kind:
    return classify(transfer, claim).kind


def paid(**changes: object) -> Sighting:
    return msgspec.structs.replace(PAID, **changes)


def test_a_transfer_that_nothing_binds_is_for_nothing() -> None:
    assert kind(PAID, None) == "unmatched"


def test_the_exact_amount_in_time_pays() -> None:
    assert kind(PAID, OPEN) == "matched"


def test_of_a_quote_with_a_fee_only_what_is_due_to_the_destination_pays() -> None:
    less = msgspec.structs.replace(OPEN, quotes=[msgspec.structs.replace(QUOTE, due=490)])

    assert kind(paid(value=490), less) == "matched"
    assert kind(PAID, less) == "surplus"
    assert kind(paid(value=489), less) == "partial"


@pytest.mark.parametrize(
    ("value", "expected"), [(1, "partial"), (499, "partial"), (501, "surplus"), (5000, "surplus")]
)
def test_another_amount_than_quoted_pays_nothing(value: int, expected: Kind) -> None:
    assert kind(paid(value=value), OPEN) == expected


def test_the_reason_says_how_much_is_missing_or_too_much() -> None:
    assert " 20 smallest units less" in classify(paid(value=480), OPEN).reason
    assert " 7 smallest units more" in classify(paid(value=507), OPEN).reason


def test_another_asset_or_destination_than_offered_pays_nothing() -> None:
    assert kind(paid(asset=COIN), OPEN) == "unmatched"
    assert kind(paid(recipient=OTHER), OPEN) == "unmatched"
    assert kind(PAID, Claim(Status.REQUIRES_ACTION, [])) == "unmatched"


@pytest.mark.parametrize(
    ("block_at_ms", "expected"),
    [
        (FROM_MS - QUOTE_GRACE_MS - 1, "unmatched"),
        (FROM_MS - QUOTE_GRACE_MS, "matched"),
        (UNTIL_MS + QUOTE_GRACE_MS, "matched"),
        (UNTIL_MS + QUOTE_GRACE_MS + 1, "late"),
    ],
)
def test_a_quote_counts_by_the_time_of_the_block_with_its_grace(block_at_ms: int, expected: Kind) -> None:
    assert kind(paid(block_at_ms=block_at_ms), OPEN) == expected


def test_any_quote_that_was_valid_is_paid_not_only_the_newest() -> None:
    newer = msgspec.structs.replace(QUOTE, amount=480, valid_from_ms=FROM_MS + 200_000)
    claim = Claim(Status.REQUIRES_ACTION, [QUOTE, newer])
    assert kind(PAID, claim) == "matched"
    assert kind(paid(value=480), claim) == "matched"


def test_an_amount_that_was_asked_for_once_is_not_enough_when_only_a_dearer_quote_is_valid() -> None:
    dearer = msgspec.structs.replace(QUOTE, amount=520, valid_from_ms=UNTIL_MS, valid_until_ms=2 * UNTIL_MS)
    claim = Claim(Status.REQUIRES_ACTION, [QUOTE, dearer])
    assert kind(paid(block_at_ms=UNTIL_MS + QUOTE_GRACE_MS + 1), claim) == "partial"


def test_of_quotes_of_one_moment_the_dearest_says_whether_it_is_too_little() -> None:
    cheaper, dearer = (msgspec.structs.replace(QUOTE, amount=amount) for amount in (480, 520))
    for quotes_in_order in ([cheaper, dearer], [dearer, cheaper]):
        assert kind(PAID, Claim(Status.REQUIRES_ACTION, quotes_in_order)) == "partial"


def test_a_transfer_between_the_times_of_two_quotes_is_late_and_no_strangers() -> None:
    newer = msgspec.structs.replace(QUOTE, valid_from_ms=3 * UNTIL_MS, valid_until_ms=4 * UNTIL_MS)
    claim = Claim(Status.REQUIRES_ACTION, [newer, QUOTE])
    assert kind(paid(block_at_ms=2 * UNTIL_MS), claim) == "late"


def test_between_two_quotes_the_newest_says_whether_it_is_too_little() -> None:
    newer = msgspec.structs.replace(QUOTE, amount=480, valid_from_ms=FROM_MS + 200_000)
    assert kind(paid(value=490), Claim(Status.REQUIRES_ACTION, [newer, QUOTE])) == "surplus"
    dearer = msgspec.structs.replace(newer, amount=520)
    assert kind(paid(value=510), Claim(Status.REQUIRES_ACTION, [QUOTE, dearer])) == "partial"


def test_a_quote_in_another_asset_or_to_another_destination_is_paid_by_nothing_here() -> None:
    in_coin = msgspec.structs.replace(QUOTE, asset=COIN, amount=700)
    elsewhere = msgspec.structs.replace(QUOTE, destination=OTHER, amount=800)
    claim = Claim(Status.REQUIRES_ACTION, [QUOTE, in_coin, elsewhere])
    assert kind(paid(value=700), claim) == "surplus"
    assert kind(paid(value=800), claim) == "surplus"


@pytest.mark.parametrize("status", [Status.EXPIRED, Status.CANCELLED, Status.FAILED])
@pytest.mark.parametrize("value", [499, 500, 501])
def test_whatever_comes_after_the_end_of_an_unpaid_payment_is_late(status: Status, value: int) -> None:
    found = classify(paid(value=value), Claim(status, [QUOTE]))
    assert found.kind == kind(paid(value=value), Claim(status, [QUOTE], paid_by_another=True)) == "late"
    assert status.value in found.reason


def test_a_second_transfer_is_surplus_also_where_it_is_exact() -> None:
    for claim in (OPEN, UNDER_WAY, msgspec.structs.replace(UNDER_WAY, status=Status.SUCCEEDED)):
        again = msgspec.structs.replace(claim, paid_by_another=True)
        assert kind(PAID, again) == "surplus"


def test_what_was_committed_pays_whenever_it_lands() -> None:
    assert kind(PAID, UNDER_WAY) == "matched"
    assert kind(paid(block_at_ms=UNTIL_MS + 10 * QUOTE_GRACE_MS), UNDER_WAY) == "matched"


def test_another_amount_or_asset_than_was_committed_is_surplus() -> None:
    assert kind(paid(value=499), UNDER_WAY) == "surplus"
    in_coin = msgspec.structs.replace(QUOTE, asset=COIN)
    both = msgspec.structs.replace(UNDER_WAY, quotes=[QUOTE, in_coin])
    assert kind(paid(asset=COIN), both) == "surplus"


def test_what_payd_does_not_bring_to_the_chain_holds_nobody_to_it() -> None:
    in_coin = msgspec.structs.replace(QUOTE, asset=COIN, amount=700)
    seen = msgspec.structs.replace(UNDER_WAY, quotes=[QUOTE, in_coin], held=False)
    assert kind(PAID, seen) == "matched"
    assert kind(paid(block_at_ms=UNTIL_MS + 10 * QUOTE_GRACE_MS), seen) == "matched"
    assert kind(paid(asset=COIN, value=700), seen) == "matched"
    assert kind(paid(asset=COIN, value=699), seen) == "partial"
    assert kind(paid(asset=COIN, value=700, block_at_ms=UNTIL_MS + QUOTE_GRACE_MS + 1), seen) == "late"
    gone_not = msgspec.structs.replace(seen, paid_by_another=True)
    assert kind(paid(asset=COIN, value=700), gone_not) == "surplus"


def test_what_was_committed_is_found_again_when_a_reorg_took_the_transfer_after_success() -> None:
    paid_once = msgspec.structs.replace(UNDER_WAY, status=Status.SUCCEEDED)
    assert kind(PAID, paid_once) == "matched"
    assert kind(paid(value=501), paid_once) == "surplus"


@given(sightings, claims())
def test_what_matches_is_exactly_what_was_asked_for_and_nothing_else_pays_it(
    transfer: Sighting, claim: Claim
) -> None:
    if kind(transfer, claim) != "matched":
        return
    assert not claim.paid_by_another
    assert claim.status not in FINAL - {Status.SUCCEEDED}
    exact = [
        quote
        for quote in claim.quotes
        if (quote.asset.lower(), quote.destination.lower()) == (transfer.asset, transfer.recipient.lower())
    ]
    assert exact
    if claim.committed != (transfer.asset, transfer.value):
        assert claim.status is Status.REQUIRES_ACTION or not claim.held
        assert any(
            quote.amount == transfer.value and quote.covers_transfer_at(transfer.block_at_ms)
            for quote in exact
        )


@given(sightings, claims())
def test_every_transfer_gets_a_kind_and_a_line_for_people(transfer: Sighting, claim: Claim) -> None:
    found = classify(transfer, claim)
    assert found.reason.endswith(".")
    assert "\n" not in found.reason


@given(sightings, claims(), st.data())
def test_the_order_of_quotes_changes_nothing(transfer: Sighting, claim: Claim, data: st.DataObject) -> None:
    shuffled = msgspec.structs.replace(claim, quotes=data.draw(st.permutations(claim.quotes)))
    assert classify(transfer, shuffled) == classify(transfer, claim)
