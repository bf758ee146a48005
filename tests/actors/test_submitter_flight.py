"""Signed transactions on their way: never lost, never sent before they are stored, never dead too early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors import submitter
from payd.actors.submitter_flight import _WORDS, RECENT_MS, RESEND_S
from payd.chains.rpc import NodesDown
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.ending import GIVEN_UP_S
from payd.chains.solana.fates import DOUBT_S
from payd.core.errors import StoreUnavailable
from payd.core.payment import TransferConfirmed
from payd.store.db import Database
from payd.store.sightings import record
from payd.store.submissions import StoredSubmission
from tests.actors.solana_watching import DOWN
from tests.actors.submitting import Submitting, open_submitting
from tests.live.node_process import Refused
from tests.live.solana import MERCHANT, USDC_MINT, pubkey


async def rounds(submitting: Submitting, seconds: float) -> None:
    """Let the submitter work for so long."""
    with trio.move_on_after(seconds):
        await submitting.submitter.run()


# To the chain.


async def test_nothing_is_sent_that_is_not_stored_as_gone(submitting: Submitting) -> None:
    owed = await submitting.owe()
    submitting.solana.db._failure = "the disk is full"
    with pytest.raises(StoreUnavailable):
        await submitting.submitter.run_once()
    assert submitting.sends() == 0
    submitting.solana.db._failure = None
    await submitting.submitter.run_once()
    assert submitting.sends() == 1
    assert submitting.stored(owed.payment_id).left_us


async def test_a_crash_between_note_and_send_is_made_good(submitting: Submitting) -> None:
    owed = await submitting.owe()

    async def die(raw: bytes) -> Any:
        assert submitting.stored(owed.payment_id).left_us, "stored before it leaves"
        raise KeyboardInterrupt

    honest = submitting.solana.rpc.broadcast
    submitting.solana.rpc.broadcast = die  # type: ignore[method-assign]
    with pytest.raises(BaseExceptionGroup):
        await submitting.submitter.run_once()
    submitting.solana.rpc.broadcast = honest  # type: ignore[method-assign]
    submitting.submitter = submitting.another()
    await submitting.submitter.run_once()
    assert owed.tx_id in submitting.solana.ledger.landed


async def test_a_crash_after_it_landed_changes_nothing(submitting: Submitting) -> None:
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.solana.later()
    submitting.submitter = submitting.another()
    await submitting.submitter.run_once()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["landed"]
    assert submitting.solana.kinds(owed.tx_id) == ["matched"]
    assert await submitting.solana.local.tokens(pubkey(MERCHANT), USDC_MINT) == 25_000_000


async def test_what_is_new_leaves_before_anything_is_asked(submitting: Submitting) -> None:
    await submitting.submitter.run_once()
    submitting.solana.nodes[0].asked.clear()
    await submitting.owe()
    await submitting.submitter.run_once()
    assert submitting.solana.nodes[0].asked[0] == ["sendTransaction"]


async def test_what_is_on_no_block_is_sent_again_every_few_seconds_and_then_no_more(
    submitting: Submitting,
) -> None:
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await rounds(submitting, 20 * RESEND_S + 1)
    # A tick is due each second, and some time passes between two of them.
    assert 10 <= submitting.sends() <= 21
    assert submitting.submitter.stats().bumps == submitting.sends() - 1
    submitting.drop("normal")
    await rounds(submitting, 4)
    assert owed.tx_id in submitting.solana.ledger.landed
    await submitting.solana.local.confirm()
    await rounds(submitting, 2)
    sends = submitting.sends()
    await rounds(submitting, 20)
    assert submitting.sends() == sends


async def test_a_first_node_that_takes_slots_for_heights_keeps_nothing_from_being_sent_again(
    two_submitting: Submitting,
) -> None:
    submitting = two_submitting
    first = submitting.solana.nodes[0]
    honest = first.ask
    first.ask = lambda method, *params: 10**9 if method == "getBlockHeight" else honest(method, *params)  # type: ignore[method-assign]
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await rounds(submitting, 3 * RESEND_S)
    submitting.drop("normal")
    await rounds(submitting, 2 * RESEND_S)
    assert owed.tx_id in submitting.solana.ledger.landed


async def test_what_has_expired_is_not_sent_any_more(submitting: Submitting) -> None:
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    submitting.solana.nodes[0].lag = 0
    await submitting.expire()
    sends = submitting.sends()
    await rounds(submitting, 20)
    assert (submitting.sends(), submitting.states(owed)) == (sends, ["dead"])


# Ends.


async def test_it_is_dead_only_once_its_blockhash_has_expired_in_what_is_final(
    submitting: Submitting,
) -> None:
    solana = submitting.solana
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    # By height, not by slot: so many slots had no block.
    await solana.local.rpc("payd_skip", 500)
    while solana.ledger.at("finalized").height < owed.valid_until_height:
        await solana.local.slots()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["open"]
    await solana.local.slots()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["dead"]
    assert submitting.stored(owed.payment_id).reason is not None
    assert submitting.told == [owed.payment_id]
    await submitting.submitter.run_once()
    assert submitting.submitter.stats().oldest_queued_ms is None, "nothing waits any more"


async def test_no_node_alone_buries_it(two_submitting: Submitting) -> None:
    submitting = two_submitting
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    submitting.solana.nodes[1].lag = 100
    await submitting.expire()
    await trio.sleep(RECENT_MS / 1000)
    sends = submitting.sends()
    await rounds(submitting, 2 * DOUBT_S)
    assert submitting.states(owed) == ["open"]
    assert submitting.sends() == sends, "nothing is sent that can not land"
    submitting.solana.nodes[1].lag = 0
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["dead"]


async def test_of_three_nodes_one_that_stands_still_keeps_nothing_open(realm_db: Database) -> None:
    async with open_submitting(realm_db, nodes=3) as submitting:
        submitting.drop("blackhole")
        owed = await submitting.owe()
        await submitting.submitter.run_once()
        submitting.solana.nodes[1].lag = 200
        await submitting.expire()
        await submitting.submitter.run_once()
        assert submitting.states(owed) == ["dead"]


async def test_a_node_that_forgot_it_does_not_bury_what_another_knows_to_be_final(
    two_submitting: Submitting,
) -> None:
    submitting = two_submitting
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    submitting.solana.nodes[0].unknown.add(owed.tx_id)
    await submitting.solana.later()
    await submitting.expire()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["open"]
    await rounds(submitting, DOUBT_S + 10)
    assert submitting.states(owed) == ["landed"]
    assert submitting.solana.kinds(owed.tx_id) == ["matched"]


async def test_what_no_node_remembers_is_open_until_it_is_given_up(submitting: Submitting) -> None:
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.expire()
    submitting.forget(owed)
    await trio.sleep(GIVEN_UP_S - 60)
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["open"]
    await trio.sleep(60)
    await submitting.submitter.run_once()
    assert submitting.stored(owed.payment_id).reason == _WORDS["forgotten"]
    assert submitting.states(owed) == ["dead"]


async def test_what_failed_for_good_is_dead_and_its_payment_told(submitting: Submitting) -> None:
    owed = await submitting.owe(value=10**15)
    await submitting.submitter.run_once()
    await submitting.solana.local.confirm()
    await submitting.submitter.run_once()
    assert (submitting.states(owed), submitting.told) == (["open"], [])
    await submitting.solana.later()
    await submitting.submitter.run_once()
    assert (submitting.states(owed), submitting.told) == (["dead"], [owed.payment_id])
    assert submitting.submitter.stats().reverts == 1


async def test_what_failed_for_good_is_dead_though_another_node_forgot_it(two_submitting: Submitting) -> None:
    submitting = two_submitting
    owed = await submitting.owe(value=10**15)
    await submitting.submitter.run_once()
    submitting.solana.nodes[0].unknown.add(owed.tx_id)
    await submitting.solana.later()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["open"]
    await submitting.expire()
    await submitting.submitter.run_once()
    assert (submitting.states(owed), submitting.told) == (["dead"], [owed.payment_id])


async def paid_by_another(submitting: Submitting) -> tuple[StoredSubmission, str]:
    """A payment whose own transaction cannot land any more, and another one that names it and pays."""
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    other = await submitting.solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    paid = await submitting.solana.pay(owed.payment_id, target=other)
    await submitting.expire()
    return owed, paid


async def test_another_transaction_that_names_the_payment_is_read_when_its_own_dies(
    submitting: Submitting,
) -> None:
    solana = submitting.solana
    owed, paid = await paid_by_another(submitting)
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["dead"]
    assert solana.kinds(paid) == ["matched"]


async def test_nothing_is_dead_while_no_node_lists_what_names_its_payment(submitting: Submitting) -> None:
    solana = submitting.solana
    owed, paid = await paid_by_another(submitting)
    ask = solana.nodes[0].ask

    def refuse(method: str, *params: Any) -> Any:
        if method == "getSignaturesForAddress":
            raise Refused(-32601, "Method not found")
        return ask(method, *params)

    solana.nodes[0].ask = refuse  # type: ignore[method-assign]
    with pytest.raises((NodesDown, BadAnswer)):
        await submitting.submitter.run_once()
    assert submitting.states(owed) == ["open"]
    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    await submitting.submitter.run_once()
    assert (submitting.states(owed), solana.kinds(paid)) == (["dead"], ["matched"])


async def test_nothing_is_dead_before_what_names_its_payment_is_stored(submitting: Submitting) -> None:
    """Nobody looks for another transaction of a payment that has failed."""
    solana = submitting.solana
    owed, paid = await paid_by_another(submitting)
    write = solana.db.write

    async def fail(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if step is record:
            raise StoreUnavailable("The disk is full.")
        return await write(step, *args, **kwargs)

    solana.db.write = fail  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await submitting.submitter.run_once()
    assert (submitting.states(owed), solana.kinds(paid)) == (["open"], [])
    solana.db.write = write  # type: ignore[method-assign]
    await submitting.submitter.run_once()
    assert (submitting.states(owed), solana.kinds(paid)) == (["dead"], ["matched"])


@pytest.mark.parametrize("not_shown", [0, 1])
async def test_what_was_not_read_to_its_end_is_read_again(not_shown: int, submitting: Submitting) -> None:
    """A bug elsewhere may end the run in which it is being read, at first or once more."""
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.solana.later()
    flight = submitting.submitter._flight
    found, calls = flight._found, list[str]()

    async def hang(tx_id: str) -> None:
        calls.append(tx_id)
        if len(calls) > not_shown:
            await trio.sleep_forever()

    flight._found = hang
    await rounds(submitting, 10)
    assert len(calls) == not_shown + 1
    flight._found = found
    await rounds(submitting, 5)
    assert submitting.states(owed) == ["landed"]
    assert submitting.solana.kinds(owed.tx_id) == ["matched"]


async def test_what_could_not_be_stored_is_read_again_before_it_is_final(submitting: Submitting) -> None:
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await submitting.solana.local.confirm()
    flight = submitting.submitter._flight
    found = flight._found

    async def fail(tx_id: str) -> None:
        raise StoreUnavailable("the disk is full")

    flight._found = fail
    await submitting.submitter.run_once()
    flight._found = found
    await submitting.submitter.run_once()
    assert submitting.solana.kinds(owed.tx_id) == ["matched"]


async def test_what_pays_nothing_that_anybody_knows_of_is_landed_after_another_try(
    submitting: Submitting,
) -> None:
    owed = await submitting.owe()
    calls: list[str] = []

    async def find_nothing(tx_id: str) -> None:
        calls.append(tx_id)

    submitting.submitter._flight._found = find_nothing
    await submitting.submitter.run_once()
    await submitting.solana.later()
    await rounds(submitting, 10)
    assert calls == [owed.tx_id] * 2
    assert submitting.states(owed) == ["landed"]


async def test_what_never_left_in_time_does_not_leave_any_more(submitting: Submitting) -> None:
    """That it never left is what its payment fails by."""
    owed = await submitting.owe()
    await submitting.expire()
    await trio.sleep(RECENT_MS / 1000)
    await submitting.submitter.run_once()
    assert submitting.sends() == 0
    assert not submitting.stored(owed.payment_id).left_us


# Forks.


async def test_where_another_transaction_paid_no_fork_took_this_one(submitting: Submitting) -> None:
    submitting.drop("blackhole")
    owed = await submitting.owe()
    await submitting.solana.move(owed.payment_id, TransferConfirmed("another"))
    await submitting.submitter.run_once()
    assert submitting.submitter.stats().lost == 0


async def test_what_a_fork_took_is_sent_again_and_lands(submitting: Submitting) -> None:
    solana = submitting.solana
    submitting.drop("drop", 3)
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await solana.local.confirm()
    await submitting.submitter.run_once()
    assert solana.told == [owed.payment_id]
    submitting.drop("normal")
    with capture_logs() as logs:
        await solana.local.slots(3)
        assert owed.tx_id not in solana.ledger.landed
        await submitting.submitter.run_once()
    assert "submitter.lost" in [one["event"] for one in logs]
    assert submitting.submitter.stats().lost == 1
    assert owed.tx_id in solana.ledger.landed
    await solana.local.confirm()
    await submitting.submitter.run_once()
    await solana.later()
    await submitting.submitter.run_once()
    assert submitting.states(owed) == ["landed"]
    [shown] = solana.shown(owed.tx_id)
    assert shown.block_number == solana.ledger.landed[owed.tx_id].block.slot


async def test_what_a_fork_moved_between_two_looks_is_read_where_it_is(submitting: Submitting) -> None:
    solana = submitting.solana
    owed = await submitting.owe()
    await submitting.submitter.run_once()
    await solana.local.confirm()
    await submitting.submitter.run_once()
    solana.ledger.fork(2)
    await solana.local.slots(1)
    await solana.local.send_raw(owed.raw)
    await solana.local.confirm()
    await submitting.submitter.run_once()
    assert submitting.found == [owed.tx_id] * 2


async def test_one_node_of_two_ends_nothing_while_the_other_is_away(realm_db: Database) -> None:
    async with open_submitting(realm_db, 2) as submitting:
        submitting.drop("blackhole")
        owed = await submitting.owe()
        await submitting.submitter.run_once()
        await submitting.expire()
        submitting.solana.nodes[1].does = DOWN
        await rounds(submitting, 3)
        assert submitting.states(owed) == ["open"]
        submitting.solana.nodes[1].does = None
        await trio.sleep(70)
        await submitting.submitter.run_once()
        assert submitting.states(owed) == ["dead"]


async def test_what_can_not_end_is_not_in_the_way_of_what_is_new(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one of two nodes is away nothing ends; what buyers sign then is sent, and sent again."""
    monkeypatch.setattr(submitter, "OPEN_MAX", 2)
    async with open_submitting(realm_db, 2) as submitting:
        solana = submitting.solana
        solana.nodes[1].does = DOWN
        for name in ("old", "older"):
            await submitting.owe(name)
        await rounds(submitting, 3)
        await submitting.expire()
        owed = [await submitting.owe(name) for name in ("new", "newer")]
        submitting.drop("blackhole")
        await rounds(submitting, 1)
        submitting.drop("normal")
        await rounds(submitting, 4)
        assert all(one.tx_id in solana.ledger.landed for one in owed)
        # More at once than there is room for.
        owed += [await submitting.owe(name) for name in ("a", "b", "c", "d", "e")]
        await rounds(submitting, 4)
        assert all(one.tx_id in solana.ledger.landed for one in owed)
        solana.nodes[1].does = None
        await trio.sleep(70)
        await solana.later()
        await rounds(submitting, 60)
        assert set(submitting.states(*owed)) == {"landed"}
