"""A transaction that a merchant names, on a real node: what it comes to, and that nobody loses by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from payd.chains.evm.binding import payment_tag, tagged_transfer, transfer_call
from payd.web.commands import run_command
from tests.live.chain import BUYER, MERCHANT, MERCHANT_2, STRANGER, LocalChain, account, address
from tests.live.street import CHAIN, DAI, SECOND_CONTRACT, Street, furnish_chain, open_street

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000


async def by_hand(street: Street, value: int = AMOUNT, to: int = MERCHANT, tag: bytes = b"") -> str:
    """A transfer that a buyer sends, mined; without a tag nothing binds it."""
    data = tagged_transfer(address(to), value, tag) if tag else transfer_call(address(to), value)
    receipt = await street.chain.done(account(BUYER), SECOND_CONTRACT, data)
    return str(receipt["transactionHash"])


async def match(street: Street, payment_id: str, tx_id: str, **more: Any) -> httpx.Response:
    return await street.call("POST", f"/v1/payments/{payment_id}/match", {"txId": tx_id}, **more)


async def outcome(street: Street, payment_id: str, tx_id: str) -> tuple[str, list[tuple[str, str | None]]]:
    """What came of it, with the kinds and the payments of the transfers."""
    found = await match(street, payment_id, tx_id)
    assert found.status_code == 200, found.text
    told = found.json()["match"]
    return told["outcome"], [(one["kind"], one["paymentId"]) for one in told["transfers"]]


async def offered(street: Street, **more: Any) -> str:
    """A payment that was offered to the buyer."""
    payment_id = await street.payment(**more)
    await street.option(payment_id, DAI)
    return payment_id


async def do(street: Street, command: str, **args: Any) -> Any:
    """A command of the operator."""
    named = args if command == "account.create" else {"mode": "live", **args}
    return msgspec.to_builtins(await run_command(street.house, command, msgspec.json.encode(named)))


@pytest.mark.parametrize(("value", "kind"), [(AMOUNT - 1, "partial"), (AMOUNT + 1, "surplus")])
async def test_a_wrong_amount_is_shown_with_the_payment_and_pays_nothing(
    street: Street, value: int, kind: str
) -> None:
    payment_id = await offered(street)
    tx_id = await by_hand(street, value)

    assert await outcome(street, payment_id, tx_id) == ("recorded", [(kind, payment_id)])

    detail = await street.detail(payment_id)
    assert detail["status"] == "requires_action"
    [transfer] = detail["transfers"]
    receipt = await street.chain.receipt(tx_id)
    assert (transfer["kind"], transfer["txId"], transfer["onChain"]) == (kind, tx_id, True)
    assert transfer["blockNumber"] == int(receipt["blockNumber"], 16)


async def test_a_transfer_to_an_expired_payment_is_late_and_does_not_open_it(street: Street) -> None:
    payment_id = await offered(street, expiresAt=await street.chain.now_s() + 3)
    await street.until(payment_id, "expired")
    tx_id = await by_hand(street)

    assert await outcome(street, payment_id, tx_id) == ("recorded", [("late", payment_id)])
    assert await street.events(payment_id) == ["payment.created", "payment.expired"]


async def test_a_transfer_that_is_bound_to_another_payment_stays_there(street: Street) -> None:
    other, payment_id = await offered(street), await offered(street)
    tx_id = await by_hand(street, tag=payment_tag(other))

    assert await outcome(street, payment_id, tx_id) == ("other_payment", [("matched", other)])
    await street.until(other, "settled")
    assert await outcome(street, payment_id, tx_id) == ("other_payment", [("matched", other)])
    assert await street.status(payment_id) == "requires_action"


async def test_what_the_payment_never_asked_for_is_left(street: Street) -> None:
    payment_id = await street.payment()
    tx_id = await by_hand(street)

    assert await outcome(street, payment_id, tx_id) == ("not_offered", [("unmatched", None)])
    assert (await street.detail(payment_id))["transfers"] == []


async def test_a_transaction_that_pays_somebody_else_is_not_ours(street: Street) -> None:
    payment_id = await offered(street)
    tx_id = await by_hand(street, to=STRANGER)
    assert await outcome(street, payment_id, tx_id) == ("not_ours", [])


async def test_a_transaction_that_was_reverted_moved_nothing(street: Street) -> None:
    payment_id = await offered(street)
    data = transfer_call(address(MERCHANT), 10**18)
    tx_id = await street.chain.send_as(account(BUYER), SECOND_CONTRACT, data, gas=100_000)
    assert (await street.chain.receipt(tx_id))["status"] == "0x0"

    assert await outcome(street, payment_id, tx_id) == ("reverted", [])


async def test_what_nobody_knows_is_not_found_and_junk_is_refused(street: Street) -> None:
    payment_id = await offered(street)
    unknown = await match(street, payment_id, "0x" + "ab" * 32)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert CHAIN in unknown.json()["message"]
    for junk in ("", "0x12", "hello", "0x" + "zz" * 32, payment_id):
        refused = await match(street, payment_id, junk)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params"), junk


async def test_nodes_that_are_down_are_no_answer(tmp_path: Path, chain: LocalChain) -> None:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain) as street:
        payment_id = await offered(street)
        tx_id = await by_hand(street, AMOUNT - 1)
        street.anvil.kill()

        refused = await match(street, payment_id, tx_id)

        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert await street.status(payment_id) == "requires_action"


async def test_only_who_may_write_the_payments_of_this_merchant_is_heard(street: Street) -> None:
    payment_id = await offered(street)
    tx_id = await by_hand(street, AMOUNT - 1)
    await do(street, "account.create", name="other")
    other = await do(street, "key.create", account="other", scopes=["payments:write"])
    reader = await do(street, "key.create", account="shop", scopes=["payments:read"])
    tester = await do(street, "key.create", account="shop", mode="test")
    second = await do(street, "merchant.create", account="shop", name="Second", email="b@shop.example")
    limited = await do(
        street, "key.create", account="shop", scopes=["payments:write"], merchants=[second["id"]]
    )

    for key, merchant, expected in (
        (other["apiKey"], None, (404, "payment_not_found")),
        (tester["apiKey"], None, (404, "payment_not_found")),
        (reader["apiKey"], None, (403, "forbidden")),
        (limited["apiKey"], None, (403, "forbidden")),
        (street.headers["api-key"], second["id"], (404, "payment_not_found")),
    ):
        headers = {"api-key": key} | ({} if merchant is None else {"merchant-id": merchant})
        url = f"{street.url}/v1/payments/{payment_id}/match"
        refused = await street.http.post(url, json={"txId": tx_id}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == expected
    assert (await street.detail(payment_id))["transfers"] == []


async def test_the_transfer_of_another_account_is_not_told(street: Street) -> None:
    """Two shops on one server: neither finds out what the other was paid, nor takes it."""
    payment_id = await offered(street)
    await do(street, "account.create", name="other")
    merchant = await do(street, "merchant.create", account="other", name="B", email="b@shop.example")
    where = {"asset": DAI, "destination": f"{CHAIN}:{address(MERCHANT_2)}"}
    await do(street, "destination.add", account="other", merchant=merchant["id"], **where)
    tx_id = await by_hand(street, to=MERCHANT_2)

    found = await match(street, payment_id, tx_id)

    told = found.json()["match"]
    assert (told["outcome"], told["transfers"]) == ("not_ours", [])
    assert "unmatched" not in told["words"]


async def test_two_payments_at_once_do_not_share_one_transfer(street: Street) -> None:
    payments = [await offered(street) for _ in range(4)]
    tx_id = await by_hand(street)
    outcomes: list[str] = []

    async def say(payment_id: str) -> None:
        outcomes.append((await outcome(street, payment_id, tx_id))[0])

    async with trio.open_nursery() as nursery:
        for payment_id in payments:
            nursery.start_soon(say, payment_id)

    assert sorted(outcomes) == ["matched", "other_payment", "other_payment", "other_payment"]


async def test_the_operator_does_the_same_from_the_command_line(street: Street) -> None:
    payment_id = await offered(street)
    tx_id = await by_hand(street, AMOUNT - 1)

    done = await do(street, "payment.match", account="shop", id=payment_id, tx=tx_id, chain=CHAIN)

    assert done["match"]["outcome"] == "recorded"
    shown = await do(street, "payment.show", account="shop", id=payment_id)
    assert shown["transfers"] == done["match"]["transfers"]
    audit = await street.house.realms["live"].db.read(
        lambda tx: tx.execute("SELECT actor, subject FROM audit WHERE act = 'transfer.assign'").fetchall()
    )
    assert audit == [("cli", payment_id)]
