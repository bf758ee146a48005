"""The node that Solana is tested on answers as those tests need it, and misbehaves as it is told."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from payd.chains.solana.keys import CLOCK, TOKEN, TOKEN_2022, token_account
from tests.live.node_process import Refused
from tests.live.solana import (
    BUYER,
    BUYER_2,
    LAMPORTS,
    MERCHANT,
    PYUSD_MINT,
    STRANGER,
    USDC_MINT,
    LocalSolana,
    close_holding,
    create_holding,
    furnish_solana,
    hand_over,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.svm_methods import SvmNode

LEVELS = ("processed", "confirmed", "finalized")


@pytest.fixture
def node() -> SvmNode:
    """One without a port; what has four blocks on top is final."""
    return SvmNode(finalized=4)


@pytest.fixture
async def solana(node: SvmNode) -> LocalSolana:
    """What can be done on it."""
    local = LocalSolana(node)
    await furnish_solana(local)
    return local


async def pay(solana: LocalSolana, amount: int = 25, *more: Any) -> str:
    """A transfer of USDC from the buyer to the merchant, which landed."""
    instructions = [*more, pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, amount)]
    return await solana.send(instructions, keypair(BUYER))


async def listed(solana: LocalSolana, key: Pubkey, **asked: Any) -> list[str]:
    found = await solana.rpc("getSignaturesForAddress", str(key), {"commitment": "confirmed", **asked})
    return [one["signature"] for one in found]


async def merchants(solana: LocalSolana) -> list[int]:
    """What the merchant has in USDC, by commitment."""
    return [await solana.tokens(pubkey(MERCHANT), USDC_MINT, commitment=level) for level in LEVELS]


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


async def test_a_transaction_is_shown_once_it_is_confirmed_with_what_it_changed(solana: LocalSolana) -> None:
    tx_id = await pay(solana, 25, memo("order 1"))
    assert await solana.landed(tx_id) is None
    assert await listed(solana, pubkey(MERCHANT)) == []
    await solana.slots(1)

    found = await solana.landed(tx_id)
    [entry] = await solana.rpc("getSignaturesForAddress", str(pubkey(BUYER)), {"commitment": "confirmed"})

    assert found is not None
    meta = found["meta"]
    change = [
        int(after["uiTokenAmount"]["amount"]) - int(before["uiTokenAmount"]["amount"])
        for before, after in zip(meta["preTokenBalances"], meta["postTokenBalances"], strict=True)
    ]
    assert sorted(change) == [-25, 25]
    assert meta["preBalances"][0] - meta["postBalances"][0] == meta["fee"] == 5000
    assert (entry["signature"], entry["memo"], entry["slot"]) == (tx_id, "[7] order 1", found["slot"])
    assert await solana.landed(tx_id, "finalized") is None
    with pytest.raises(Refused, match="below `confirmed`"):
        await solana.landed(tx_id, "processed")


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


async def test_a_node_that_is_behind_the_asked_slot_says_so(solana: LocalSolana) -> None:
    slot = await solana.rpc("getSlot", {"commitment": "confirmed"})
    with pytest.raises(Refused) as refused:
        await solana.rpc("getSlot", {"commitment": "confirmed", "minContextSlot": slot + 1})

    assert (refused.value.code, refused.value.data) == (-32016, {"contextSlot": slot})
    assert await solana.rpc("getSlot", {"commitment": "confirmed", "minContextSlot": slot}) == slot


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


async def test_a_simulation_changes_nothing_and_tells_what_would(solana: LocalSolana) -> None:
    instruction = pay_sol(pubkey(BUYER), pubkey(STRANGER), LAMPORTS)
    raw = await solana.signed([instruction], keypair(BUYER), blockhash=str(Pubkey.default()))
    asked: dict[str, Any] = {"encoding": "base64", "commitment": "confirmed"}
    text = base64.b64encode(raw).decode()
    old = (await solana.rpc("simulateTransaction", text, asked))["value"]
    asked |= {"replaceRecentBlockhash": True}
    asked |= {"accounts": {"encoding": "base64", "addresses": [str(pubkey(STRANGER))]}}
    fresh = (await solana.rpc("simulateTransaction", text, asked))["value"]

    assert old["err"] == "BlockhashNotFound"
    assert (fresh["err"], fresh["accounts"][0]["lamports"]) == (None, LAMPORTS)
    assert await solana.lamports(pubkey(STRANGER)) == 0
    with pytest.raises(Refused, match="may not be used"):
        await solana.rpc("simulateTransaction", text, {**asked, "sigVerify": True})


async def test_a_simulation_leaves_time_for_the_way_and_judges_by_the_block_that_was_asked(
    solana: LocalSolana,
) -> None:
    raw = await solana.signed([memo("hello")], keypair(BUYER))
    text = base64.b64encode(raw).decode()

    async def tried(commitment: str) -> Any:
        asked = {"encoding": "base64", "commitment": commitment, "sigVerify": True}
        return (await solana.rpc("simulateTransaction", text, asked))["value"]["err"]

    # A blockhash of a confirmed block is one that a final one does not know yet.
    assert [await tried(level) for level in LEVELS] == [None, None, "BlockhashNotFound"]
    await solana.slots(143)
    assert await tried("processed") is None
    await solana.slots(1)
    assert await tried("processed") == "BlockhashNotFound"
    assert await solana.status(await solana.send_raw(raw)) is not None


async def test_a_simulation_tells_of_a_signature_that_is_not_there(solana: LocalSolana) -> None:
    raw = await solana.signed([pay_sol(pubkey(BUYER), pubkey(STRANGER), LAMPORTS)], keypair(BUYER))
    text = base64.b64encode(raw[:1] + bytes(64) + raw[65:]).decode()
    asked = {"encoding": "base64", "commitment": "confirmed"}

    assert (await solana.rpc("simulateTransaction", text, asked))["value"]["err"] is None
    signed = (await solana.rpc("simulateTransaction", text, {**asked, "sigVerify": True}))["value"]
    assert (signed["err"], signed["logs"]) == ("SignatureFailure", [])


@pytest.mark.parametrize(
    ("instructions", "fee"),
    [
        ([memo("x")], 5000),
        ([set_compute_unit_limit(100_000), set_compute_unit_price(1_000_000), memo("x")], 105_000),
        ([set_compute_unit_limit(100_000), set_compute_unit_price(1), memo("x")], 5001),
        ([set_compute_unit_price(1_000_000)], 8000),
    ],
)
async def test_a_fee_is_told_as_the_chain_takes_it(
    solana: LocalSolana, instructions: list[Instruction], fee: int
) -> None:
    raw = await solana.signed(instructions, keypair(BUYER))
    text = base64.b64encode(raw[65:]).decode()
    told = await solana.rpc("getFeeForMessage", text, {"commitment": "confirmed"})
    await solana.send_raw(raw)

    assert told["value"] == fee
    assert await solana.lamports(pubkey(BUYER)) == 10 * LAMPORTS - fee


async def test_a_failure_is_told_the_same_by_simulation_and_chain(solana: LocalSolana) -> None:
    instruction = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 10**15)
    raw = await solana.signed([instruction], keypair(BUYER))
    with pytest.raises(Refused, match=r"Instruction 0: custom program error: 0x1") as refused:
        await solana.send_raw(raw, skip_preflight=False)
    tx_id = await solana.send_raw(raw)
    await solana.slots(1)
    found = await solana.landed(tx_id)

    assert found is not None
    expected = {"InstructionError": [0, {"Custom": 1}]}
    assert found["meta"]["err"] == refused.value.data["err"] == expected  # type: ignore[index]
    assert await solana.lamports(pubkey(BUYER)) == 10 * LAMPORTS - 5000


async def test_who_cannot_pay_the_fee_lands_nothing(solana: LocalSolana) -> None:
    raw = await solana.signed([memo("hello")], keypair(STRANGER))
    with pytest.raises(Refused, match="no record of a prior credit"):
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


async def test_a_black_hole_and_a_censor_take_what_never_lands(node: SvmNode, solana: LocalSolana) -> None:
    raw = await solana.signed([pay_sol(pubkey(BUYER), pubkey(STRANGER), LAMPORTS)], keypair(BUYER))
    await solana.rpc("payd_mode", "blackhole")
    tx_id = await solana.send_raw(raw)
    await solana.rpc("payd_mode", "normal")
    assert await solana.status(tx_id) is None
    node.censored.add(pubkey(STRANGER))
    await solana.send_raw(raw)
    assert await solana.status(tx_id) is None
    node.censored.clear()
    await solana.send_raw(raw)
    assert await solana.status(tx_id) is not None


async def test_a_node_can_forget_a_transaction_that_stays_done(node: SvmNode, solana: LocalSolana) -> None:
    tx_id = await pay(solana)
    await solana.slots(1)
    node.forgotten.add(tx_id)

    assert await solana.status(tx_id) is None
    assert await solana.landed(tx_id) is None
    assert await listed(solana, pubkey(BUYER)) == []
    assert (await merchants(solana))[0] == 25


async def test_an_index_may_lag_behind_what_is_confirmed(node: SvmNode, solana: LocalSolana) -> None:
    node.index_lag = 3
    tx_id = await pay(solana)
    await solana.slots(2)
    assert await solana.landed(tx_id) is not None
    assert await listed(solana, pubkey(BUYER)) == []
    await solana.slots(1)
    assert await listed(solana, pubkey(BUYER)) == [tx_id]


async def test_two_nodes_of_a_chain_see_it_as_far_as_they_are(node: SvmNode, solana: LocalSolana) -> None:
    behind = LocalSolana(SvmNode(node.ledger))
    assert isinstance(behind.node, SvmNode)
    behind.node.lag = 2
    tx_id = await pay(solana)
    blockhash = (await solana.rpc("getLatestBlockhash", {"commitment": "processed"}))["value"]["blockhash"]
    await solana.slots(1)
    assert await behind.status(tx_id) is None
    assert await behind.tokens(pubkey(MERCHANT), USDC_MINT) == 0
    asked = {"commitment": "processed"}
    assert (await behind.rpc("isBlockhashValid", blockhash, asked))["value"] is False

    await solana.slots(1)

    assert await behind.tokens(pubkey(MERCHANT), USDC_MINT) == 25
    levels = [await one.status(tx_id) for one in (solana, behind)]
    assert [one and one["confirmationStatus"] for one in levels] == ["confirmed", "processed"]


async def test_a_listing_is_paged_by_signatures_that_are_known(solana: LocalSolana) -> None:
    sent = [await pay(solana, amount) for amount in (1, 2, 3, 4)]
    await solana.slots(1)
    key = token_account(pubkey(MERCHANT), USDC_MINT, TOKEN)

    assert await listed(solana, key) == sent[::-1]
    assert await listed(solana, key, limit=2) == [sent[3], sent[2]]
    assert await listed(solana, key, before=sent[2], limit=1) == [sent[1]]
    assert await listed(solana, key, until=sent[1]) == [sent[3], sent[2]]
    unknown = tx_id_of(bytes(65))
    with pytest.raises(Refused, match="not found") as refused:
        await listed(solana, key, until=unknown)
    assert refused.value.code == -32020


async def test_old_statuses_are_told_to_who_asks_for_the_history(solana: LocalSolana) -> None:
    tx_id = await pay(solana)
    await solana.slots(151)

    assert (await solana.rpc("getSignatureStatuses", [tx_id]))["value"] == [None]
    status = await solana.status(tx_id)
    assert status is not None
    assert status["confirmations"] is None


async def test_an_airdrop_is_a_transaction(solana: LocalSolana) -> None:
    sent = [await solana.airdrop(pubkey(STRANGER), LAMPORTS) for _ in range(2)]
    await solana.slots(1)

    assert await listed(solana, pubkey(STRANGER)) == sent[::-1]
    assert await solana.lamports(pubkey(STRANGER)) == 2 * LAMPORTS


async def test_holdings_are_found_by_owner(solana: LocalSolana) -> None:
    asked = {"encoding": "jsonParsed", "commitment": "confirmed"}
    which = {"mint": str(USDC_MINT)}
    found = await solana.rpc("getTokenAccountsByOwner", str(pubkey(BUYER_2)), which, asked)

    [one] = found["value"]
    assert one["pubkey"] == str(token_account(pubkey(BUYER_2), USDC_MINT, TOKEN))
    assert one["account"]["data"]["parsed"]["info"]["tokenAmount"]["uiAmountString"] == "10000"
