"""The submitter: what was owed lands once, whatever nodes, forks and crashes do, or is said to be dead."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from payd.actors.submitter import IDLE_S, LANDING_S, PAUSE_S, QUEUE_OLD_MS, TROUBLE
from payd.core.errors import StoreUnavailable
from payd.core.payment import PaymentCancelled
from payd.store.db import Database
from tests.actors.solana_watching import DOWN
from tests.actors.submitting import Submitting, open_submitting
from tests.live.solana import BUYER, CHAIN, LAMPORTS, MERCHANT, USDC_MINT, account_id, pubkey


async def test_what_is_owed_is_sent_confirmed_told_and_final(submitting: Submitting) -> None:
    solana = submitting.solana
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    assert owed.tx_id in solana.ledger.landed
    await solana.local.confirm()
    await submitting.submitter.run_once()
    assert (solana.kinds(owed.tx_id), solana.told) == (["matched"], [owed.payment_id])
    assert submitting.states(owed) == ["open"]
    await solana.later()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["landed"]
    assert await solana.local.tokens(pubkey(MERCHANT), USDC_MINT) == 25_000_000
    assert (submitting.found, submitting.told) == ([owed.tx_id], [])


async def test_sixty_at_once_are_sent_each_to_every_node_and_followed_in_one_call(realm_db: Database) -> None:
    async with open_submitting(realm_db, 2) as submitting:
        solana = submitting.solana
        owed = [await submitting.owe(str(number)) for number in range(60)]
        await submitting.submitter.run_once()
        assert (submitting.sends(0), submitting.sends(1)) == (60, 60)
        await solana.local.confirm()
        calls = solana.rpc.calls["getSignatureStatuses"]
        posts = solana.rpc.posts
        await submitting.submitter.run_once()
        # Each is read once besides.
        assert solana.rpc.calls["getSignatureStatuses"] - calls == 1 + 60
        assert solana.rpc.posts - posts == 1 + 60
        assert sorted(solana.told) == sorted(one.payment_id for one in owed)
        await solana.later()
        await submitting.submitter.run_once()
        assert set(submitting.states(*owed)) == {"landed"}


async def test_who_was_idle_brings_at_once_what_a_buyer_just_signed(submitting: Submitting) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        await submitting.owe()
        submitting.submitter.wake()
        await trio.sleep(PAUSE_S / 2)
        assert submitting.sends() == 1
        nursery.cancel_scope.cancel()


async def test_it_works_by_itself_from_the_wake_to_the_end(submitting: Submitting) -> None:
    solana = submitting.solana
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(2 * IDLE_S)
        owed = await submitting.owe()
        submitting.submitter.wake()
        await trio.sleep(0.5)
        assert submitting.sends() == 1
        assert set(submitting.wanted.ids()) == {owed.tx_id}
        await solana.local.confirm()
        await trio.sleep(1.5)
        assert solana.told == [owed.payment_id]
        await trio.sleep(5)
        assert set(submitting.wanted.ids()) == set()
        await solana.later()
        await trio.sleep(5)
        assert submitting.states(owed) == ["landed"]
        nursery.cancel_scope.cancel()


async def test_while_nothing_is_owed_little_is_asked(submitting: Submitting) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        posts = submitting.solana.rpc.posts
        for _ in range(10 * int(IDLE_S)):
            # By every slot.
            submitting.submitter.wake()
            await trio.sleep(1)
        assert submitting.solana.rpc.posts - posts <= 10
        nursery.cancel_scope.cancel()


async def test_nodes_that_are_away_for_minutes_take_nothing_along(submitting: Submitting) -> None:
    solana = submitting.solana
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        solana.nodes[0].does = DOWN
        owed = await submitting.owe()
        submitting.submitter.wake()
        await trio.sleep(QUEUE_OLD_MS / 1000 + 30)
        assert "queue_old" in submitting.submitter.stats().alarms
        assert not submitting.submitter.can_sponsor(account_id(BUYER))
        solana.nodes[0].does = None
        await trio.sleep(TROUBLE.last_s + 1)
        assert owed.tx_id in solana.ledger.landed, "it may not be good for much longer"
        await solana.local.confirm()
        await trio.sleep(5)
        assert solana.told == [owed.payment_id]
        assert submitting.submitter.stats().alarms == frozenset()
        assert submitting.submitter.can_sponsor(account_id(BUYER)), "it was nobody's fault here"
        nursery.cancel_scope.cancel()


async def test_the_store_may_be_away_for_a_while(
    submitting: Submitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Any:
        raise StoreUnavailable("The store cannot be read at the moment.")

    solana = submitting.solana
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        owed = await submitting.owe()
        with monkeypatch.context() as patched:
            for read in ("point", "look"):
                patched.setattr(solana.db, read, refuse)
            submitting.submitter.wake()
            await trio.sleep(2 * IDLE_S)
        await trio.sleep(TROUBLE.last_s + 1)
        assert owed.tx_id in solana.ledger.landed
        nursery.cancel_scope.cancel()


async def test_an_alarm_stays_while_no_node_says_that_it_is_over(submitting: Submitting) -> None:
    submitting.submitter = submitting.another(spend_per_day=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        assert submitting.submitter.stats().alarms == {"budget"}
        submitting.solana.nodes[0].does = DOWN
        await submitting.owe()
        submitting.submitter.wake()
        await trio.sleep(30)
        assert submitting.submitter.stats().alarms == {"budget"}
        nursery.cancel_scope.cancel()


async def test_that_nothing_comes_of_it_is_told_soon(submitting: Submitting) -> None:
    """A buyer waits before the page, and may pay again."""
    submitting.drop("blackhole")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(submitting.submitter.run)
        await trio.sleep(1)
        owed = await submitting.owe()
        submitting.submitter.wake()
        await trio.sleep(1)
        await submitting.expire()
        await trio.sleep(2 * LANDING_S)
        assert (submitting.states(owed), submitting.told) == (["dead"], [owed.payment_id])
        nursery.cancel_scope.cancel()


async def test_a_death_that_nobody_was_told_of_is_told_after_a_restart_and_until_it_moves_the_payment(
    submitting: Submitting,
) -> None:
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.expire()
    await submitting.submitter.run_once()
    assert (submitting.states(owed), submitting.told) == (["dead"], [owed.payment_id])
    await submitting.another().run_once()
    assert submitting.told == [owed.payment_id] * 2


async def test_what_is_owed_to_a_payment_that_ended_is_no_news(submitting: Submitting) -> None:
    submitting.drop("blackhole")
    owed = await submitting.owe(committed=False)
    await submitting.solana.move(owed.payment_id, PaymentCancelled("cancelled_by_user"))
    await submitting.expire()
    await submitting.submitter.run_once()
    assert (submitting.states(owed), submitting.told) == (["dead"], [])


async def test_its_numbers_are_those_of_a_relayer(submitting: Submitting) -> None:
    submitting.drop("blackhole")
    owed = await submitting.owe()
    assert (submitting.submitter.stats().queued, submitting.submitter.stats().in_flight) == (1, 0)
    await submitting.submitter.run_once()
    stats = submitting.submitter.stats()
    assert (stats.queued, stats.in_flight, stats.oldest_queued_ms) == (0, 1, owed.created_at_ms)
    assert (stats.balance, stats.alarms) == (10 * LAMPORTS, frozenset())
    assert stats.spent_today == 3_000_000
    assert CHAIN
