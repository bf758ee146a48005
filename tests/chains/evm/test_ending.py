"""Endings: a payment fails or expires only when final blocks, agreed on, leave no way for its transfer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from eth_account.messages import encode_typed_data

from payd.chains.evm import ending as evm_ending
from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.binding import authorization_nonce
from payd.chains.evm.track import read_track
from payd.core.errors import ChainUnavailable
from payd.core.failure import BROADCAST_FAILED, DECLINED, PAID_NOTHING, REPLACED, REVERTED, TAKEN_BACK
from payd.core.payment import Payment, PaymentFailed, WindowClosed
from payd.store.db import Database
from tests.chains.evm.ended import end, ends_s, pass_time, set_job, signed
from tests.chains.evm.scene import Scene, open_scene, two_nodes
from tests.live.anvil import Anvil, Refused
from tests.live.chain import BUYER, MERCHANT, STRANGER, account, address, calldata
from tests.live.proxy import FlakyProxy, Request, open_proxy, with_status

pytestmark = pytest.mark.real_time


# Signed, and too late.


async def test_a_window_closes_once_a_final_block_is_as_old_as_the_authorization(scene: Scene) -> None:
    payment = await signed(scene)
    await set_job(scene, payment, state="dead", left_us=1)
    await pass_time(scene, ends_s(payment) - 1)
    assert await scene.look(payment) is None
    # The next block is that old, and not final.
    await scene.chain.rpc("anvil_setNextBlockTimestamp", hex(ends_s(payment) + 100))
    await scene.watch(1)
    assert await scene.look(payment) is None
    await scene.watch(3)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_nothing_is_asked_before_that(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        payment = await signed(scene)
        await scene.watch(3)
        first.posts = second.posts = 0
        assert await scene.look(payment) is None

        assert (first.posts, second.posts) == (0, 0)


@pytest.mark.parametrize("state", ["0x" + "01".rjust(64, "0"), "0x", "junk"])
async def test_two_nodes_must_agree_that_it_was_not_used(
    realm_db: Database, anvil: Anvil, state: str
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, _, second):
        payment = await signed(scene)
        await pass_time(scene, ends_s(payment))
        second.rewrite = lambda request, result: state if request["method"] == "eth_call" else result
        assert await scene.look(payment) is None
        second.rewrite = None

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_two_nodes_must_agree_that_the_block_is_final(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await signed(scene)
        await pass_time(scene, ends_s(payment))
        first.lag = 3
        assert await scene.look(payment) is None
        first.lag = 0
        for rewrite in (other_blocks, final_later):
            first.rewrite = rewrite
            assert await scene.look(payment) is None
        first.rewrite = None

        assert isinstance(end(await scene.look(payment)), WindowClosed)


@asynccontextmanager
async def three_nodes(db: Database, anvil: Anvil) -> AsyncIterator[tuple[Scene, list[FlakyProxy]]]:
    """A scene with three nodes: two must agree, whichever they are."""
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(open_proxy(anvil)) for _ in range(3)]
        urls = [proxy.url for proxy in proxies]
        yield await stack.enter_async_context(open_scene(db, anvil, urls=urls)), proxies


@pytest.mark.parametrize("odd", [0, 1, 2])
async def test_of_three_nodes_one_that_says_otherwise_keeps_nobody_waiting(
    realm_db: Database, anvil: Anvil, odd: int
) -> None:
    async with three_nodes(realm_db, anvil) as (scene, proxies):
        payment = await signed(scene)
        await pass_time(scene, ends_s(payment))
        for lie in (used, final_later, other_blocks):
            proxies[odd].rewrite = lie
            assert isinstance(end(await scene.look(payment)), WindowClosed)
        proxies[odd - 1].rewrite = used

        assert await scene.look(payment) is None


def used(request: Request, result: Any) -> Any:
    """A node whose token says that the authorization was used or cancelled."""
    return "0x" + "01".rjust(64, "0") if request["method"] == "eth_call" else result


def final_later(request: Request, result: Any) -> Any:
    """A node that has the same blocks, and not as many of them as final."""
    if request["params"][:1] == ["finalized"]:
        return {**result, "number": hex(int(result["number"], 16) - 1)}
    return result


def other_blocks(request: Request, result: Any) -> Any:
    """A node on another branch."""
    if request["method"] == "eth_getBlockByNumber" and request["params"][0].startswith("0x"):
        return {**result, "hash": "0x" + "12" * 32}
    return result


async def test_nodes_that_do_not_answer_close_no_window(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await signed(scene)
        await pass_time(scene, ends_s(payment))
        first.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.look(payment)


async def test_a_chain_that_was_never_read_closes_no_window(scene: Scene) -> None:
    payment = await signed(scene)
    await pass_time(scene, ends_s(payment))
    await scene.db.write(lambda tx: tx.execute("DELETE FROM chain_cursors WHERE kind = 'final'"))

    assert await scene.look(payment) is None


async def test_what_landed_in_time_does_not_expire_though_its_transfer_is_not_found_yet(
    scene: Scene,
) -> None:
    payment = await signed(scene)
    await scene.relay()
    await pass_time(scene, ends_s(payment))
    await scene.db.write(lambda tx: tx.execute("DELETE FROM transfers"))

    assert await scene.look(payment) is None


# Signed, and taken back.


async def take_back(scene: Scene, payment: Payment) -> None:
    """Cancel the authorization, as its signer can."""
    nonce = authorization_nonce(payment.id)
    fields = [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]
    domain = {"name": "USD Coin", "version": "2", "chainId": 31337, "verifyingContract": scene.usdc}
    typed = {
        "types": {
            "EIP712Domain": [
                {"name": "name", "type": "string"},
                {"name": "version", "type": "string"},
                {"name": "chainId", "type": "uint256"},
                {"name": "verifyingContract", "type": "address"},
            ],
            "CancelAuthorization": fields,
        },
        "primaryType": "CancelAuthorization",
        "domain": domain,
        "message": {"authorizer": address(BUYER), "nonce": "0x" + nonce.hex()},
    }
    made = account(BUYER).sign_message(encode_typed_data(full_message=typed))
    call = calldata(
        "cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)",
        address(BUYER),
        nonce,
        made.v,
        made.r.to_bytes(32, "big"),
        made.s.to_bytes(32, "big"),
    )
    await scene.chain.done(account(STRANGER), scene.usdc, call)


async def test_a_buyer_who_takes_the_signature_back_has_declined_once_that_is_final(scene: Scene) -> None:
    payment = await signed(scene)
    await take_back(scene, payment)
    await set_job(scene, payment, state="landed", reason="somebody else brought it")
    await scene.watch(1)
    assert await scene.look(payment) is None
    await scene.watch(2)

    assert end(await scene.look(payment)) == PaymentFailed(TAKEN_BACK, DECLINED)


async def test_both_nodes_must_show_that_it_was_taken_back(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, _, second):
        payment = await signed(scene)
        await take_back(scene, payment)
        await set_job(scene, payment, state="landed")
        await scene.watch(3)
        answers: list[Callable[[Any], Any]] = [
            lambda logs: [],
            lambda logs: None,
            lambda logs: [{**log, "removed": True} for log in logs],
        ]
        for answer in answers:

            def lie(request: Request, result: Any, answer: Callable[[Any], Any] = answer) -> Any:
                return answer(result) if request["method"] == "eth_getLogs" else result

            second.rewrite = lie
            assert await scene.look(payment) is None
        second.rewrite = not_used
        assert await scene.look(payment) is None
        second.rewrite = None

        assert end(await scene.look(payment)) == PaymentFailed(TAKEN_BACK, DECLINED)


@pytest.mark.parametrize("odd", [0, 1, 2])
async def test_two_of_three_nodes_that_show_that_it_was_taken_back_are_enough(
    realm_db: Database, anvil: Anvil, odd: int
) -> None:
    async with three_nodes(realm_db, anvil) as (scene, proxies):
        payment = await signed(scene)
        await take_back(scene, payment)
        await set_job(scene, payment, state="landed")
        await scene.watch(3)
        for method, said in (("eth_getLogs", []), ("eth_call", "0x" + "00" * 32)):

            def lie(request: Request, result: Any, method: str = method, said: Any = said) -> Any:
                return said if request["method"] == method else result

            proxies[odd].rewrite = lie
            assert end(await scene.look(payment)) == PaymentFailed(TAKEN_BACK, DECLINED)


def not_used(request: Request, result: Any) -> Any:
    """A node whose token knows nothing of the authorization."""
    return "0x" + "00" * 32 if request["method"] == "eth_call" else result


@pytest.mark.parametrize("words", ["block range is too wide", "range 10000 exceeds limit of 5"])
async def test_nodes_that_give_few_blocks_at_once_are_asked_for_fewer(
    realm_db: Database, anvil: Anvil, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await signed(scene)
        await take_back(scene, payment)
        await set_job(scene, payment, state="landed")
        await scene.watch(60)

        looked_through: list[tuple[int, int]] = []

        def narrow(request: Request, result: Any) -> Any:
            if request["method"] == "eth_getLogs":
                start, last = (int(request["params"][0][end], 16) for end in ("fromBlock", "toBlock"))
                if last - start >= 5:
                    raise Refused(-32602, words)
                looked_through.append((start, last))
            return result

        first.rewrite = narrow
        assert end(await scene.look(payment)) == PaymentFailed(TAKEN_BACK, DECLINED)
        assert first.calls["eth_getLogs"] < 40
        assert all(last == above - 1 for (above, _), (_, last) in pairwise(looked_through))
        monkeypatch.setattr(evm_ending, "RANGES_MAX", 3)
        assert await scene.look(payment) is None


# Sent.


async def sent(scene: Scene, mined: bool = True) -> Payment:
    """A payment whose wallet told of a transaction that was pending then."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.chain.rpc("evm_setAutomine", False)
    payment = await scene.commit(payment, quote, await scene.send(quote))
    if mined:
        await scene.chain.mine(1)
    return payment


async def empty(scene: Scene) -> None:
    """Take the buyer's tokens away: a transfer of them is reverted."""
    move = calldata("transfer(address,uint256)", address(STRANGER), 9_990_000_000)
    await scene.chain.done(account(BUYER), scene.dai, move)


async def reverted(scene: Scene) -> Payment:
    """A payment whose wallet told of a transaction that was then mined, and reverted."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await empty(scene)
    await scene.chain.rpc("evm_setAutomine", False)
    payment = await scene.commit(payment, quote, await scene.send(quote))
    await scene.chain.mine(1)
    return payment


async def test_a_transaction_that_was_reverted_has_failed_once_that_is_final(scene: Scene) -> None:
    payment = await reverted(scene)
    await scene.watch(1)
    assert await scene.look(payment) is None
    await scene.watch(2)

    assert end(await scene.look(payment)) == PaymentFailed(REVERTED, BROADCAST_FAILED)


async def test_both_nodes_must_show_that_it_was_reverted(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await reverted(scene)
        await scene.watch(3)
        told = read_track(payment).told
        assert told is not None
        first.hidden.add(told.tx_hash)
        assert await scene.look(payment) is None
        first.hidden.clear()
        first.errors["eth_getTransactionReceipt"] = (-32000, "no")
        assert await scene.look(payment) is None
        first.errors.clear()

        assert end(await scene.look(payment)) == PaymentFailed(REVERTED, BROADCAST_FAILED)


@pytest.mark.parametrize("odd", [0, 1, 2])
async def test_two_of_three_nodes_that_show_that_it_was_reverted_are_enough(
    realm_db: Database, anvil: Anvil, odd: int
) -> None:
    async with three_nodes(realm_db, anvil) as (scene, proxies):
        payment = await reverted(scene)
        await scene.watch(3)
        proxies[odd].rewrite = with_status(1)
        assert end(await scene.look(payment)) == PaymentFailed(REVERTED, BROADCAST_FAILED)


async def test_a_node_that_lies_about_the_status_fails_no_payment(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        payment = await sent(scene)
        await scene.watch(3)
        await scene.db.write(lambda tx: tx.execute("DELETE FROM transfers"))
        assert await scene.look(payment) is None
        first.rewrite = with_status(0)
        assert await scene.look(payment) is None
        second.rewrite = with_status(0)

        # Two that lie alike are believed: nobody else can be asked.
        assert end(await scene.look(payment)) == PaymentFailed(REVERTED, BROADCAST_FAILED)


async def test_a_pending_transaction_waits_for_as_long_as_it_pends(scene: Scene) -> None:
    payment = await sent(scene, mined=False)
    told = read_track(payment).told
    assert told is not None
    raw = await scene.chain.rpc("eth_getRawTransactionByHash", told.tx_hash)
    await scene.chain.rpc("anvil_dropTransaction", told.tx_hash)
    await scene.watch(5)
    # No node has it any more, and yet its wallet may send it again.
    assert await scene.look(payment) is None
    await scene.chain.rpc("eth_sendRawTransaction", raw)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert (await scene.follow(payment)).processing is not None
    assert len(scene.told) > 0


async def replace(scene: Scene, payment: Payment, to: str, data: bytes = b"") -> None:
    """Use the nonce of a pending transaction for another one."""
    told = read_track(payment).told
    assert told is not None
    await scene.chain.send_as(account(BUYER), to, data, nonce=told.nonce, max_fee=2 * 10**11, tip=10**10)
    await scene.chain.mine(1)


async def test_a_wallet_that_uses_the_nonce_for_something_else_has_declined_once_that_is_final(
    scene: Scene,
) -> None:
    payment = await sent(scene, mined=False)
    await replace(scene, payment, address(BUYER))
    await scene.watch(1)
    assert await scene.look(payment) is None
    await scene.watch(2)

    assert end(await scene.look(payment)) == PaymentFailed(REPLACED, DECLINED)


async def test_a_wallet_that_sends_the_same_again_for_more_gas_has_paid(scene: Scene) -> None:
    payment = await sent(scene, mined=False)
    told = read_track(payment).told
    assert told is not None
    [shown] = [await scene.chain.rpc("eth_getTransactionByHash", told.tx_hash)]
    await replace(scene, payment, shown["to"], bytes.fromhex(shown["input"][2:]))
    await scene.watch(3)
    payment = await scene.follow(payment)

    assert payment.settled is not None
    assert payment.success is not None
    assert payment.success.tx_id != told.tx_hash


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("eth_getTransactionCount", (-32000, "missing trie node")),
        ("eth_getTransactionCount", (-32000, "no")),
        ("eth_getTransactionByHash", (-32000, "no")),
    ],
)
async def test_a_node_that_does_not_know_its_own_history_fails_nobody(
    realm_db: Database, anvil: Anvil, method: str, error: tuple[int, str]
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, _, second):
        payment = await sent(scene, mined=False)
        await replace(scene, payment, address(BUYER))
        await scene.watch(3)
        second.errors[method] = error
        assert await scene.look(payment) is None
        second.errors.clear()

        assert end(await scene.look(payment)) == PaymentFailed(REPLACED, DECLINED)


async def test_a_node_whose_count_is_behind_fails_nobody(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await sent(scene, mined=False)
        await replace(scene, payment, address(BUYER))
        await scene.watch(3)
        told = read_track(payment).told
        assert told is not None
        assert told.nonce is not None
        behind = hex(told.nonce)
        first.rewrite = lambda request, result: (
            behind if request["method"] == "eth_getTransactionCount" else result
        )

        assert await scene.look(payment) is None


async def test_a_transaction_that_a_block_has_is_not_replaced_where_its_receipt_is_missing(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, *nodes):
        payment = await sent(scene)
        await scene.watch(3)
        await scene.db.write(lambda tx: tx.execute("DELETE FROM transfers"))
        for node in nodes:
            node.rewrite = lambda request, result: (
                None if request["method"] == "eth_getTransactionReceipt" else result
            )

        assert await scene.look(payment) is None


async def test_a_call_that_failed_inside_of_one_that_did_not_paid_nothing(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    asked = read_actions(quote.actions)
    assert isinstance(asked, Sending)
    await scene.chain.rpc("evm_setAutomine", False)
    call = aggregate3_call([Call(scene.dai, asked.data)])
    tx_hash = await scene.chain.send_as(account(STRANGER), MULTICALL3, call)
    payment = await scene.commit(payment, quote, tx_hash)
    await scene.watch(1)
    assert await scene.look(payment) is None
    await scene.watch(3)

    assert end(await scene.look(payment)) == PaymentFailed(PAID_NOTHING, BROADCAST_FAILED)


async def test_a_wrapped_transaction_that_was_replaced_may_come_again_by_another(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    await scene.chain.mint(scene.dai, wallet, 25_000_000)
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset, buyer=wallet)
    asked = read_actions(quote.actions)
    assert isinstance(asked, Sending)
    await scene.chain.rpc("evm_setAutomine", False)
    wrapped = calldata("execute(address,uint256,bytes)", scene.dai, 0, asked.data)
    nonce = int(await scene.chain.rpc("eth_getTransactionCount", address(BUYER), "latest"), 16)
    tx_hash = await scene.chain.send_as(account(BUYER), wallet, wrapped, nonce=nonce)
    payment = await scene.commit(payment, quote, tx_hash)
    await scene.chain.send_as(account(BUYER), address(MERCHANT), nonce=nonce, max_fee=2 * 10**11, tip=10**10)
    await scene.watch(5)

    assert await scene.look(payment) is None
