"""What is read of accounts: at once, no more than is needed, kept for a while, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.rpc import Rpc
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.facts import (
    KEPT_MS,
    PRICE_KEPT_MS,
    RENT_KEPT_MS,
    STEADY_KEPT_MS,
    Fact,
    Facts,
    Price,
    Rent,
    Steady,
    TokenAccount,
    Wallet,
)
from payd.chains.solana.keys import TOKEN, token_account
from payd.chains.solana.priority import PRICE_MIN
from payd.core.errors import ChainUnavailable
from tests.chains.solana.desk import NOW_MS, TERMS, Desk
from tests.live.anvil import Refused
from tests.live.solana import BUYER, BUYER_2, LAMPORTS, MERCHANT, STRANGER, USDC_MINT, pubkey

pytestmark = pytest.mark.real_time

HOLDING = TokenAccount(token_account(pubkey(BUYER), USDC_MINT, TOKEN))
MEGABYTES = 5 * 2**20


async def test_accounts_are_as_they_are_on_the_chain(desk: Desk) -> None:
    wallet = await desk.facts.account(Wallet(pubkey(BUYER)), NOW_MS)
    holding = await desk.facts.account(HOLDING, NOW_MS)
    mint = await desk.facts.account(Steady(USDC_MINT), NOW_MS)

    assert wallet is not None
    assert (wallet.lamports, wallet.data) == (10 * LAMPORTS, b"")
    assert holding is not None
    assert (holding.owner, len(holding.data)) == (TOKEN, 165)
    assert mint is not None
    assert len(mint.data) == 82
    assert await desk.facts.account(Wallet(pubkey(STRANGER)), NOW_MS) is None


async def test_many_accounts_and_rents_are_read_with_one_request(desk: Desk) -> None:
    await desk.rpc.heads()
    before = desk.rpc.posts
    wallets = [Wallet(pubkey(place)) for place in range(1, 200)]
    await desk.facts.read([*wallets, *wallets, HOLDING, Steady(USDC_MINT), Rent(0), Rent(165)], NOW_MS)

    assert desk.rpc.posts == before + 1
    assert desk.rpc.calls["getMultipleAccounts"] == 3
    found = [await desk.facts.account(wallet, NOW_MS) for wallet in wallets]
    assert [account is not None for account in found[:3]] == [True, True, False]
    assert await desk.facts.number(Rent(0), NOW_MS) == 890_880
    assert await desk.facts.number(Rent(165), NOW_MS) == 2_039_280
    assert desk.rpc.posts == before + 1


async def test_whoever_names_an_account_of_megabytes_stops_nothing(desk: Desk) -> None:
    await desk.solana.put(pubkey(STRANGER), bytes(MEGABYTES), TOKEN)
    await desk.solana.confirm()
    account = await desk.facts.account(Wallet(pubkey(STRANGER)), NOW_MS)

    assert account is not None
    assert (account.owner, len(account.data)) == (TOKEN, 1)


async def test_what_is_known_is_asked_for_again_after_its_time(desk: Desk) -> None:
    facts: list[Fact] = [Wallet(pubkey(BUYER)), HOLDING, Steady(USDC_MINT), Rent(0)]
    await desk.facts.read(facts, NOW_MS)
    posts = desk.rpc.posts
    await desk.facts.read(facts, NOW_MS + KEPT_MS - 1)
    assert desk.rpc.posts == posts

    await desk.solana.fund(pubkey(BUYER), 5)
    await desk.solana.confirm()
    account = await desk.facts.account(Wallet(pubkey(BUYER)), NOW_MS + KEPT_MS)
    assert account is not None
    assert account.lamports == 5
    posts = desk.rpc.posts
    await desk.facts.read([Steady(USDC_MINT), Rent(0)], NOW_MS + STEADY_KEPT_MS - 1)
    assert desk.rpc.posts == posts
    await desk.facts.read([Steady(USDC_MINT), Rent(0)], NOW_MS + STEADY_KEPT_MS)
    assert desk.rpc.posts == posts + 1


@pytest.mark.parametrize(("fact", "kept_ms"), [(HOLDING, KEPT_MS), (Rent(0), RENT_KEPT_MS)])
async def test_each_kind_of_fact_is_kept_for_a_time_of_its_own(desk: Desk, fact: Fact, kept_ms: int) -> None:
    await desk.facts.read([fact], NOW_MS)
    posts = desk.rpc.posts
    await desk.facts.read([fact], NOW_MS + kept_ms - 1)
    assert desk.rpc.posts == posts
    await desk.facts.read([fact], NOW_MS + kept_ms)
    assert desk.rpc.posts == posts + 1


async def test_a_clock_that_was_set_back_makes_nothing_last_for_ever(desk: Desk) -> None:
    await desk.facts.read([HOLDING], NOW_MS)
    posts = desk.rpc.posts
    await desk.facts.read([HOLDING], NOW_MS - 1)

    assert desk.rpc.posts == posts + 1


async def test_what_is_not_confirmed_is_not_there_yet(desk: Desk) -> None:
    await desk.solana.airdrop(pubkey(BUYER_2), 7)
    before = await desk.facts.account(Wallet(pubkey(BUYER_2)), NOW_MS)
    await desk.solana.confirm()
    after = await desk.facts.account(Wallet(pubkey(BUYER_2)), NOW_MS + KEPT_MS)

    assert before is not None
    assert after is not None
    assert after.lamports == before.lamports + 7


# Prices.


async def test_the_price_is_read_for_the_account_and_kept(desk: Desk) -> None:
    desk.node.prices = [0, 25_000, 25_000]
    price = Price(pubkey(MERCHANT))

    assert await desk.facts.number(price, NOW_MS) == 4 * PRICE_MIN
    desk.node.prices = [0]
    assert await desk.facts.number(price, NOW_MS + PRICE_KEPT_MS - 1) == 4 * PRICE_MIN
    assert await desk.facts.number(price, NOW_MS + PRICE_KEPT_MS) == PRICE_MIN


@pytest.mark.parametrize("answer", [Refused(-32601, "Method not found"), "plenty", [{"slot": 1}]])
async def test_where_no_node_tells_prices_the_least_is_paid(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    says(desk, monkeypatch, "getRecentPrioritizationFees", answer)

    assert await desk.facts.number(Price(pubkey(MERCHANT)), NOW_MS) == PRICE_MIN


# Nodes that do not answer.


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("getMultipleAccounts", {"context": {"slot": 1}, "value": []}),
        ("getMultipleAccounts", None),
        ("getMultipleAccounts", Refused(-32602, "Invalid params")),
        ("getMultipleAccounts", Refused(-32005, "Node is behind by 42 slots")),
        ("getMinimumBalanceForRentExemption", -1),
        ("getMinimumBalanceForRentExemption", Refused(-32602, "Invalid params")),
    ],
)
async def test_an_answer_that_is_none_is_no_account_that_is_not_there(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any
) -> None:
    says(desk, monkeypatch, method, answer)

    with pytest.raises(ChainUnavailable):
        await desk.facts.read([HOLDING, Rent(0)], NOW_MS)
    monkeypatch.undo()
    assert await Facts(desk.rpc).account(HOLDING, NOW_MS) is not None


async def test_without_a_node_nothing_is_known() -> None:
    rpc = Rpc(["http://127.0.0.1:9"], SolanaDialect(TERMS.chain.reference))
    facts = Facts(rpc)
    with pytest.raises(ChainUnavailable):
        await facts.account(HOLDING, NOW_MS)
    await rpc.aclose()


def says(desk: Desk, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any) -> None:
    """Have the node answer a method so."""

    def answered(*_: Any) -> Any:
        if isinstance(answer, Refused):
            raise answer
        return answer

    monkeypatch.setattr(desk.node, f"_{method}", answered)
