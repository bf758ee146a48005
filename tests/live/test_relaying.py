"""The relayer against everybody else: strangers who are faster, pools that forget, gas that runs out.

A signed payment that is processing lands in the end, once, or is over when nothing of it can land any more.
The node mines only when a test says so, and time goes by when a test says so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.actors.relay_stats import RelayerStats
from payd.actors.relayer import Relayer
from payd.chains.evm.authorization import read_typed_data, transfer_with_authorization_call
from payd.chains.evm.ways import AUTHORIZATION_GRACE_S
from tests.live.chain import (
    BUYER,
    BUYER_2,
    FIRST_CONTRACT,
    MERCHANT,
    RELAYER,
    STRANGER,
    URGENT,
    LocalChain,
    account,
    address,
    calldata,
)
from tests.live.conformance import ALL_EVENTS
from tests.live.street import MINTED, USDC, Street, furnish_chain, open_street

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
SIGN, SEND = "eth_signTypedData_v4", "eth_sendTransaction"
TRANSFER = "transfer(address,uint256)"


@pytest.fixture
async def street(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Street]:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain) as opened:
        await chain.rpc("evm_setAutomine", False)
        yield opened


def relayer(street: Street) -> Relayer:
    [live] = street.house.realms["live"].live_chains
    assert isinstance(live.relayer, Relayer)
    return live.relayer


async def pool(street: Street, place: int = RELAYER) -> dict[str, Any]:
    """What the node keeps of an account's transactions, by nonce."""
    content = await street.chain.rpc("txpool_content")
    pending = {key.lower(): value for key, value in content["pending"].items()}
    return dict(pending.get(address(place).lower(), {}))


async def sent_by(street: Street, besides: str = "", place: int = RELAYER) -> dict[str, Any]:
    """The account's transaction, once the node has one that is not `besides`."""

    async def there() -> Any:
        found = [one for one in (await pool(street, place)).values() if one["hash"] != besides]
        return found[0] if found else None

    found: dict[str, Any] = await street.wait_for(there)
    return found


async def until_stats(street: Street, wanted: Any, *, mining: bool = False) -> RelayerStats:
    """Wait until the relayer stands so."""

    async def reached() -> RelayerStats | None:
        stats = relayer(street).stats()
        return stats if wanted(stats) else None

    found: RelayerStats = await street.wait_for(reached, mining=mining)
    return found


async def signed_payment(street: Street) -> tuple[str, bytes]:
    """A payment whose signature payd has accepted, and the call that whoever has it can make."""
    payment_id = await street.payment()
    option = await street.option(payment_id)
    [signature] = await street.execute(option)
    told = await street.confirm(payment_id, option, signature)
    assert (told.status_code, told.json()["status"]) == (200, "processing"), told.text
    asked = read_typed_data(json.loads(json.loads(option["actions"][0]["params"])[1]))
    return payment_id, transfer_with_authorization_call(asked, bytes.fromhex(signature.removeprefix("0x")))


async def settles_once(street: Street, payment_id: str) -> str:
    """It goes its way to the end with one transfer, whose transaction this is."""
    await street.until(payment_id, "settled", mining=True)
    assert await street.events(payment_id) == ALL_EVENTS
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert (transfer["kind"], transfer["amount"]["value"]) == ("matched", str(AMOUNT))
    assert await street.chain.balance(FIRST_CONTRACT, address(MERCHANT)) == AMOUNT
    return str(transfer["txId"])


async def nonce_of_relayer(street: Street) -> int:
    return int(await street.chain.rpc("eth_getTransactionCount", address(RELAYER), "latest"), 16)


async def test_a_stranger_who_is_faster_makes_ours_fail_and_the_payment_succeed(street: Street) -> None:
    payment_id, call = await signed_payment(street)
    ours = await sent_by(street)
    theirs = await street.chain.send_as(account(STRANGER), FIRST_CONTRACT, call, **URGENT)

    assert await settles_once(street, payment_id) == theirs

    assert (await street.chain.receipt(ours["hash"]))["status"] == "0x0"
    stats = await until_stats(street, lambda stats: stats.in_flight == 0, mining=True)
    assert (stats.reverts, stats.queued) == (1, 0)
    await street.later(120)
    await until_stats(street, lambda stats: stats.in_flight == stats.queued == 0)
    assert await nonce_of_relayer(street) == 1


async def test_what_a_stranger_brought_is_never_sent(street: Street) -> None:
    await street.chain.rpc("anvil_setBalance", address(RELAYER), "0x0")
    payment_id, call = await signed_payment(street)
    theirs = await street.chain.send_as(account(STRANGER), FIRST_CONTRACT, call)
    await street.chain.mine()
    await street.chain.rpc("anvil_setBalance", address(RELAYER), hex(10**18))

    assert await settles_once(street, payment_id) == theirs

    await until_stats(street, lambda stats: stats.queued == 0, mining=True)
    assert await nonce_of_relayer(street) == 0


async def test_a_transaction_that_gas_has_outrun_is_paid_better_and_mined(street: Street) -> None:
    payment_id, _ = await signed_payment(street)
    first = await sent_by(street)
    await street.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(20 * 10**9))
    await street.later(20)

    second = await sent_by(street, besides=first["hash"])

    assert (second["nonce"], second["input"]) == (first["nonce"], first["input"])
    assert int(second["maxFeePerGas"], 16) > 20 * 10**9 > int(first["maxFeePerGas"], 16)
    assert await settles_once(street, payment_id) == second["hash"]
    assert relayer(street).stats().bumps >= 1


async def test_a_nonce_that_another_process_used_is_let_go_and_the_payment_sent_anew(street: Street) -> None:
    payment_id, _ = await signed_payment(street)
    ours = await sent_by(street)
    await street.chain.send_as(account(RELAYER), address(STRANGER), nonce=int(ours["nonce"], 16), **URGENT)
    await street.chain.mine()

    async def is_let_go() -> bool:
        await street.later(20)
        return relayer(street).stats().lost == 1

    await street.wait_for(is_let_go)

    landed = await settles_once(street, payment_id)

    transaction = await street.chain.rpc("eth_getTransactionByHash", landed)
    assert int(transaction["nonce"], 16) == int(ours["nonce"], 16) + 1


async def test_what_a_pool_has_dropped_is_sent_again(tmp_path: Path, chain: LocalChain) -> None:
    """The first offer is the most that the relayer may make, so that none follows that is better."""
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain, lines='depth = 2\nmax_fee_gwei = "1.5"') as street:
        await chain.rpc("evm_setAutomine", False)
        payment_id, _ = await signed_payment(street)
        ours = await sent_by(street)
        await street.chain.rpc("anvil_dropTransaction", ours["hash"])
        assert await pool(street) == {}
        await street.later(26)

        landed = await settles_once(street, payment_id)

        assert landed == ours["hash"]


async def move_away(street: Street) -> None:
    """The buyer's tokens go in the block that the relayer's transaction is in, before it."""
    data = calldata(TRANSFER, address(BUYER_2), MINTED)
    await street.chain.send_as(account(BUYER), FIRST_CONTRACT, data, **URGENT)
    await street.chain.mine()


async def test_funds_that_are_gone_and_come_back_pay(street: Street) -> None:
    payment_id, _ = await signed_payment(street)
    ours = await sent_by(street)
    await move_away(street)
    assert (await street.chain.receipt(ours["hash"]))["status"] == "0x0"
    await until_stats(street, lambda stats: stats.queued == 1, mining=True)
    assert await street.status(payment_id) == "processing"

    await street.chain.send_as(
        account(BUYER_2), FIRST_CONTRACT, calldata(TRANSFER, address(BUYER), AMOUNT), **URGENT
    )
    await street.later(61)

    assert await settles_once(street, payment_id) != ours["hash"]


async def over(street: Street, payment_id: str) -> str:
    """How it ends, minute by minute: unproven ends are looked at again that often."""

    async def ended() -> str | None:
        await street.later(61)
        status = await street.status(payment_id)
        return None if status == "processing" else status

    return str(await street.wait_for(ended))


async def test_funds_that_never_come_back_end_the_payment_when_the_signature_has_ended(
    street: Street,
) -> None:
    payment_id, _ = await signed_payment(street)
    await sent_by(street)
    await move_away(street)
    await until_stats(street, lambda stats: stats.queued == 1, mining=True)
    ends_s = (await street.detail(payment_id))["expiresAt"] + AUTHORIZATION_GRACE_S
    await street.later(ends_s - await street.chain.now_s() + 120)
    await street.caught_up()
    with trio.move_on_after(0.5):
        await street.until(payment_id, "failed", "expired")
        pytest.fail("that block is not final")

    assert await over(street, payment_id) == "expired"

    assert await street.events(payment_id) == ["payment.created", "payment.processing", "payment.expired"]
    assert await street.chain.now_s() > ends_s
    finalized = await street.chain.rpc("eth_getBlockByNumber", "finalized", False)
    assert int(finalized["timestamp"], 16) >= ends_s


async def test_a_relayer_without_gas_money_keeps_what_was_accepted_and_takes_no_more(street: Street) -> None:
    await street.chain.rpc("anvil_setBalance", address(RELAYER), "0x0")
    payment_id, _ = await signed_payment(street)
    await until_stats(street, lambda stats: "balance_empty" in stats.alarms, mining=True)

    assert relayer(street).stats().queued == 1
    assert await street.status(payment_id) == "processing"
    other = await street.option(await street.payment())
    assert [one["method"] for one in other["actions"]] == [SEND]

    await street.chain.rpc("anvil_setBalance", address(RELAYER), hex(10**18))
    await settles_once(street, payment_id)
    await until_stats(street, lambda stats: not stats.alarms, mining=True)
    again = await street.option(await street.payment())
    assert [one["method"] for one in again["actions"]] == [SIGN]


async def way(street: Street, payment_id: str, place: int = BUYER) -> str:
    """What the option in the token asks of an account."""
    [action] = (await street.option(payment_id, USDC, place))["actions"]
    return str(action["method"])


async def test_past_a_buyers_share_the_buyer_sends_and_others_sign(tmp_path: Path, chain: LocalChain) -> None:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain, relays="1") as street:
        first, second = await street.payment(), await street.payment()
        assert await way(street, first) == SIGN
        await street.pay(first)

        assert (await way(street, second), await way(street, second, BUYER_2)) == (SEND, SIGN)

        await street.pay(second)
        for payment_id in (first, second):
            await street.until(payment_id, "settled", mining=True)


async def test_past_a_days_budget_everybody_sends(tmp_path: Path, chain: LocalChain) -> None:
    await furnish_chain(chain)
    budget = 'depth = 2\ngas_per_day = "0.0004"'
    async with open_street(tmp_path / "house", chain, lines=budget) as street:
        carried = 0
        while await way(street, payment_id := await street.payment()) == SIGN:
            carried += 1
            await street.pay(payment_id)
            await street.until(payment_id, "settled", mining=True)
            await until_stats(street, lambda stats: stats.in_flight == stats.queued == 0)

        assert 1 <= carried <= 5
        assert relayer(street).stats().spent_today <= 4 * 10**14
        assert await way(street, payment_id, BUYER_2) == SEND
        await street.pay(payment_id)
        await street.until(payment_id, "settled", mining=True)
