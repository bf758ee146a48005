"""Money on Solana that fits no payment: late, too little, too much, by hand; a merchant's word; refunds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
import trio
from solders.instruction import Instruction

from payd.clock import system_wall_ms
from payd.web.commands import run_command
from tests.live.handed import hand_out
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    MERCHANT,
    MERCHANT_2,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    USDT_MINT,
    LocalSolana,
    account_id,
    keypair,
    memo,
    pay_by_link,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.solana_street import SolanaStreet, open_solana_street

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
SOL_AMOUNT: Final = 250_000_000
ALL_EVENTS: Final = ["payment.created", "payment.processing", "payment.succeeded", "payment.settled"]


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    async with open_solana_street(tmp_path / "house", solana, slot_s=0.1) as opened:
        yield opened


async def by_hand(street: SolanaStreet, value: int = AMOUNT, to: int = MERCHANT, asset: str = USDC) -> str:
    """A transfer of a buyer that nothing binds, confirmed."""
    if asset == SOL:
        return await sent(street, pay_sol(pubkey(BUYER), pubkey(to), value))
    return await sent(street, pay_token(pubkey(BUYER), pubkey(to), USDC_MINT, value))


async def sent(street: SolanaStreet, *instructions: Instruction, place: int = BUYER) -> str:
    """A transaction of a buyer, confirmed; no two are the same."""
    mark = memo(str(system_wall_ms()))
    tx_id = await street.chain.send([*instructions, mark], keypair(place))
    await street.chain.slots(2)
    return tx_id


async def bound(street: SolanaStreet, payment_id: str, value: int = AMOUNT) -> str:
    """A transfer by the payment's link, but of this amount."""
    *memos, transfer = pay_by_link((await street.links(payment_id))[USDC], pubkey(BUYER))
    reference = transfer.accounts[-1].pubkey
    return await sent(street, *memos, pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, value, reference))


async def match(street: SolanaStreet, payment_id: str, tx_id: str) -> httpx.Response:
    return await street.call("POST", f"/v1/payments/{payment_id}/match", {"txId": tx_id})


async def outcome(
    street: SolanaStreet, payment_id: str, tx_id: str
) -> tuple[str, list[tuple[str, str | None]]]:
    """What came of a merchant's word, with the kinds and the payments of the transfers."""
    found = await match(street, payment_id, tx_id)
    assert found.status_code == 200, found.text
    told = found.json()["match"]
    return told["outcome"], [(one["kind"], one["paymentId"]) for one in told["transfers"]]


async def offered(street: SolanaStreet, asset: str = USDC, **more: Any) -> str:
    """A payment that was offered to the buyer."""
    payment_id = await street.payment(**more)
    await street.option(payment_id, asset)
    return payment_id


async def shown(street: SolanaStreet, payment_id: str, count: int = 1) -> list[tuple[str, str]]:
    """The kinds and values of so many transfers that the payment shows."""

    async def there() -> list[tuple[str, str]] | None:
        found = (await street.detail(payment_id))["transfers"]
        return [(one["kind"], one["amount"]["value"]) for one in found] if len(found) >= count else None

    found: list[tuple[str, str]] = await street.wait_for(there)
    return found


async def stray(street: SolanaStreet, tx_id: str) -> dict[str, Any]:
    """The transfer as the merchant's list of strays has it."""

    async def there() -> dict[str, Any] | None:
        page = (await street.call("GET", "/v1/transfers?matched=false")).json()
        return next((one for one in page["data"] if one["txId"] == tx_id), None)

    found: dict[str, Any] = await street.wait_for(there)
    return found


# Found by itself.


@pytest.mark.parametrize(("value", "kind"), [(AMOUNT - 1, "partial"), (AMOUNT + 1, "surplus")])
async def test_a_wrong_amount_is_recorded_and_pays_nothing(
    street: SolanaStreet, value: int, kind: str
) -> None:
    payment_id = await street.payment()
    tx_id = await bound(street, payment_id, value)

    assert await shown(street, payment_id) == [(kind, str(value))]
    assert (await stray(street, tx_id))["kind"] == kind
    assert await street.status(payment_id) == "requires_action"
    await bound(street, payment_id)
    await street.until(payment_id, "settled")
    assert sorted(await shown(street, payment_id, 2)) == sorted(
        [(kind, str(value)), ("matched", str(AMOUNT))]
    )


async def test_two_parts_are_no_whole(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    for part in (AMOUNT - 1, 1):
        await bound(street, payment_id, part)

    assert sorted(await shown(street, payment_id, 2)) == [("partial", "1"), ("partial", str(AMOUNT - 1))]
    assert await street.status(payment_id) == "requires_action"


async def test_what_comes_late_is_recorded_and_changes_nothing(street: SolanaStreet) -> None:
    payment_id = await street.payment(expiresAt=system_wall_ms() // 1000 + 3)
    link = (await street.links(payment_id))[USDC]
    await street.until(payment_id, "expired")
    tx_id = await sent(street, *pay_by_link(link, pubkey(BUYER)))
    # Where nothing is open, the chain is asked once a minute; where something is, at once.
    await street.links(await street.payment())
    found = await stray(street, tx_id)

    assert (found["kind"], found["paymentId"]) == ("late", payment_id)
    assert await street.status(payment_id) == "expired"
    assert await street.events(payment_id) == ["payment.created", "payment.expired"]


@pytest.mark.parametrize("asset", [USDC, SOL], ids=["USDC", "SOL"])
async def test_what_nothing_binds_is_shown_as_a_stray(street: SolanaStreet, asset: str) -> None:
    payment_id = await offered(street, asset)
    amount = SOL_AMOUNT if asset == SOL else AMOUNT
    tx_id = await by_hand(street, amount, asset=asset)
    found = await stray(street, tx_id)

    assert (found["kind"], found["paymentId"]) == ("unmatched", None)
    assert (found["from"], found["amount"]["value"]) == (account_id(BUYER), str(amount))
    assert await street.status(payment_id) == "requires_action"


async def test_a_reference_without_the_memo_or_a_memo_without_the_reference_binds_nothing(
    street: SolanaStreet,
) -> None:
    """Whoever has seen a link can name its payment beside somebody's transfer; not with both in it."""
    payment_id = await offered(street)
    *memos, transfer = pay_by_link((await street.links(payment_id))[USDC], pubkey(BUYER))
    bare = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, AMOUNT)
    for instructions in ([transfer], [*memos, bare]):
        tx_id = await sent(street, *instructions)
        assert (await stray(street, tx_id))["kind"] == "unmatched"

    assert await street.status(payment_id) == "requires_action"


# A merchant's word.


@pytest.mark.parametrize("asset", [USDC, SOL], ids=["USDC", "SOL"])
async def test_an_exact_transfer_that_a_merchant_names_pays(street: SolanaStreet, asset: str) -> None:
    payment_id = await offered(street, asset)
    tx_id = await by_hand(street, SOL_AMOUNT if asset == SOL else AMOUNT, asset=asset)

    assert await outcome(street, payment_id, tx_id) == ("matched", [("matched", payment_id)])

    await street.until(payment_id, "settled")
    assert await street.events(payment_id) == ALL_EVENTS
    assert (await street.detail(payment_id))["info"]["txId"] == tx_id
    # Once more, it is as it was.
    assert await outcome(street, payment_id, tx_id) == ("matched", [("matched", payment_id)])
    assert await street.events(payment_id) == ALL_EVENTS


@pytest.mark.parametrize(("value", "kind"), [(AMOUNT - 1, "partial"), (AMOUNT + 1, "surplus")])
async def test_a_wrong_amount_that_a_merchant_names_is_shown_with_the_payment_and_pays_nothing(
    street: SolanaStreet, value: int, kind: str
) -> None:
    payment_id = await offered(street)
    tx_id = await by_hand(street, value)

    assert await outcome(street, payment_id, tx_id) == ("recorded", [(kind, payment_id)])

    detail = await street.detail(payment_id)
    assert detail["status"] == "requires_action"
    [transfer] = detail["transfers"]
    landed = await street.chain.landed(tx_id)
    assert landed is not None
    assert (transfer["kind"], transfer["txId"], transfer["blockNumber"]) == (kind, tx_id, landed["slot"])


async def test_what_a_merchant_names_for_an_expired_payment_is_late(street: SolanaStreet) -> None:
    payment_id = await offered(street, expiresAt=system_wall_ms() // 1000 + 3)
    await street.until(payment_id, "expired")
    tx_id = await by_hand(street)

    assert await outcome(street, payment_id, tx_id) == ("recorded", [("late", payment_id)])
    assert await street.events(payment_id) == ["payment.created", "payment.expired"]


async def test_what_pays_another_payment_stays_there(street: SolanaStreet) -> None:
    other, payment_id = await offered(street), await offered(street)
    tx_id = await bound(street, other)

    assert await outcome(street, payment_id, tx_id) == ("other_payment", [("matched", other)])
    await street.until(other, "settled")
    assert await outcome(street, payment_id, tx_id) == ("other_payment", [("matched", other)])
    assert await street.status(payment_id) == "requires_action"


async def test_payments_at_once_do_not_share_one_transfer(street: SolanaStreet) -> None:
    payments = [await offered(street) for _ in range(4)]
    tx_id = await by_hand(street)
    outcomes: list[str] = []

    async def say(payment_id: str) -> None:
        outcomes.append((await outcome(street, payment_id, tx_id))[0])

    async with trio.open_nursery() as nursery:
        for payment_id in payments:
            nursery.start_soon(say, payment_id)

    assert sorted(outcomes) == ["matched", "other_payment", "other_payment", "other_payment"]


async def test_what_pays_somebody_else_is_not_ours(street: SolanaStreet) -> None:
    payment_id = await offered(street)
    await street.chain.give(pubkey(STRANGER), USDC_MINT, 0)
    tx_id = await by_hand(street, to=STRANGER)

    assert await outcome(street, payment_id, tx_id) == ("not_ours", [])


async def test_what_the_payment_never_asked_for_is_left(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    tx_id = await by_hand(street)

    assert await outcome(street, payment_id, tx_id) == ("not_offered", [("unmatched", None)])
    assert (await street.detail(payment_id))["transfers"] == []


async def test_what_failed_on_the_chain_moved_nothing(street: SolanaStreet) -> None:
    payment_id = await offered(street)
    too_much = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 10**15)
    raw = await street.chain.signed([too_much], keypair(BUYER))
    tx_id = await street.chain.send_raw(raw)
    await street.chain.slots(2)

    assert await outcome(street, payment_id, tx_id) == ("reverted", [])


async def test_what_nobody_knows_is_not_found_and_junk_is_refused(street: SolanaStreet) -> None:
    payment_id = await offered(street)
    raw = await street.chain.signed([pay_sol(pubkey(BUYER), pubkey(MERCHANT), 1)], keypair(BUYER))
    unknown = await match(street, payment_id, tx_id_of(raw))
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert CHAIN in unknown.json()["message"]
    for junk in ("", "0x" + "ab" * 32, "hello", tx_id_of(raw)[:-4] + "0OIl", tx_id_of(raw)[:-4], payment_id):
        refused = await match(street, payment_id, junk)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params"), junk


async def test_the_transfer_of_another_account_is_not_told(street: SolanaStreet) -> None:
    """Two shops on one server: neither finds out what the other was paid, nor takes it."""

    async def do(command: str, **args: Any) -> Any:
        named = args if command == "account.create" else {"mode": "live", **args}
        return msgspec.to_builtins(await run_command(street.house, command, msgspec.json.encode(named)))

    payment_id = await offered(street)
    await do("account.create", name="other")
    merchant = await do("merchant.create", account="other", name="B", email="b@shop.example")
    where = {"asset": USDC, "destination": account_id(MERCHANT_2)}
    await do("destination.add", account="other", merchant=merchant["id"], **where)
    await street.chain.give(pubkey(MERCHANT_2), USDC_MINT, 0)
    tx_id = await by_hand(street, to=MERCHANT_2)
    told = (await match(street, payment_id, tx_id)).json()["match"]

    assert (told["outcome"], told["transfers"]) == ("not_ours", [])
    assert "unmatched" not in told["words"]


# Refunds.


async def refunded(street: SolanaStreet, payment_id: str, tx_id: str) -> httpx.Response:
    body = {"paymentId": payment_id, "txId": tx_id}
    return await street.call("POST", "/v1/refunds", body, idempotency_key=f"refund-{tx_id}")


async def test_a_refund_is_a_transfer_back_to_who_paid_or_it_is_refused_in_words(
    street: SolanaStreet,
) -> None:
    handed = await hand_out(street, USDC, BUYER)
    to, back = pubkey(BUYER), pay_token(pubkey(MERCHANT), pubkey(BUYER), USDC_MINT, 5_000_000)
    await street.chain.give(pubkey(MERCHANT), USDC_MINT, 10 * AMOUNT)
    await street.chain.give(pubkey(MERCHANT), USDT_MINT, 10 * AMOUNT)
    early = await sent(street, back, place=MERCHANT)
    assert (await refunded(street, handed.payment_id, early)).json()["code"] == "payment_not_succeeded"
    told = await handed.confirm(handed.signed())
    assert told.status_code == 200, told.text
    await street.until(handed.payment_id, "settled")
    unsent = await street.chain.signed([memo("x")], keypair(MERCHANT))
    wrong = {
        "64 bytes in base58": "hello",
        "does not show the transaction": tx_id_of(unsent),
        "pays nothing of the payment's asset to the buyer": await sent(
            street, pay_token(pubkey(MERCHANT), pubkey(BUYER_2), USDC_MINT, 1), place=MERCHANT
        ),
        "pays nothing of the payment's asset": await sent(
            street, pay_token(pubkey(MERCHANT), to, USDT_MINT, AMOUNT), place=MERCHANT
        ),
        "pays nothing of": await sent(street, pay_sol(pubkey(MERCHANT), to, 1), place=MERCHANT),
    }
    for words, tx_id in wrong.items():
        refused = await refunded(street, handed.payment_id, tx_id)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params"), refused.text
        assert words in refused.json()["message"]
    failing = pay_token(pubkey(MERCHANT), to, USDC_MINT, 10**15)
    raw = await street.chain.signed([failing], keypair(MERCHANT))
    failed = await street.chain.send_raw(raw)
    await street.chain.slots(2)
    assert "failed: nothing was paid back" in (await refunded(street, handed.payment_id, failed)).text

    good = await sent(street, back, place=MERCHANT)
    done = await refunded(street, handed.payment_id, good)
    assert done.status_code == 200, done.text
