"""The bad nodes of Solana are as bad as they are told to be, and no worse."""

from __future__ import annotations

from typing import Any

import pytest

from payd.net.http import Client, Target
from tests.live.node_process import Refused
from tests.live.solana import (
    BUYER,
    MERCHANT,
    STRANGER,
    USDC_MINT,
    LocalSolana,
    address,
    furnish_solana,
    keypair,
    pay_token,
    pubkey,
)
from tests.live.solana_proxy import (
    SolanaProxy,
    open_solana_proxy,
    with_err,
    with_level,
    with_more,
    with_owner,
)
from tests.live.svm_methods import SvmNode


@pytest.fixture
async def solana() -> LocalSolana:
    """A chain, by a node that is good."""
    local = LocalSolana(SvmNode(finalized=4))
    await furnish_solana(local)
    return local


@pytest.fixture
def proxy(solana: LocalSolana) -> SolanaProxy:
    """Another node of it, without a port."""
    assert isinstance(solana.node, SvmNode)
    return SolanaProxy(SvmNode(solana.node.ledger))


def ask(proxy: SolanaProxy, method: str, *params: object) -> Any:
    return proxy.result({"id": 1, "method": method, "params": params})


async def paid(solana: LocalSolana) -> str:
    """A confirmed transfer of 25."""
    tx_id = await solana.send([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 25)], keypair(BUYER))
    await solana.slots(1)
    return tx_id


def meta_of(proxy: SolanaProxy, tx_id: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(
        proxy, "getTransaction", tx_id, {"encoding": "base64", "commitment": "confirmed"}
    )
    return found["meta"]  # type: ignore[no-any-return]


def merchants(meta: dict[str, Any]) -> list[str]:
    """What the merchant has after it."""
    rows = meta["postTokenBalances"]
    return [one["uiTokenAmount"]["amount"] for one in rows if one["owner"] == address(MERCHANT)]


async def test_a_good_one_says_what_the_chain_is(solana: LocalSolana, proxy: SolanaProxy) -> None:
    tx_id = await paid(solana)

    assert merchants(meta_of(proxy, tx_id)) == ["25"]
    assert proxy.calls == {}


async def test_a_liar_invents_amounts_owners_and_failures(solana: LocalSolana, proxy: SolanaProxy) -> None:
    tx_id = await paid(solana)
    proxy.rewrite = with_more(1)
    more = meta_of(proxy, tx_id)
    proxy.rewrite = with_owner(address(STRANGER))
    others = meta_of(proxy, tx_id)
    proxy.rewrite = with_err({"InstructionError": [0, {"Custom": 1}]})
    failed = meta_of(proxy, tx_id)
    proxy.rewrite = None

    assert merchants(more) == ["26"]
    assert merchants(others) == []
    assert failed["err"] == {"InstructionError": [0, {"Custom": 1}]}
    assert merchants(meta_of(proxy, tx_id)) == ["25"]


async def test_a_liar_says_how_far_things_are(solana: LocalSolana, proxy: SolanaProxy) -> None:
    tx_id = await paid(solana)
    proxy.rewrite = with_level("finalized")
    [early] = ask(proxy, "getSignatureStatuses", [tx_id])["value"]
    proxy.rewrite = with_level(None)

    assert (early["confirmationStatus"], early["confirmations"]) == ("finalized", None)
    assert ask(proxy, "getSignatureStatuses", [tx_id])["value"] == [None]


async def test_it_refuses_what_it_is_told_to(proxy: SolanaProxy) -> None:
    proxy.errors["getSlot"] = (-32005, "Node is unhealthy")

    with pytest.raises(Refused, match="unhealthy"):
        ask(proxy, "getSlot")
    assert ask(proxy, "getHealth") == "ok"


@pytest.mark.real_time
async def test_its_network_fails_as_it_is_told(solana: LocalSolana) -> None:
    assert isinstance(solana.node, SvmNode)
    body = b'{"jsonrpc":"2.0","id":7,"method":"getHealth"}'
    client = Client(may_call=lambda _: True)
    async with open_solana_proxy(solana.node.ledger) as proxy:
        target = Target.of(proxy.url)
        good = await client.send("POST", target, (), body, deadline_s=5)
        proxy.status, proxy.retry_after = 429, "7"
        busy = await client.send("POST", target, (), body, deadline_s=5)
        await client.aclose()

    assert good.body == b'{"jsonrpc": "2.0", "id": 7, "result": "ok"}'
    assert (busy.status, busy.header("retry-after")) == (429, "7")
    assert proxy.calls == {"getHealth": 2}
