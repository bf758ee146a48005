"""Signed transactions that a fork took after most votes were for them, or that a node only says are gone."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from payd.core.payment import SettlementCompleted, TransferConfirmed
from payd.store.db import Database
from tests.actors.solana_watching import SolanaWatching
from tests.actors.submitting import Submitting, open_submitting
from tests.actors.test_submitter_flight import rounds


async def test_a_payment_that_had_succeeded_by_it_is_an_alarm_until_it_is_back(
    submitting: Submitting,
) -> None:
    solana = submitting.solana
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await solana.local.confirm()
    await submitting.submitter.run_once()
    await succeed(solana, owed.payment_id, owed.tx_id)
    solana.ledger.fork(2)
    submitting.drop("blackhole")
    await solana.local.slots(3)
    with capture_logs() as logs:
        await submitting.submitter.run_once()
    assert [one["event"] for one in logs if one["log_level"] == "critical"] == [
        "submitter.lost_after_success"
    ]
    assert submitting.submitter.stats().alarms == {"lost"}
    submitting.drop("normal")
    await rounds(submitting, 5)
    await solana.local.confirm()
    await submitting.submitter.run_once()
    assert submitting.submitter.stats().alarms == frozenset()


async def test_what_is_settled_no_nodes_word_loses(submitting: Submitting) -> None:
    solana = submitting.solana
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await solana.local.confirm()
    await submitting.submitter.run_once()
    await succeed(solana, owed.payment_id, owed.tx_id)
    await solana.move(owed.payment_id, SettlementCompleted(owed.tx_id))
    solana.nodes[0].unknown.add(owed.tx_id)
    with capture_logs() as logs:
        await submitting.submitter.run_once()
    assert [one["event"] for one in logs if one["log_level"] == "critical"] == []
    assert submitting.submitter.stats().lost == 0


async def test_what_only_the_watcher_saw_before_the_fork_is_an_alarm_too(submitting: Submitting) -> None:
    solana = submitting.solana
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await solana.local.confirm()
    await solana.watcher.found(owed.tx_id)
    await succeed(solana, owed.payment_id, owed.tx_id)
    solana.ledger.fork(2)
    submitting.drop("blackhole")
    await solana.local.slots(3)
    with capture_logs() as logs:
        await rounds(submitting, 3)
    assert [one["event"] for one in logs if one["log_level"] == "critical"] == [
        "submitter.lost_after_success"
    ]
    assert submitting.submitter.stats().alarms == {"lost"}


async def succeed(solana: SolanaWatching, payment: str, tx_id: str) -> None:
    await solana.move(payment, TransferConfirmed(tx_id))


@pytest.mark.parametrize("lag", [1, 3])
async def test_a_node_that_lags_has_lost_nothing(realm_db: Database, lag: int) -> None:
    """One that is behind by a block has it, and does not know yet that it is confirmed."""
    async with open_submitting(realm_db, 2) as submitting:
        owed = await submitting.owe()
        await submitting.submitter.run_once()
        await submitting.solana.local.confirm()
        await submitting.submitter.run_once()
        submitting.solana.nodes[0].lag = lag
        await submitting.submitter.run_once()
        assert submitting.submitter.stats().lost == 0
        assert submitting.states(owed) == ["open"]


async def test_one_node_of_two_that_knows_nothing_of_it_is_no_alarm_and_it_is_sent_again(
    realm_db: Database,
) -> None:
    async with open_submitting(realm_db, 2) as submitting:
        solana = submitting.solana
        owed = await submitting.owe()
        await submitting.submitter.run_once()
        await solana.local.confirm()
        await submitting.submitter.run_once()
        await succeed(solana, owed.payment_id, owed.tx_id)
        solana.nodes[0].unknown.add(owed.tx_id)
        sent = solana.rpc.calls["sendTransaction"]
        with capture_logs() as logs:
            await rounds(submitting, 2)
        assert [one["event"] for one in logs if one["log_level"] == "critical"] == []
        assert submitting.submitter.stats().lost == 0
        assert solana.rpc.calls["sendTransaction"] > sent, "it may be the one that is right"
        solana.nodes[1].unknown.add(owed.tx_id)
        with capture_logs() as logs:
            await rounds(submitting, 2)
        assert [one["event"] for one in logs if one["log_level"] == "critical"] == [
            "submitter.lost_after_success"
        ]
