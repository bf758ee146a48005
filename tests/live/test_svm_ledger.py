"""The chain of the node that Solana is tested on: commitments, blockhashes, forks, and what lands."""

from __future__ import annotations

import base64
import struct

import pytest
from solders.pubkey import Pubkey

from payd.chains.solana.keys import CLOCK, TOKEN, TOKEN_2022, token_account
from tests.live.node_process import Refused
from tests.live.solana import (
    BUYER,
    LAMPORTS,
    MERCHANT,
    PYUSD_MINT,
    STRANGER,
    USDC_MINT,
    LocalSolana,
    close_holding,
    create_holding,
    hand_over,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.svm_methods import SvmNode
from tests.live.svm_sale import LEVELS, listed, merchants, pay


async def test_each_commitment_has_its_own_past(solana: LocalSolana) -> None:
    tx_id = await pay(solana)
    seen = []
    for _ in range(5):
        status = await solana.status(tx_id)
        seen.append((status and status["confirmationStatus"], *await merchants(solana)))
        await solana.slots(1)

    assert seen == [
        ("processed", 25, 0, 0),
        ("confirmed", 25, 25, 0),
        ("confirmed", 25, 25, 0),
        ("confirmed", 25, 25, 0),
        ("finalized", 25, 25, 25),
    ]


async def test_the_clock_of_a_commitment_goes_with_its_slot(solana: LocalSolana) -> None:
    await solana.rpc("payd_time", 3600)
    seen = []
    for level in LEVELS:
        asked = {"encoding": "base64", "commitment": level}
        found = await solana.rpc("getMultipleAccounts", [str(CLOCK)], asked)
        data = base64.b64decode(found["value"][0]["data"][0])
        slot, _, _, _, time_s = struct.unpack("<QqQQq", data)
        assert slot == found["context"]["slot"]
        assert await solana.rpc("getBlockTime", slot) == time_s
        seen.append(time_s)

    assert seen[0] - seen[1] >= 3600
    assert seen[1] - seen[2] <= 60


async def test_a_height_is_no_slot(solana: LocalSolana) -> None:
    async def now() -> tuple[int, int]:
        asked = {"commitment": "processed"}
        return await solana.rpc("getSlot", asked), await solana.rpc("getBlockHeight", asked)

    slot, height = await now()
    assert slot != height
    await solana.rpc("payd_skip", 10)
    assert await now() == (slot + 11, height + 1)


async def test_a_blockhash_lets_transactions_in_for_150_blocks(solana: LocalSolana) -> None:
    asked = {"commitment": "processed"}
    found = (await solana.rpc("getLatestBlockhash", asked))["value"]
    instruction = pay_sol(pubkey(BUYER), pubkey(STRANGER), LAMPORTS)
    raw = await solana.signed([instruction], keypair(BUYER), blockhash=found["blockhash"])
    await solana.slots(found["lastValidBlockHeight"] - await solana.rpc("getBlockHeight", asked))
    assert (await solana.rpc("isBlockhashValid", found["blockhash"], asked))["value"] is True
    await solana.slots(1)
    assert (await solana.rpc("isBlockhashValid", found["blockhash"], asked))["value"] is False

    tx_id = await solana.send_raw(raw)
    with pytest.raises(Refused, match="Blockhash not found") as refused:
        await solana.send_raw(raw, skip_preflight=False)

    assert refused.value.code == -32002
    assert await solana.status(tx_id) is None


async def test_what_is_sent_twice_lands_once(solana: LocalSolana) -> None:
    instruction = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 25)
    raw = await solana.signed([instruction], keypair(BUYER))
    assert [await solana.send_raw(raw) for _ in range(2)] == [tx_id_of(raw)] * 2

    assert (await merchants(solana))[0] == 25
    with pytest.raises(Refused, match="already been processed"):
        await solana.send_raw(raw, skip_preflight=False)


async def test_a_signature_that_is_missing_or_wrong_lands_nothing(solana: LocalSolana) -> None:
    instruction = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 25)
    raw = await solana.signed([instruction], keypair(BUYER))
    for bad in (bytes(64), bytes(keypair(STRANGER).sign_message(b"another"))):
        with pytest.raises(Refused) as refused:
            await solana.send_raw(raw[:1] + bad + raw[65:], skip_preflight=False)
        assert refused.value.code == -32003
        await solana.send_raw(raw[:1] + bad + raw[65:])

    assert (await merchants(solana))[0] == 0


async def test_who_cannot_pay_the_fee_lands_nothing(solana: LocalSolana) -> None:
    raw = await solana.signed([memo("hello")], keypair(STRANGER))
    with pytest.raises(Refused, match="AccountNotFound"):
        await solana.send_raw(raw, skip_preflight=False)

    assert await solana.status(await solana.send_raw(raw)) is None


async def test_an_account_comes_to_be_changes_hands_and_is_closed(solana: LocalSolana) -> None:
    buyer, merchant, stranger = pubkey(BUYER), pubkey(MERCHANT), pubkey(STRANGER)
    made = create_holding(buyer, stranger, USDC_MINT)
    await solana.send([made, pay_token(buyer, stranger, USDC_MINT, 7)], keypair(BUYER))
    assert await solana.tokens(stranger, USDC_MINT) == 7

    for place in (STRANGER, MERCHANT):
        await solana.fund(pubkey(place))
    await solana.send([hand_over(stranger, USDC_MINT, merchant)], keypair(STRANGER))
    await solana.send([close_holding(merchant, USDC_MINT)], keypair(MERCHANT))

    kept = base64.b64decode(await raw_account(solana, token_account(stranger, USDC_MINT, TOKEN)))
    assert Pubkey(kept[32:64]) == merchant
    assert await raw_account(solana, token_account(merchant, USDC_MINT, TOKEN)) == ""


async def test_the_associated_account_of_a_newer_token_never_changes_hands(solana: LocalSolana) -> None:
    made = create_holding(pubkey(BUYER), pubkey(STRANGER), PYUSD_MINT, TOKEN_2022)
    await solana.send([made], keypair(BUYER))
    await solana.fund(pubkey(STRANGER))

    with pytest.raises(Refused, match="0x22"):
        await solana.send(
            [hand_over(pubkey(STRANGER), PYUSD_MINT, pubkey(MERCHANT), TOKEN_2022)], keypair(STRANGER)
        )


async def raw_account(solana: LocalSolana, key: Pubkey) -> str:
    asked = {"encoding": "base64", "commitment": "processed"}
    found = (await solana.rpc("getAccountInfo", str(key), asked))["value"]
    return "" if found is None else str(found["data"][0])


async def test_a_fork_gives_back_what_its_transactions_moved(node: SvmNode, solana: LocalSolana) -> None:
    kept = await pay(solana, 1)
    await solana.slots(1)
    lost = await pay(solana, 25)
    await solana.slots(1)
    assert await merchants(solana) == [26, 26, 0]

    assert await solana.rpc("payd_fork", 2) == [lost]

    assert (await merchants(solana))[:2] == [1, 1]
    assert await solana.status(lost) is None
    assert await listed(solana, pubkey(BUYER)) == [kept]


async def test_a_blockhash_of_a_fork_that_lost_lets_nothing_in(solana: LocalSolana) -> None:
    blockhash = (await solana.rpc("getLatestBlockhash", {"commitment": "processed"}))["value"]["blockhash"]
    raw = await solana.signed([memo("hello")], keypair(BUYER), blockhash=blockhash)
    await solana.rpc("payd_fork", 1)

    assert await solana.status(await solana.send_raw(raw)) is None


@pytest.mark.parametrize("after", [1, 3])
async def test_what_is_dropped_leaves_and_can_land_again(solana: LocalSolana, after: int) -> None:
    raw = await solana.signed([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 25)], keypair(BUYER))
    await solana.rpc("payd_mode", "drop", after)
    tx_id = await solana.send_raw(raw)
    await solana.rpc("payd_mode", "normal")
    other = await pay(solana, 3)
    await solana.slots(after - 1)
    assert await solana.status(tx_id) is not None
    await solana.slots(1)

    assert await solana.status(tx_id) is None
    assert await solana.status(other) is not None
    assert (await merchants(solana))[0] == 3
    await solana.send_raw(raw)
    assert (await merchants(solana))[0] == 28


async def test_an_airdrop_is_a_transaction(solana: LocalSolana) -> None:
    sent = [await solana.airdrop(pubkey(STRANGER), LAMPORTS) for _ in range(2)]
    await solana.slots(1)

    assert await listed(solana, pubkey(STRANGER)) == sent[::-1]
    assert await solana.lamports(pubkey(STRANGER)) == 2 * LAMPORTS
