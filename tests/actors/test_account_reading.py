"""Asking a node of Solana: what it says holds together, or nothing of it counts."""

from __future__ import annotations

from typing import Any

import pytest

from payd.actors import account_reading
from payd.actors.account_reading import AccountReader, Listing, name_of, unique
from payd.actors.walk import Lagging
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Listed
from payd.chains.solana.keys import TOKEN, token_account
from payd.chains.unread import Unread
from payd.store.chain_accounts import AccountCursor
from payd.store.chain_cursors import Cursor
from tests.actors.solana_watching import Node, SolanaWatching
from tests.live.anvil import Refused
from tests.live.solana import MERCHANT, USDC_MINT, pubkey

SHOP = AccountCursor(str(token_account(pubkey(MERCHANT), USDC_MINT, TOKEN)), "", 0)


def reader(solana: SolanaWatching) -> AccountReader:
    return solana.walk.reader


def says(node: Node, wrong: str, said: Any) -> None:
    """Have a node answer so."""
    honest = node.ask

    def ask(method: str, *params: Any) -> Any:
        if method != wrong:
            return honest(method, *params)
        if isinstance(said, Exception):
            raise said
        return said(honest(method, *params)) if callable(said) else said

    node.ask = ask  # type: ignore[method-assign]


async def test_a_listing_comes_with_the_slots_that_the_node_is_at_in_one_post(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = [await solana.pay(payment) for _ in range(3)]
    posts = solana.rpc.posts
    tips, [listing] = await reader(solana).listings(solana.rpc.nodes[0], [SHOP], "confirmed", 0)
    assert solana.rpc.posts == posts + 1
    assert [one.tx_id for one in listing.entries] == paid
    head, final = solana.ledger.at("confirmed"), solana.ledger.at("finalized")
    assert tips.head == Cursor(head.slot, name_of(head.slot), head.time_s)
    assert tips.final.number == final.slot


@pytest.mark.parametrize("commitment", ["confirmed", "finalized"])
async def test_a_node_that_is_not_there_yet_refuses(solana: SolanaWatching, commitment: Any) -> None:
    at = solana.ledger.at(commitment).slot
    node = solana.rpc.nodes[0]
    await reader(solana).listings(node, [SHOP], commitment, at)
    with pytest.raises(Lagging, match="behind"):
        await reader(solana).listings(node, [SHOP], commitment, at + 1)
    with pytest.raises(Lagging, match="1 slots behind"):
        await reader(solana).listings(node, [], commitment, at + 1)


async def test_behind_one_address_may_be_a_node_that_is_not_there_yet(solana: SolanaWatching) -> None:
    says(
        solana.nodes[0],
        "getSignaturesForAddress",
        Refused(-32016, "Minimum context slot has not been reached"),
    )
    with pytest.raises(Lagging, match="behind"):
        await reader(solana).listings(solana.rpc.nodes[0], [SHOP], "confirmed", 0)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("getMultipleAccounts", Refused(-32005, "Node is unhealthy")),
        ("getMultipleAccounts", {"context": {"slot": 7}, "value": [None]}),
        ("getMultipleAccounts", None),
        ("getSignaturesForAddress", Refused(-32011, "Transaction history is not available from this node")),
        ("getSignaturesForAddress", None),
        ("getSignaturesForAddress", [{"signature": "0x12", "slot": 1, "err": None}]),
        ("getSignaturesForAddress", lambda said: [{**said[0], "slot": -1}]),
    ],
)
async def test_what_makes_no_sense_is_not_read(solana: SolanaWatching, method: str, said: Any) -> None:
    await solana.pay(await solana.sell())
    says(solana.nodes[0], method, said)
    with pytest.raises((Unread, BadAnswer)):
        await reader(solana).listings(solana.rpc.nodes[0], [SHOP], "confirmed", 0)


async def test_a_block_that_comes_between_two_answers_and_is_final_at_once_is_no_trouble(
    solana: SolanaWatching,
) -> None:
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        if method != "getMultipleAccounts":
            return honest(method, *params)
        said = honest(method, params[0], {**params[1], "commitment": "processed"})
        solana.ledger.advance()
        return said

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    tips = await reader(solana).tips(solana.rpc.nodes[0])
    assert (tips.final.number, tips.head.number) == (solana.ledger.tip.slot - 2, solana.ledger.tip.slot - 1)


async def test_of_a_newest_slot_that_lags_behind_the_last_final_one_no_more_is_final(
    solana: SolanaWatching,
) -> None:
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        if method == "getMultipleAccounts" and params[1]["commitment"] == "finalized":
            params = (params[0], {**params[1], "commitment": "processed"})
        return honest(method, *params)

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    tips = await reader(solana).tips(solana.rpc.nodes[0])
    assert tips.final == tips.head


@pytest.mark.parametrize(
    "said",
    [
        None,
        lambda said: {**said, "slot": said["slot"] + 1},
        lambda said: {**said, "meta": {}},
        Refused(-32004, "Block not available"),
    ],
)
async def test_a_transaction_that_is_not_as_it_was_listed_stands_in_the_way_alone(
    solana: SolanaWatching, said: Any
) -> None:
    strange, paid = [await solana.pay(await solana.sell(name)) for name in "12"]
    listed = [await listed_of(solana, tx_id) for tx_id in (strange, paid)]
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        if method != "getTransaction" or params[0] != strange:
            return honest(method, *params)
        if isinstance(said, Exception):
            raise said
        return said(honest(method, *params)) if said is not None else None

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    found, trouble = await reader(solana).transactions(solana.rpc.nodes[0], listed, "confirmed")
    assert [one.tx_id for one in found] == [paid]
    assert trouble is not None
    assert trouble.tx_id == strange


async def test_of_many_transactions_only_some_are_held_as_a_node_tells_them(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = [await solana.pay(await solana.sell(name)) for name in "12345"]
    solana.nodes[0].denies.add(paid[2])
    listed = [await listed_of(solana, tx_id) for tx_id in paid]
    monkeypatch.setattr(account_reading, "HELD_MAX", 2)
    solana.nodes[0].asked.clear()
    found, trouble = await reader(solana).transactions(solana.rpc.nodes[0], listed, "confirmed")
    assert [one.tx_id for one in found] == [*paid[:2], *paid[3:]]
    assert trouble is not None
    assert trouble.tx_id == paid[2]
    assert [len(post) for post in solana.nodes[0].asked] == [2, 2, 1]


async def test_another_transaction_in_its_place_is_none(solana: SolanaWatching) -> None:
    one, two = [await solana.pay(await solana.sell(name)) for name in "12"]
    other = solana.nodes[0].ask("getTransaction", two, {"encoding": "base64", "commitment": "confirmed"})
    says(solana.nodes[0], "getTransaction", other)
    listed = [await listed_of(solana, one)]
    found, trouble = await reader(solana).transactions(solana.rpc.nodes[0], listed, "confirmed")
    assert (found, trouble is not None) == ([], True)


async def test_a_transaction_of_a_version_to_come_is_read_past(solana: SolanaWatching) -> None:
    paid = await solana.pay(await solana.sell())
    says(
        solana.nodes[0],
        "getTransaction",
        Refused(-32015, "Transaction version (1) is not supported by the requesting client."),
    )
    listed = [await listed_of(solana, paid)]
    assert await reader(solana).transactions(solana.rpc.nodes[0], listed, "confirmed") == ([], None)
    assert reader(solana).skipped == {paid}


async def listed_of(solana: SolanaWatching, tx_id: str) -> Listed:
    return Listed(tx_id, solana.ledger.landed[tx_id].block.slot, None)


def test_a_transaction_in_many_listings_is_one_and_the_oldest_comes_first() -> None:
    places = (("a", 7), ("b", 5), ("c", 7))
    one, two, three = [Listed(name, slot, None) for name, slot in places]
    listings = [Listing(SHOP, [two, one]), Listing(SHOP, [one, three])]
    assert unique(listings) == [two, one, three]


async def test_what_can_never_be_read_is_remembered_up_to_a_bound(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends such transactions to a merchant pays for each, and may send many."""
    monkeypatch.setattr(account_reading, "SKIPPED_MAX", 2)
    payment = await solana.sell()
    paid = [await solana.pay(payment) for _ in range(4)]
    says(solana.nodes[0], "getTransaction", Refused(-32015, "Transaction version (2) is not supported"))
    listed = [Listed(one, 5, None) for one in paid]
    found, trouble = await reader(solana).transactions(solana.rpc.nodes[0], listed, "confirmed")
    assert (found, trouble, len(reader(solana).skipped)) == ([], None, 2)
    assert paid[-1] in reader(solana).skipped
