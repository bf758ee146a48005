"""One node of two that lies: it may make a payment wait, and never have it lost."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import trio
from solders.pubkey import Pubkey
from solders.signature import Signature

from payd.actors import account_reading
from payd.actors.account_walk import INDEX_SLOTS
from payd.actors.node_choice import SECOND_WAIT_S
from payd.actors.walk import GONE_S
from payd.chains.solana.keys import TOKEN_2022
from payd.chains.unread import Unread
from payd.store.db import Database
from tests.actors.solana_watching import (
    DOWN,
    FINALIZED,
    PRICE,
    WINDOW_S,
    SolanaWatching,
    open_solana,
)
from tests.actors.test_account_refusals import far_ahead
from tests.live.node_process import Refused
from tests.live.solana import BUYER, MERCHANT, USDC_MINT, pay_token, pubkey
from tests.live.svm_ledger import Ledger


def moved_nothing(shown: dict[str, Any]) -> None:
    meta = shown["meta"]
    meta["postTokenBalances"], meta["postBalances"] = meta["preTokenBalances"], meta["preBalances"]


def moved_less(shown: dict[str, Any]) -> None:
    for one in shown["meta"]["postTokenBalances"]:
        amount = one["uiTokenAmount"]
        amount["amount"] = str(max(0, int(amount["amount"]) - 1))


def moved_long_after(shown: dict[str, Any]) -> None:
    shown["blockTime"] += 2 * WINDOW_S


def moved_long_before(shown: dict[str, Any]) -> None:
    shown["blockTime"] -= 2 * WINDOW_S


@pytest.mark.parametrize("lie", [moved_nothing, moved_less, moved_long_after, moved_long_before])
async def test_what_one_node_tells_otherwise_the_second_reading_puts_right(
    two_solanas: SolanaWatching, lie: Any
) -> None:
    solana = two_solanas
    payment = await solana.sell()
    solana.nodes[0].lies = lie
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    assert "matched" not in solana.kinds(paid)
    await solana.later()
    await solana.watcher.run_once()
    [shown] = solana.shown(paid)
    assert (shown.kind, shown.value, shown.payment_id) == ("matched", PRICE, payment)
    assert payment in solana.told


@pytest.mark.parametrize("told", ["it lists it", "it tells of it"])
async def test_what_one_node_tells_of_a_slot_that_is_yet_to_come_binds_no_payment(
    two_solanas: SolanaWatching, told: str
) -> None:
    """No other node ever comes so far that it could deny it; the transfer of the buyer would be surplus."""
    solana = two_solanas
    payment = await solana.sell()
    made_up = await solana.pay(payment)
    solana.nodes[1].hides.add(made_up)
    liar, honest = solana.nodes[0], solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        said = honest(method, *params)
        for one in said if isinstance(said, list) else [said]:
            if isinstance(one, dict) and (one.get("signature") == made_up or params[0] == made_up):
                one["slot"] += 10**9
        return said

    liar.ask = ask  # type: ignore[method-assign]
    await (solana.watcher.run_once() if told == "it lists it" else solana.watcher.found(made_up))
    assert solana.kinds(made_up) == []

    paid = await solana.pay(payment, PRICE)
    await solana.watcher.run_once()
    await solana.later()
    await solana.watcher.run_once()
    assert (solana.kinds(made_up), solana.kinds(paid)) == ([], ["matched"])


@pytest.mark.parametrize("lie", [moved_nothing, moved_less, moved_long_after])
async def test_the_second_node_takes_nothing_away_that_the_first_one_showed(
    two_solanas: SolanaWatching, lie: Any
) -> None:
    solana = two_solanas
    payment = await solana.sell()
    solana.nodes[1].lies = lie
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    await solana.later()
    await solana.watcher.run_once()
    [shown] = solana.shown(paid)
    assert (shown.kind, shown.value, shown.payment_id) == ("matched", PRICE, payment)


async def test_what_pays_nobody_is_read_once_from_each_node(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    await solana.sell()
    await solana.pay("pay_of_nobody", 7)
    for _ in range(5):
        await solana.later()
        await solana.watcher.run_once()
    assert [sum(post.count("getTransaction") for post in node.asked) for node in solana.nodes] == [1, 1]


async def test_no_window_closes_over_a_time_in_which_every_node_seemed_to_lag(
    two_solanas: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer with a slot far ahead is believed, and no node is there for a quarter of an hour."""
    solana = two_solanas
    payment = await solana.sell()
    with monkeypatch.context() as trusting:
        trusting.setattr(account_reading, "SLOTS_ROOM", 200_000)
        solana.nodes[0].ledger = far_ahead()
        await solana.watcher.run_once()
    solana.nodes[0].ledger = solana.ledger
    paid = await solana.pay(payment)
    await solana.local.slots(400)
    for seconds in (WINDOW_S, int(GONE_S), int(GONE_S)):
        await solana.later(seconds)
        await trio.sleep(seconds + 1)
        await solana.watcher.run_once()
    for _ in range(3):
        await solana.later()
        await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 > solana.payment(payment).expires_at_ms
    assert solana.kinds(paid) == ["matched"]


async def test_a_clock_out_of_all_bounds_is_not_kept(solana: SolanaWatching) -> None:
    """Times are stored in milliseconds: one that does not fit would end every reading from then on."""
    payment = await solana.sell()
    await solana.later()
    solana.nodes[0].ledger = Mad(solana.ledger)
    assert not await solana.watcher.run_once()
    solana.nodes[0].ledger = solana.ledger
    paid = await solana.pay(payment)
    assert await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]


async def test_of_one_node_alone_no_time_is_believed_that_is_far_ahead_of_ours(
    solana: SolanaWatching,
) -> None:
    payment = await solana.sell()
    await solana.later()
    solana.nodes[0].ledger = Mad(solana.ledger, solana.ledger.tip.time_s + 3600)
    await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 < solana.payment(payment).expires_at_ms

    solana.nodes[0].ledger = solana.ledger
    await solana.later(WINDOW_S + 60)
    await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 > solana.payment(payment).expires_at_ms


async def test_at_the_first_start_no_window_is_taken_to_be_closed_by_a_clock_that_is_ahead(
    realm_db: Database,
) -> None:
    async with open_solana(realm_db, begun=False) as solana:
        solana.nodes[0].ledger = Mad(solana.ledger, solana.ledger.tip.time_s + 3600)
        await solana.watcher.run_once()

        assert solana.walk.read_until_s() < solana.clock.now_ms() // 1000


@pytest.mark.parametrize("behind_s", [0, 3600])
async def test_no_node_brings_the_final_reading_back_that_was_read_to_its_end(
    two_solanas: SolanaWatching, behind_s: int
) -> None:
    """By its slots or by its clock: the other one had told of more."""
    solana = two_solanas
    await solana.later()
    await solana.watcher.run_once()
    before = solana.walk.cursor("final")
    assert before is not None
    await solana.later()
    if behind_s:
        solana.nodes[1].ledger = Mad(solana.ledger, solana.ledger.tip.time_s - behind_s)
    else:
        solana.nodes[1].lag = 20
    await solana.watcher.run_once()
    after = solana.walk.cursor("final")
    assert after is not None
    assert after.number >= before.number + bool(behind_s)
    assert after.time_s == before.time_s


class Mad(Ledger):
    """The same chain with a clock of its own, by which no node knows what to make of it."""

    def __init__(self, of: Ledger, time_s: int = 2**62) -> None:
        self.__dict__.update(of.__dict__)
        self.clock_s = time_s

    def account(self, key: Any, block: Any = None) -> Any:
        """The clock's data are told with another time."""
        account = super().account(key, block)
        if account is None or len(account.data) != 40:
            return account
        return type(account)(
            account.lamports, bytes(account.data)[:32] + self.clock_s.to_bytes(8, "little"), account.owner
        )


async def test_what_the_node_hid_that_listed_before_is_not_read_again_by_its_word_alone(
    two_solanas: SolanaWatching,
) -> None:
    """It lists first; then the other one does, and this one would be the second node."""
    solana = two_solanas
    liar, honest = solana.rpc.nodes
    await solana.watcher.run_once()
    payment, other = await solana.sell(), await solana.sell("2")
    paid = await solana.pay(payment)
    solana.nodes[0].hides.add(paid)
    await solana.pay(other)
    await solana.local.slots(INDEX_SLOTS + FINALIZED)
    await solana.walk.step(liar)
    await solana.later()
    step = await solana.walk.step(honest)
    assert step.final is not None
    assert solana.kinds(paid) == []
    read_until_s = solana.walk.read_until_s()

    with pytest.raises(Unread):
        await solana.walk.second_reading((liar, honest), step.final, step.cursor)
    assert solana.walk.read_until_s() == read_until_s

    await solana.walk.second_reading((honest,), step.final, step.cursor)
    assert solana.walk.read_until_s() > read_until_s
    assert solana.kinds(paid) == ["matched"]


async def test_no_window_closes_by_the_word_of_the_second_node_alone(two_solanas: SolanaWatching) -> None:
    """It was away, and hides what paid; the one that reads lists that and cannot tell of it yet."""
    solana = two_solanas
    payment = await solana.sell()
    for _ in range(2):
        await solana.later()
        await solana.watcher.run_once()
    solana.nodes[1].does = DOWN
    await solana.later()
    await solana.watcher.run_once()
    paid = await solana.pay(payment)
    solana.nodes[0].denies.add(paid)
    solana.nodes[1].does = None
    solana.nodes[1].hides.add(paid)
    await solana.later(WINDOW_S + 60)
    await trio.sleep(60)

    assert not await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 < solana.payment(payment).expires_at_ms

    solana.nodes[0].denies.clear()
    await trio.sleep(60)
    assert await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]
    assert solana.walk.read_until_s() * 1000 > solana.payment(payment).expires_at_ms


async def test_a_node_that_lists_without_end_does_not_stop_the_reading(
    two_solanas: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    solana = two_solanas
    monkeypatch.setattr(account_reading, "LISTED_MAX", 3)
    monkeypatch.setattr(account_reading, "PAGES_MAX", 20)
    honest, numbers = solana.nodes[0].ask, count()

    def ask(method: str, *params: Any) -> Any:
        if method != "getSignaturesForAddress":
            return honest(method, *params)
        made_up = [next(numbers) for _ in range(3)]
        assert made_up[-1] < 3000, "it is asked for ever"
        slot = solana.ledger.at("confirmed").slot
        return [
            {"signature": str(Signature(one.to_bytes(64, "big"))), "slot": slot, "err": "AccountInUse"}
            for one in made_up
        ]

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    paid = await solana.pay(await solana.sell())
    with trio.fail_after(60):
        assert await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]


@pytest.mark.parametrize("program", [None, TOKEN_2022])
async def test_a_node_that_knows_nothing_of_a_token_hides_none_of_it(
    two_solanas: SolanaWatching, program: Pubkey | None
) -> None:
    """Nor one that says it is another program's: where it arrives follows from that."""
    solana = two_solanas
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        said = honest(method, *params)
        if method == "getMultipleAccounts" and str(USDC_MINT) in params[0]:
            for account in said["value"]:
                account["owner"] = str(program)
            said["value"] = said["value"] if program else [None] * len(params[0])
        return said

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    solana.watcher = solana.another()
    payment = await solana.sell()
    paid = await solana.pay(payment)
    plain = await solana.send([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 7)])
    await solana.watcher.run_once()
    await solana.later()
    await solana.watcher.run_once()
    assert [solana.kinds(one) for one in (paid, plain)] == [["matched"], ["unmatched"]]


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("lie", [{"err": "AccountInUse"}, {"slot": 7}])
async def test_a_node_that_lists_it_otherwise_than_another_hides_nothing(
    two_solanas: SolanaWatching, lie: dict[str, Any], liar: int
) -> None:
    """Of what came right after the start both nodes list everything."""
    solana = two_solanas
    payment = await solana.sell()
    paid = await solana.pay(payment)
    node = solana.nodes[liar]
    honest = node.ask

    def ask(method: str, *params: Any) -> Any:
        said = honest(method, *params)
        if method != "getSignaturesForAddress":
            return said
        return [one | lie if one["signature"] == paid else one for one in said]

    node.ask = ask  # type: ignore[method-assign]
    await solana.watcher.run_once()
    await solana.later()
    await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]
    assert payment in solana.told


@pytest.mark.parametrize("liar", [0, 1])
async def test_no_node_alone_hides_what_came_to_another_token_account(
    two_solanas: SolanaWatching, liar: int
) -> None:
    """Only the payment's reference leads there, as its window closes; long after the start."""
    solana = two_solanas
    other = await solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    payment = await solana.sell()
    for _ in range(3):
        await solana.later()
        await solana.watcher.run_once()
    paid = await solana.pay(payment, target=other)
    solana.nodes[liar].hides.add(paid)
    await solana.later(WINDOW_S + 60)
    while not solana.kinds(paid):
        await solana.watcher.run_once()
        assert solana.kinds(paid) or solana.walk.read_until_s() * 1000 < solana.payment(payment).expires_at_ms
        await solana.later()
        await trio.sleep(SECOND_WAIT_S / 6)
    assert solana.kinds(paid) == ["matched"]


async def test_a_node_that_refuses_for_ever_keeps_no_window_open_for_ever(
    two_solanas: SolanaWatching,
) -> None:
    """As some do what is not in one's plan: nothing is told of a payment that ends unpaid before that."""
    solana = two_solanas
    payment = await solana.sell()
    other = await solana.sell("2")
    await solana.watcher.run_once()
    honest = solana.nodes[1].ask

    def ask(called: str, *params: Any) -> Any:
        if called == "getSignaturesForAddress":
            raise Refused(-32601, "not in your plan")
        return honest(called, *params)

    solana.nodes[1].ask = ask  # type: ignore[assignment, method-assign]
    paid = await solana.pay(other)
    await solana.later(WINDOW_S + 60)
    for _ in range(5):
        await solana.watcher.run_once()
        await trio.sleep(SECOND_WAIT_S / 6)
        await solana.later()
    assert solana.walk.read_until_s() * 1000 < solana.payment(payment).expires_at_ms
    for _ in range(4):
        await trio.sleep(SECOND_WAIT_S / 6)
        await solana.later()
        await solana.watcher.run_once()
        await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 > solana.payment(payment).expires_at_ms
    assert solana.kinds(paid) == ["matched"]
