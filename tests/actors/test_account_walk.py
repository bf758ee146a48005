"""The walk along accounts: whatever comes to a destination is found, once, and nothing is asked in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors import account_reading, account_walk
from payd.actors.account_walk import BEGIN_SLOTS, INDEX_S, QUIET_S
from payd.actors.node_choice import UNREADABLE_S
from payd.actors.walk import GONE_S, LAG_S
from payd.chains.solana.binding import memo_of, reference_key
from payd.core.errors import OutcomeUnknown
from payd.store.chain_accounts import account_cursors
from payd.store.db import Database, Tx
from tests.actors.solana_watching import DOWN, PRICE, SolanaWatching, open_solana, settle
from tests.live.solana import (
    BUYER,
    CHAIN,
    MERCHANT,
    MERCHANT_2,
    SOL,
    STRANGER,
    USDC_MINT,
    USDT,
    USDT_MINT,
    LocalSolana,
    furnish_solana,
    hand_over,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.svm_ledger import Ledger
from tests.live.svm_methods import SvmNode


async def test_a_transfer_with_reference_and_memo_is_stored_and_its_payment_told(
    solana: SolanaWatching,
) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    assert await solana.watcher.run_once()
    [sighting] = solana.shown(paid)
    block = solana.ledger.landed[paid].block
    assert (sighting.kind, sighting.payment_id, sighting.value) == ("matched", payment, PRICE)
    assert (sighting.block_number, sighting.block_hash) == (block.slot, f"slot:{block.slot}")
    assert sighting.block_time_s == block.time_s
    assert solana.told == [payment]


async def test_sol_is_found_in_the_wallet_itself(solana: SolanaWatching) -> None:
    payment = await solana.sell(asset=SOL)
    paid = await solana.pay_in_sol(payment)
    await solana.watcher.run_once()
    [shown] = solana.shown(paid)
    assert (shown.kind, shown.payment_id, shown.asset) == ("matched", payment, SOL)


async def test_what_does_not_pay_is_shown_as_what_it_is(solana: SolanaWatching) -> None:
    one, two = await solana.sell("1"), await solana.sell("2")
    exact, again, less = await solana.pay(one), await solana.pay(one, PRICE), await solana.pay(two, PRICE - 1)
    plain = await solana.send([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, PRICE)])
    elsewhere = await solana.send([pay_token(pubkey(BUYER), pubkey(MERCHANT_2), USDC_MINT, 7)])
    await trio.sleep(QUIET_S)
    await solana.watcher.run_once()
    kinds = [solana.kinds(tx_id) for tx_id in (exact, again, less, plain, elsewhere)]
    assert kinds == [["matched"], ["surplus"], ["partial"], ["unmatched"], ["unmatched"]]
    assert [one.account_id for one in solana.shown(elsewhere)] == ["acct_2"]
    assert solana.told == [one]


async def test_a_reference_without_its_memo_binds_nothing(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    transfer = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, PRICE, reference_key(payment))
    bare, other = await solana.send([transfer]), await solana.send([memo("0" * 64), transfer])
    await solana.watcher.run_once()
    assert solana.kinds(bare) == solana.kinds(other) == ["unmatched"]
    assert solana.told == []


async def test_another_token_pays_nothing(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    await settle(solana.db, 1, USDT, MERCHANT)
    solana.watcher = solana.another()
    reference = reference_key(payment)
    transfer = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDT_MINT, PRICE, reference)
    paid = await solana.send([memo(memo_of(bytes(reference))), transfer])
    await solana.watcher.run_once()
    assert solana.kinds(paid) == ["unmatched"]
    assert solana.told == []


async def test_what_comes_to_a_token_account_that_was_given_away_pays_nothing(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    await solana.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    paid = await solana.pay(payment)
    assert await solana.watcher.run_once()
    assert (solana.shown(paid), solana.told) == ([], [])


async def test_a_failed_transaction_is_not_even_read(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    failed = await solana.pay(payment, 10**15)
    assert solana.ledger.landed[failed].err is not None
    solana.nodes[0].asked.clear()
    await solana.watcher.run_once()
    assert solana.shown(failed) == []
    assert not any("getTransaction" in post for post in solana.nodes[0].asked)


# What it costs.


def empty(tx: Tx) -> None:
    """Nothing was ever sold, nor read."""
    for name in ("transfers", "watches", "quotes", "options", "routes", "deliveries", "events", "payments"):
        tx.execute(f"DELETE FROM {name}")
    for name in ("settlements", "merchants", "chain_cursors", "chain_accounts"):
        tx.execute(f"DELETE FROM {name}")


async def cost_of(db: Database, payments: int) -> tuple[int, int]:
    """POSTs and calls of two rounds, in which one of so many payments is paid, and is final then."""
    async with open_solana(db) as solana:
        for number in range(payments):
            await solana.sell(str(number))
        await solana.watcher.run_once()
        solana.nodes[0].asked.clear()
        paid = await solana.pay("pay_l3")
        await solana.watcher.run_once()
        await solana.later()
        await solana.watcher.run_once()
        assert solana.kinds(paid) == ["matched"]
        return len(solana.nodes[0].asked), sum(map(len, solana.nodes[0].asked))


async def test_a_thousand_payments_cost_what_ten_do(realm_db: Database) -> None:
    many = await cost_of(realm_db, 1000)
    await realm_db.write(empty)
    assert many == await cost_of(realm_db, 10)
    # The listing, and the transaction; the listing again, and once more of what is final.
    assert many[0] == 4


async def test_what_was_read_is_listed_and_not_read_again(solana: SolanaWatching) -> None:
    payment = await solana.sell(asset=SOL)
    paid = await solana.pay_in_sol(payment)
    # It names the wallet, and pays nobody.
    await solana.send([pay_sol(pubkey(BUYER), pubkey(STRANGER), 10**7, pubkey(MERCHANT))])
    await solana.watcher.run_once()
    solana.nodes[0].asked.clear()
    for _ in range(3):
        await solana.watcher.run_once()
        await solana.local.slots()
    assert not any("getTransaction" in post for post in solana.nodes[0].asked)
    assert solana.kinds(paid) == ["matched"]


async def test_a_killed_server_reads_the_same_again(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)

    async def die(*args: object) -> None:
        raise KeyboardInterrupt

    honest = solana.db.write
    solana.db.write = die  # type: ignore[assignment,method-assign]
    with pytest.raises(BaseExceptionGroup):
        await solana.watcher.run_once()
    solana.db.write = honest  # type: ignore[method-assign]
    assert solana.count("transfers") == 0

    await solana.another().run_once()
    assert solana.kinds(paid) == ["matched"]
    await solana.another().run_once()
    assert solana.count("transfers") == 1


# Much at once.


def list_by_three(solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have its first node list so many at once."""
    monkeypatch.setattr(account_reading, "LISTED_MAX", 3)
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        if method == "getSignaturesForAddress":
            params = (params[0], {**params[1], "limit": 3})
        return honest(method, *params)

    solana.nodes[0].ask = ask  # type: ignore[method-assign]


async def test_a_long_listing_is_read_page_by_page_from_its_oldest_end(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_by_three(solana, monkeypatch)
    monkeypatch.setattr(account_reading, "KEPT_MAX", 5)
    monkeypatch.setattr(account_walk, "READ_MAX", 4)
    payments = [await solana.sell(str(number)) for number in range(14)]
    paid = [await solana.pay(payment) for payment in payments]
    await solana.local.slots(40)
    for _ in range(5):
        assert await solana.watcher.run_once()
    assert [solana.kinds(one) for one in paid] == [["matched"]] * len(paid)
    assert solana.watcher.stats().blocks_behind == 0


async def test_what_is_newer_than_what_is_kept_waits_until_the_older_is_final(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_reading, "KEPT_MAX", 2)
    payments = [await solana.sell(str(number)) for number in range(4)]
    paid = [await solana.pay(payment) for payment in payments]
    before = solana.walk.cursor("head")
    assert await solana.watcher.run_once()
    assert [len(solana.kinds(one)) for one in paid] == [1, 1, 0, 0]
    assert solana.walk.cursor("head") == before
    await solana.local.slots(50)
    assert await solana.watcher.run_once()
    assert [len(solana.kinds(one)) for one in paid] == [1, 1, 1, 1]


# Nodes that lag, fail and hide.


async def test_an_index_that_lags_hides_nothing_for_long(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    solana.nodes[0].index_lag = 20
    paid = await solana.pay(payment)
    for _ in range(3):
        await solana.later()
        await solana.watcher.run_once()
    assert solana.shown(paid) == []
    await solana.local.slots(20)
    await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]


async def test_a_node_that_lags_is_not_believed(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    payment = await solana.sell()
    await solana.local.slots(3)
    await solana.watcher.run_once()
    solana.nodes[0].lag = 5
    paid = await solana.pay(payment)
    assert await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]
    assert solana.watcher.stats().trouble == ""


async def test_a_node_that_never_catches_up_is_trouble(solana: SolanaWatching) -> None:
    solana.nodes[0].lag = 3
    assert await solana.watcher.run_once()
    await trio.sleep(LAG_S + 1)
    assert not await solana.watcher.run_once()
    assert "3 slots behind" in solana.watcher.stats().trouble


async def test_a_chain_that_was_started_anew_is_read_from_where_it_is(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.local.slots(100)
    await solana.watcher.run_once()
    other = Ledger(1, 4)
    solana.nodes[0].ledger = other
    with capture_logs() as logs:
        assert await solana.watcher.run_once()
        await trio.sleep(GONE_S + 1)
        assert await solana.watcher.run_once()
    assert [one["event"] for one in logs if one["log_level"] == "critical"] == ["chain.other_history"]
    assert solana.watcher.stats().read == other.at("confirmed").slot
    assert [one.block_hash for one in solana.shown(paid)] == [None]
    assert await solana.watcher.run_once()


async def test_what_was_listed_before_a_chain_was_started_anew_is_forgotten_also_in_doubt(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write after which it is forgotten may be stored though its end is an error."""
    await solana.local.slots(3000)
    await solana.pay(await solana.sell("0"))
    await solana.local.slots(60)
    await solana.watcher.run_once()
    write, in_doubt = solana.db.write, iter([True])

    async def store(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = await write(step, *args, **kwargs)
        if step is account_walk._begin_again and next(in_doubt, False):
            raise OutcomeUnknown("disk I/O error")
        return found

    monkeypatch.setattr(solana.db, "write", store)
    solana.nodes[0].ledger = solana.ledger = Ledger(1, 4)
    solana.local = LocalSolana(SvmNode(solana.ledger))
    await furnish_solana(solana.local)
    await solana.watcher.run_once()
    await trio.sleep(GONE_S + 1)
    assert not await solana.watcher.run_once()
    assert next(in_doubt, None) is None
    await solana.watcher.run_once()
    paid = await solana.pay(await solana.sell("new"))
    await solana.local.slots(40)
    await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]


async def test_a_transaction_that_no_node_can_tell_of_keeps_nobody_elses_payment_waiting(
    solana: SolanaWatching,
) -> None:
    one, two = await solana.sell("1"), await solana.sell("2")
    strange = await solana.pay(one)
    solana.nodes[0].denies.add(strange)
    paid = await solana.pay(two)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(5)
        assert solana.kinds(paid) == ["matched"]
        assert solana.told[0] == two
        assert strange in solana.watcher.stats().trouble
        await trio.sleep(UNREADABLE_S + 60)
        nursery.cancel_scope.cancel()
    assert solana.watcher.stats().skipped == 1
    assert solana.watcher.stats().trouble == ""


@pytest.mark.parametrize("tells", [True, False])
async def test_what_was_read_past_is_tried_once_more_when_it_is_final(
    solana: SolanaWatching, tells: bool
) -> None:
    paid = await solana.pay(await solana.sell())
    solana.nodes[0].denies.add(paid)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(UNREADABLE_S + 60)
        assert solana.kinds(paid) == []
        assert solana.watcher.stats().skipped == 1
        if tells:
            solana.nodes[0].denies.clear()
        await solana.later()
        await trio.sleep(UNREADABLE_S + 60)
        nursery.cancel_scope.cancel()
    assert solana.kinds(paid) == (["matched"] if tells else [])
    assert solana.watcher.stats().skipped == (0 if tells else 1)
    assert solana.watcher.stats().final == solana.ledger.at("finalized").slot


async def test_what_one_node_hides_the_second_reading_shows(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    payment = await solana.sell()
    paid = await solana.pay(payment)
    solana.nodes[0].hides.add(paid)
    await solana.watcher.run_once()
    assert solana.shown(paid) == []
    await solana.later()
    with capture_logs() as logs:
        await solana.watcher.run_once()
    assert "chain.hidden_transfer" in [one["event"] for one in logs]
    assert solana.kinds(paid) == ["matched"]


async def test_without_the_second_node_nothing_is_final(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    final = solana.walk.cursor("final")
    solana.nodes[1].does = DOWN
    await solana.later()
    assert await solana.watcher.run_once()
    assert solana.walk.cursor("final") == final
    assert solana.watcher.stats().second_trouble != ""
    solana.nodes[1].does = None
    await trio.sleep(60)  # it is let rest for a while
    assert await solana.watcher.run_once()
    assert solana.walk.cursor("final") != final
    assert solana.watcher.stats().second_trouble == ""


async def test_no_node_alone_makes_the_clock_go_ahead(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    await solana.later()
    true_s = solana.ledger.at("finalized").time_s
    solana.nodes[0].ledger = Ahead(solana.ledger)
    assert await solana.watcher.run_once()
    final = solana.walk.cursor("final")
    assert final is not None
    assert final.time_s == true_s - INDEX_S


class Ahead(Ledger):
    """The same chain with a clock that is an hour ahead."""

    def __init__(self, of: Ledger) -> None:
        self.__dict__.update(of.__dict__)

    def account(self, key: Any, block: Any = None) -> Any:
        """The clock's data are told with another time."""
        account = super().account(key, block)
        if account is None or len(account.data) != 40 or block is None:
            return account
        time_s = (block.time_s + 3600).to_bytes(8, "little")
        return type(account)(account.lamports, bytes(account.data)[:32] + time_s, account.owner)


async def test_a_node_that_forgot_where_a_listing_ends_is_read_all_the_same(solana: SolanaWatching) -> None:
    one, two = await solana.sell("1"), await solana.sell("2")
    first = await solana.pay(one)
    await solana.later()
    await solana.local.slots(40)
    await solana.watcher.run_once()
    cursors = solana.db.point(account_cursors, CHAIN, "head")
    assert first in [cursor.tx_id for cursor in cursors.values()]
    solana.nodes[0].forgotten.add(first)
    paid = await solana.pay(two)
    assert await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]


async def test_such_a_node_is_read_page_by_page_too(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await solana.pay(await solana.sell("1"))
    await solana.later()
    await solana.local.slots(40)
    await solana.watcher.run_once()
    list_by_three(solana, monkeypatch)
    solana.nodes[0].forgotten.add(first)
    paid = [await solana.pay(await solana.sell(name)) for name in "2345678"]
    assert await solana.watcher.run_once()
    assert [solana.kinds(one) for one in paid] == [["matched"]] * len(paid)


async def test_a_node_that_gives_the_same_page_again_and_again_does_not_stop_the_reading(
    two_solanas: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    solana = two_solanas
    list_by_three(solana, monkeypatch)
    page_by_three = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        if method == "getSignaturesForAddress":
            params = (params[0], {key: value for key, value in params[1].items() if key != "before"})
        return page_by_three(method, *params)

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    paid = [await solana.pay(await solana.sell(name)) for name in "123456"]
    assert await solana.watcher.run_once()
    assert [solana.kinds(one) for one in paid] == [["matched"]] * len(paid)


# Which accounts.


async def test_where_nothing_is_open_an_account_is_listed_now_and_then(solana: SolanaWatching) -> None:
    paid = await solana.send([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, PRICE)])
    await solana.watcher.run_once()
    assert solana.shown(paid) == []
    calls = solana.rpc.calls["getSignaturesForAddress"]
    await solana.watcher.run_once()
    assert solana.rpc.calls["getSignaturesForAddress"] == calls
    await trio.sleep(QUIET_S + 1)
    await solana.watcher.run_once()
    assert solana.kinds(paid) == ["unmatched"]


async def test_an_account_that_is_new_is_read_from_a_moment_before(solana: SolanaWatching) -> None:
    old = await solana.send([pay_sol(pubkey(BUYER), pubkey(MERCHANT), 10**7)])
    await solana.local.slots(BEGIN_SLOTS + 10)
    await solana.later()
    await solana.watcher.run_once()
    payment = await solana.sell(asset=SOL)
    paid = await solana.pay_in_sol(payment)
    await solana.watcher.run_once()
    assert (solana.kinds(paid), solana.shown(old)) == (["matched"], [])


async def test_an_outage_of_an_hour_is_read_up(solana: SolanaWatching) -> None:
    one, two = await solana.sell("1"), await solana.sell("2", to=MERCHANT_2, merchant=2)
    await solana.watcher.run_once()
    paid = [await solana.pay(one), await solana.pay(two, to=MERCHANT_2)]
    await solana.local.slots(500)
    await solana.later(3600)
    await solana.another().run_once()
    assert [solana.kinds(each) for each in paid] == [["matched"], ["matched"]]


async def test_a_fake_id_is_no_transaction(solana: SolanaWatching) -> None:
    raw = await solana.local.signed([memo("x")], keypair(BUYER))
    await solana.watcher.found(tx_id_of(raw))
    assert (solana.told, solana.count("transfers")) == ([], 0)
