"""What we pay for others: reserved until it has landed, at its real cost then, and free again otherwise."""

from __future__ import annotations

import pytest
import trio

from payd.actors.submitter import OUT_S
from payd.actors.submitter_purse import (
    ACCOUNT_LAMPORTS,
    EVERY_S,
    IDLE_S,
    KEEP_LAMPORTS,
    LOW_PAYMENTS,
    PAYMENT_LAMPORTS,
)
from payd.chains.solana.ending import GIVEN_UP_S
from payd.chains.solana.fates import DOUBT_S
from payd.store.builds import reserved_on_builds, spent_on_builds
from payd.store.db import Database
from tests.actors.solana_watching import PRICE
from tests.actors.submitting import FEE_PAYER, RESERVED, Submitting, open_submitting
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    LAMPORTS,
    STRANGER,
    account_id,
    pubkey,
)


async def settle(submitting: Submitting) -> None:
    """A tick that sees to what is out."""
    await trio.sleep(IDLE_S)
    await submitting.submitter.run_once()


def spent(submitting: Submitting) -> int:
    return submitting.solana.db.point(spent_on_builds, CHAIN, 0).cost


def reserved(submitting: Submitting) -> int:
    return submitting.solana.db.point(reserved_on_builds, CHAIN).cost


async def test_what_landed_costs_what_it_cost_with_the_rent_of_new_accounts(submitting: Submitting) -> None:
    solana = submitting.solana
    before = await solana.local.lamports(pubkey(FEE_PAYER))
    await submitting.owe(to=STRANGER, creates=True)
    assert spent(submitting) == RESERVED
    await submitting.submitter.run_once()
    await solana.later()
    await settle(submitting)
    after = await solana.local.lamports(pubkey(FEE_PAYER))
    assert before - after > 2_000_000, "an account was created"
    assert spent(submitting) == before - after == submitting.submitter.stats().spent_today
    assert submitting.submitter.stats().balance == after


async def test_what_failed_costs_its_fee(submitting: Submitting) -> None:
    before = await submitting.solana.local.lamports(pubkey(FEE_PAYER))
    await submitting.owe(value=10**15)
    await submitting.submitter.run_once()
    await submitting.solana.later()
    await settle(submitting)
    after = await submitting.solana.local.lamports(pubkey(FEE_PAYER))
    assert 0 < before - after == spent(submitting)


async def test_what_was_never_signed_is_free_again_once_it_can_not_land(submitting: Submitting) -> None:
    payment = await submitting.solana.sell()
    built = await submitting.build(payment, *await submitting.signed(payment, creates=False))
    await settle(submitting)
    assert (submitting.built(built).state, spent(submitting)) == ("out", RESERVED)
    await submitting.expire()
    await trio.sleep(EVERY_S)  # others wait for what it keeps from them
    await submitting.submitter.run_once()
    assert (submitting.built(built).state, spent(submitting)) == ("void", 0)


async def test_what_was_never_signed_is_seen_to_by_itself(submitting: Submitting) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        payment = await submitting.solana.sell()
        await submitting.build(payment, *await submitting.signed(payment, creates=False))
        submitting.submitter.wake()
        await trio.sleep(1)
        await submitting.expire()
        await trio.sleep(OUT_S + EVERY_S)
        assert spent(submitting) == 0
        nursery.cancel_scope.cancel()


async def test_what_the_buyers_own_wallet_sent_is_paid_for(submitting: Submitting) -> None:
    payment = await submitting.solana.sell()
    raw, message = await submitting.signed(payment, creates=False)
    built = await submitting.build(payment, raw, message)
    await submitting.solana.local.send_raw(raw)
    await submitting.solana.later()
    await settle(submitting)
    assert submitting.built(built).state == "landed"
    assert 0 < spent(submitting) < RESERVED


async def test_no_node_alone_gives_a_reservation_back(two_submitting: Submitting) -> None:
    submitting = two_submitting
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.solana.later()
    submitting.solana.nodes[0].unknown.add(owed.tx_id)
    await submitting.expire()
    await settle(submitting)
    assert spent(submitting) == RESERVED


async def test_what_no_node_remembers_counts_as_spent_once_it_is_given_up(submitting: Submitting) -> None:
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.expire()
    submitting.forget(owed)
    await settle(submitting)
    assert (reserved(submitting), spent(submitting)) == (RESERVED, RESERVED)
    await trio.sleep(GIVEN_UP_S)
    await settle(submitting)
    assert (reserved(submitting), spent(submitting)) == (0, RESERVED)


async def test_of_three_nodes_one_that_stands_still_keeps_nothing_reserved(realm_db: Database) -> None:
    async with open_submitting(realm_db, nodes=3) as submitting:
        submitting.drop("blackhole")
        await submitting.owe()
        await submitting.submitter.run_once()
        submitting.solana.nodes[1].lag = 200
        await submitting.expire()
        await settle(submitting)
        assert (reserved(submitting), spent(submitting)) == (0, 0)


async def test_a_buyer_is_sponsored_a_few_times_a_day(submitting: Submitting) -> None:
    await submitting.submitter.run_once()
    for number in range(3):
        assert submitting.submitter.can_sponsor(account_id(BUYER))
        await submitting.owe(str(number))
    assert not submitting.submitter.can_sponsor(account_id(BUYER))
    assert submitting.submitter.can_sponsor(account_id(BUYER_2))


async def test_nothing_is_promised_before_the_balance_is_known_or_without_a_key(
    submitting: Submitting,
) -> None:
    assert not submitting.submitter.can_sponsor(account_id(BUYER))
    submitting.submitter = submitting.another(fee_payer=None)
    await submitting.submitter.run_once()
    assert not submitting.submitter.can_sponsor(account_id(BUYER))
    assert submitting.submitter.stats().balance is None
    submitting.submitter = submitting.another(sponsor=False)
    await submitting.submitter.run_once()
    assert not submitting.submitter.can_sponsor(account_id(BUYER))


async def test_an_empty_purse_is_an_alarm_and_promises_nothing(submitting: Submitting) -> None:
    async def has(lamports: int) -> frozenset[str]:
        await submitting.solana.local.fund(pubkey(FEE_PAYER), lamports)
        await submitting.solana.local.slots(2)
        await settle(submitting)
        return submitting.submitter.stats().alarms

    enough = KEEP_LAMPORTS + LOW_PAYMENTS * ACCOUNT_LAMPORTS
    assert await has(enough) == frozenset()
    assert await has(enough - 1) == {"balance_low"}
    assert await has(KEEP_LAMPORTS + PAYMENT_LAMPORTS) == {"balance_low"}
    assert submitting.submitter.can_sponsor(account_id(BUYER))
    assert await has(KEEP_LAMPORTS + PAYMENT_LAMPORTS - 1) == {"balance_low", "balance_empty"}
    assert not submitting.submitter.can_sponsor(account_id(BUYER))
    assert await has(LAMPORTS) == frozenset()
    assert await has(0) == {"balance_low", "balance_empty"}
    assert submitting.submitter.stats().balance == 0


async def test_what_is_reserved_is_promised_to_nobody_else(submitting: Submitting) -> None:
    submitting.drop("blackhole")
    has = KEEP_LAMPORTS + RESERVED + PAYMENT_LAMPORTS - 1
    await submitting.solana.local.fund(pubkey(FEE_PAYER), has)
    await submitting.solana.local.slots(2)
    await settle(submitting)
    assert submitting.submitter.can_sponsor(account_id(BUYER_2))
    await submitting.owe()
    assert not submitting.submitter.can_sponsor(account_id(BUYER_2))


@pytest.mark.parametrize("is_shown", [True, False])
async def test_what_nobody_shows_or_another_key_paid_costs_what_was_reserved(
    submitting: Submitting, is_shown: bool
) -> None:
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.solana.later()
    if is_shown:
        submitting.submitter = submitting.another(fee_payer=pubkey(STRANGER))
    else:
        submitting.solana.nodes[0].denies.add(owed.tx_id)
    await settle(submitting)
    assert (reserved(submitting), spent(submitting)) == (0, RESERVED)


async def test_a_spent_budget_is_an_alarm_and_promises_nothing(submitting: Submitting) -> None:
    submitting.submitter = submitting.another(spend_per_day=PAYMENT_LAMPORTS)
    await submitting.submitter.run_once()
    assert submitting.submitter.can_sponsor(account_id(BUYER))
    submitting.submitter = submitting.another(spend_per_day=RESERVED + PAYMENT_LAMPORTS - 1)
    await submitting.submitter.run_once()
    assert submitting.submitter.can_sponsor(account_id(BUYER))
    submitting.drop("blackhole")
    await submitting.owe()
    await submitting.submitter.run_once()
    assert submitting.submitter.stats().alarms == {"budget"}
    assert not submitting.submitter.can_sponsor(account_id(BUYER))


@pytest.mark.parametrize("value", [PRICE, 10**15])
async def test_what_one_node_forgot_and_another_has_as_final_ends_at_its_cost(
    two_submitting: Submitting, value: int
) -> None:
    """A node that keeps no history never agrees; what was paid must not stay reserved beside that."""
    submitting = two_submitting
    before = await submitting.solana.local.lamports(pubkey(FEE_PAYER))
    owed = await submitting.owe(value=value)
    await submitting.submitter.run_once()
    await submitting.solana.later()
    submitting.solana.nodes[0].unknown.add(owed.tx_id)
    await submitting.expire()
    await settle(submitting)
    # What failed on one and is nowhere on the other, both agree on.
    assert reserved(submitting) == (RESERVED if value == PRICE else 0)
    await trio.sleep(DOUBT_S)
    await settle(submitting)
    after = await submitting.solana.local.lamports(pubkey(FEE_PAYER))
    assert reserved(submitting) == 0
    assert spent(submitting) == before - after
