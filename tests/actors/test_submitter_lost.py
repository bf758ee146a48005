"""Signed transactions that a fork took after most votes were for them, or that a node only says are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from payd.core.payment import SettlementCompleted, TransferConfirmed
from payd.store.db import Database
from payd.store.submissions import StoredSubmission
from tests.actors.submitting import Submitting, open_submitting
from tests.actors.test_submitter_flight import rounds


async def succeeded(
    submitting: Submitting, seen_by: Callable[[str], Awaitable[None]] | None = None
) -> StoredSubmission:
    """What was brought and confirmed, as somebody saw, and by which its payment has succeeded."""
    solana = submitting.solana
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await solana.local.confirm()
    if seen_by is None:
        await submitting.submitter.run_once()
    else:
        await seen_by(owed.tx_id)
    await solana.move(owed.payment_id, TransferConfirmed(owed.tx_id))
    return owed


def critical(logs: list[MutableMapping[str, Any]]) -> list[str]:
    return [one["event"] for one in logs if one["log_level"] == "critical"]


async def test_a_payment_that_had_succeeded_by_it_is_an_alarm_until_it_is_back(
    submitting: Submitting,
) -> None:
    solana = submitting.solana
    await succeeded(submitting)
    solana.ledger.fork(2)
    submitting.drop("blackhole")
    await solana.local.slots(3)
    with capture_logs() as logs:
        await submitting.submitter.run_once()
    assert critical(logs) == ["submitter.lost_after_success"]
    assert submitting.submitter.stats().alarms == {"lost"}
    submitting.drop("normal")
    await rounds(submitting, 5)
    await solana.local.confirm()
    await submitting.submitter.run_once()
    assert submitting.submitter.stats().alarms == frozenset()


async def test_what_is_settled_no_nodes_word_loses(submitting: Submitting) -> None:
    solana = submitting.solana
    owed = await succeeded(submitting)
    await solana.move(owed.payment_id, SettlementCompleted(owed.tx_id))
    solana.nodes[0].unknown.add(owed.tx_id)
    with capture_logs() as logs:
        await submitting.submitter.run_once()
    assert critical(logs) == []
    assert submitting.submitter.stats().lost == 0


async def test_what_only_the_watcher_saw_before_the_fork_is_an_alarm_too(submitting: Submitting) -> None:
    solana = submitting.solana
    await succeeded(submitting, seen_by=solana.watcher.found)
    solana.ledger.fork(2)
    submitting.drop("blackhole")
    await solana.local.slots(3)
    with capture_logs() as logs:
        await rounds(submitting, 3)
    assert critical(logs) == ["submitter.lost_after_success"]
    assert submitting.submitter.stats().alarms == {"lost"}


async def test_what_the_node_does_not_remember_is_not_lost(submitting: Submitting) -> None:
    owed = await succeeded(submitting)
    await submitting.expire()
    submitting.forget(owed)
    await trio.sleep(60)  # it is looked for where nodes look for what is old
    with capture_logs() as logs:
        await submitting.submitter.run_once()
    assert critical(logs) == []
    assert submitting.submitter.stats().lost == 0
    assert submitting.states(owed) == ["open"]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("lag", [1, 3])
async def test_a_node_that_lags_has_lost_nothing(realm_db: Database, lag: int, nodes: int) -> None:
    """One that is behind by a block has it, and does not know yet that it is confirmed."""
    async with open_submitting(realm_db, nodes) as submitting:
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
        owed = await succeeded(submitting)
        solana.nodes[0].unknown.add(owed.tx_id)
        sent = solana.rpc.calls["sendTransaction"]
        with capture_logs() as logs:
            await rounds(submitting, 2)
        assert critical(logs) == []
        assert submitting.submitter.stats().lost == 0
        assert solana.rpc.calls["sendTransaction"] > sent, "it may be the one that is right"
        solana.nodes[1].unknown.add(owed.tx_id)
        with capture_logs() as logs:
            await rounds(submitting, 2)
        assert critical(logs) == ["submitter.lost_after_success"]
