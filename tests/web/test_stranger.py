"""A stranger who has only the link can pay or cancel, and can break nothing: each thing he can try."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
import trio

from payd.actors.turns import INBOX_MAX
from payd.store.options import HINTS_UNKNOWN_MAX
from tests.shop import APPROVES, BUYER, ETH_BASE, SIGNATURE, TX_HASH, USDT_MAINNET, WALLET, Got, Shop

REFUSED = "eip155:8453:0x0000000000000000000000000000000000000002"
MAINNET_BUYER = BUYER.replace("eip155:8453", "eip155:1")


class Stranger:
    """Somebody who knows a payment's id, and what the checkout page knows."""

    def __init__(self, shop: Shop, payment: str) -> None:
        self.shop = shop
        self.payment = payment

    async def call(self, method: str, below: str, body: Any = None, *, raw: bytes | None = None) -> Got:
        """A request to the gateway with the page's own app id."""
        return await self.shop.call(
            method,
            f"/v1/gateway/payment/{self.payment}{below}",
            body,
            raw=raw,
            key=None,
            app_id=self.shop.realm.checkout_app_id,
            client_id="stranger",
        )

    async def options(self, *accounts: str) -> list[dict[str, Any]]:
        found = await self.call("POST", "/options", list(accounts or (BUYER,)))
        assert found.status == 200, found.body
        return list(found.body["options"])

    async def confirm(self, option: str, *data: Any) -> Got:
        results = [{"type": "walletRpc", "data": [item]} for item in data]
        return await self.call("POST", "/confirm", {"optionId": option, "results": results})

    async def cancel(self) -> Got:
        return await self.call("POST", "/cancel", {})


@pytest.fixture
async def stranger(shop: Shop) -> Stranger:
    """A stranger with the link of a fresh payment."""
    return Stranger(shop, await shop.pay("SECRET-REFERENCE"))


async def still_payable(stranger: Stranger) -> bool:
    """Whether an honest buyer can still pay."""
    option = (await stranger.shop.options(stranger.payment, [APPROVES]))[0]
    found = await stranger.shop.confirm(stranger.payment, option["id"], SIGNATURE)
    return (found.status, found.body["status"]) == (200, "processing")


async def rows(shop: Shop, table: str) -> int:
    found = await shop.realm.db.read(lambda tx: tx.execute(f"SELECT count(*) FROM {table}").fetchone())
    return int(found[0])


# What he can do


async def test_he_can_pay(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    assert (await stranger.confirm(option["id"], SIGNATURE)).body["status"] == "processing"
    await trio.sleep(1.5)
    assert await stranger.shop.status(stranger.payment) == "succeeded"


async def test_he_can_cancel_while_nobody_has_paid(stranger: Stranger) -> None:
    found = await stranger.cancel()
    assert (found.status, found.body["cancelledReason"]) == (200, "cancelled_by_user")


# Money


async def test_he_cannot_lead_the_money_elsewhere(stranger: Stranger) -> None:
    mine = "eip155:8453:0x8626f6940e2eb28930efb4cef49b2d1f2c9c1199"
    for option in await stranger.options(mine, BUYER):
        action = msgspec.json.decode(option["actions"][0]["params"])
        typed = msgspec.json.decode(action[1])
        assert typed["message"]["to"] == WALLET
    attempt = {"accounts": [BUYER], "destination": mine, "amount": {"unit": "iso4217/USD", "value": "1"}}
    found = await stranger.call("POST", "/options", attempt)
    assert mine[12:] not in found.raw.decode()
    assert found.body["options"][0]["amount"]["value"] == "25000000"


async def test_he_cannot_pay_less(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    results = [{"type": "walletRpc", "data": [SIGNATURE]}]
    body = {"optionId": option["id"], "results": results, "amount": "1", "value": "1"}
    await stranger.call("POST", "/confirm", body)
    await trio.sleep(3)
    detail = await stranger.shop.call("GET", f"/v1/payments/{stranger.payment}")
    assert detail.body["settlement"]["amount"]["value"] == "25000000"


async def test_he_cannot_pay_one_payment_with_the_option_of_another(stranger: Stranger) -> None:
    cheap = Stranger(stranger.shop, await stranger.shop.pay(value="1"))
    option = (await cheap.options())[0]
    found = await stranger.confirm(option["id"], SIGNATURE)
    assert (found.status, found.code) == (400, "invalid_params")
    assert await stranger.shop.status(stranger.payment) == "requires_action"
    assert await stranger.shop.status(cheap.payment) == "requires_action"


async def test_he_cannot_make_one_payment_of_the_merchant_pay_for_two(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    for _ in range(5):
        await stranger.confirm(option["id"], SIGNATURE)
    await trio.sleep(3)
    assert await rows(stranger.shop, "transfers") == 1
    events = await stranger.shop.call("GET", f"/v1/events?paymentId={stranger.payment}")
    assert Counter(event["type"] for event in events.body["data"]) == {
        "payment.created": 1,
        "payment.processing": 1,
        "payment.succeeded": 1,
        "payment.settled": 1,
    }


# Killing a payment


async def test_he_cannot_kill_a_payment_with_a_bad_signature(stranger: Stranger) -> None:
    option = (await stranger.options(REFUSED))[0]
    for _ in range(20):
        found = await stranger.confirm(option["id"], SIGNATURE)
        assert (found.status, found.code) == (422, "invalid_signature")
    assert await still_payable(stranger)


HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, "", "x", "0x", "0xzz", "0x" + "00" * 5000, "\0", "💣" * 100,
    "0x" + "1" * 63,
    [], {}, [[[]]], {"a": {"b": []}}, {"": None}, ["0x" + "11" * 65], "' OR 1=1 --", "\ud7ff\ue000",
)  # fmt: skip


async def test_he_cannot_kill_a_payment_with_unusable_data(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    for item in HOSTILE:
        found = await stranger.confirm(option["id"], item)
        assert found.status in (400, 422), item
        assert found.code in ("invalid_params", "invalid_signature"), item
    for data in ([], [SIGNATURE, SIGNATURE], [None] * 100):
        body = {"optionId": option["id"], "results": [{"type": "walletRpc", "data": data}]}
        found = await stranger.call("POST", "/confirm", body)
        assert (found.status, found.code) == (400, "invalid_params")
    assert await still_payable(stranger)


async def test_he_cannot_kill_a_payment_with_options_that_never_were(stranger: Stranger) -> None:
    for option in ("opt_nobody", "", "x" * 5000, "' OR 1=1 --", "\0", "💣"):
        for count in (0, 1, 3):
            found = await stranger.confirm(option, *[SIGNATURE] * count)
            assert (found.status, found.code) == (400, "invalid_params"), option
    assert await still_payable(stranger)


async def test_he_cannot_fail_a_payment_that_is_already_being_paid(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    await stranger.confirm(option["id"], SIGNATURE)
    for data in ((), (SIGNATURE, SIGNATURE), ("0x" + "22" * 65,)):
        found = await stranger.confirm(option["id"], *data)
        assert (found.status, found.code) == (400, "invalid_state")
    assert (await stranger.cancel()).code == "invalid_state"
    await trio.sleep(1.5)
    assert await stranger.shop.status(stranger.payment) == "succeeded"


async def test_he_cannot_take_back_a_payment_that_succeeded(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    await stranger.confirm(option["id"], SIGNATURE)
    await trio.sleep(5)
    assert (await stranger.cancel()).code == "invalid_state"
    assert (await stranger.confirm(option["id"])).code == "invalid_state"
    assert (await stranger.call("POST", "/options", [BUYER])).body["options"] is None
    assert await stranger.shop.status(stranger.payment) == "succeeded"


async def test_he_cannot_keep_a_payment_from_expiring(stranger: Stranger) -> None:
    option = (await stranger.options(REFUSED))[0]
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(stranger.call, "GET", "/status?maxPollMs=55000")
        for _ in range(92):
            await stranger.confirm(option["id"], SIGNATURE)
            await stranger.call("POST", "/options", [REFUSED])
            await trio.sleep(10)
    assert await stranger.shop.status(stranger.payment) == "expired"


async def test_he_cannot_revive_what_expired_or_was_cancelled(stranger: Stranger) -> None:
    option = (await stranger.options())[0]
    await stranger.cancel()
    late = await stranger.confirm(option["id"], SIGNATURE)
    assert (late.status, late.body["status"]) == (200, "cancelled")
    other = Stranger(stranger.shop, await stranger.shop.pay())
    option = (await other.options())[0]
    await trio.sleep(901)
    assert (await other.confirm(option["id"], SIGNATURE)).status == 410
    assert await stranger.shop.status(other.payment) == "expired"


async def test_he_cannot_make_two_things_happen_at_once(stranger: Stranger) -> None:
    option = (await stranger.options())[0]["id"]
    answers: list[Got] = []

    async def one(number: int) -> None:
        match number % 4:
            case 0:
                answers.append(await stranger.cancel())
            case 1:
                answers.append(await stranger.confirm(option, SIGNATURE))
            case 2:
                answers.append(await stranger.confirm(option, SIGNATURE, SIGNATURE))
            case 3:
                answers.append(await stranger.confirm(option, "0x" + "33" * 65))

    async with trio.open_nursery() as nursery:
        for number in range(80):
            nursery.start_soon(one, number)
    assert {answer.status for answer in answers} <= {200, 400}
    events = await stranger.shop.call("GET", f"/v1/events?paymentId={stranger.payment}")
    assert len(events.body["data"]) == 2


# Using things up


async def test_he_cannot_use_up_the_options_of_a_buyer_who_has_his(stranger: Stranger) -> None:
    mine = (await stranger.shop.options(stranger.payment, [APPROVES]))[0]
    statuses: Counter[int] = Counter()
    for block in range(6):
        accounts = [f"eip155:8453:0x{0x50000 + block * 40 + number:040x}" for number in range(40)]
        statuses[(await stranger.call("POST", "/options", accounts)).status] += 1
    assert statuses == {200: 5, 429: 1}
    assert await rows(stranger.shop, "options") <= 200
    assert await stranger.shop.options(stranger.payment, [APPROVES]) == [mine]
    assert (await stranger.shop.confirm(stranger.payment, mine["id"], SIGNATURE)).body[
        "status"
    ] == "processing"


async def test_he_cannot_fill_the_disk_by_asking(stranger: Stranger) -> None:
    shop = stranger.shop
    await shop.register(shop.merchant_id, ETH_BASE, f"eip155:8453:{WALLET}")
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    option = next(one for one in await stranger.options(MAINNET_BUYER))
    for _ in range(30):
        await stranger.options(BUYER)
        body = {"optionId": option["id"], "data": option["actions"][0]["data"]}
        assert (await stranger.call("POST", "/fetch", body)).status == 200
    assert (await rows(shop, "options"), await rows(shop, "quotes")) == (3, 4)


async def test_he_cannot_fill_the_disk_with_hashes(stranger: Stranger) -> None:
    for number in range(HINTS_UNKNOWN_MAX + 40):
        await stranger.confirm("opt_nobody", f"0x{number:064x}")
    results = [{"type": "walletRpc", "data": [f"0x{number:064x}" for number in range(500)]}]
    await stranger.call("POST", "/confirm", {"optionId": "opt_nobody", "results": results})
    assert await rows(stranger.shop, "hints") == HINTS_UNKNOWN_MAX
    assert await still_payable(stranger)


async def test_he_cannot_take_the_merchants_polls_away(stranger: Stranger) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(stranger.call, "GET", "/status?maxPollMs=20000")
        await trio.sleep(1)
        assert await stranger.shop.status(stranger.payment) == "requires_action"
        assert len(stranger.shop.house.held) == 4
        await stranger.cancel()
    assert stranger.shop.house.limits.polls.held == 0


async def test_he_cannot_fill_a_payments_inbox_for_good(stranger: Stranger) -> None:
    option = (await stranger.options(REFUSED))[0]
    statuses: Counter[int] = Counter()

    async def one() -> None:
        statuses[(await stranger.confirm(option["id"], SIGNATURE)).status] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(INBOX_MAX + 50):
            nursery.start_soon(one)
    assert statuses.keys() <= {422, 429}
    assert statuses[429] > 0
    assert await still_payable(stranger)


# Breaking the server


async def test_he_cannot_break_the_server_with_nesting(stranger: Stranger) -> None:
    option = (await stranger.options())[0]["id"].encode()
    for depth in (
        10,
        100,
        400,
        600,
        700,
        750,
        800,
        820,
        840,
        860,
        880,
        900,
        920,
        940,
        950,
        960,
        970,
        980,
        990,
        5000,
    ):
        nested = b"[" * depth + b"]" * depth
        for raw in (
            b'{"optionId":"%b","results":[{"type":"walletRpc","data":%b}]}' % (option, nested),
            b'{"optionId":"opt_x","results":[{"type":"walletRpc","data":%b}]}' % nested,
            b'{"optionId":"opt_x","results":[],"unknown":%b}' % nested,
        ):
            found = await stranger.call("POST", "/confirm", raw=raw)
            assert (found.status, found.code) == (400, "invalid_params"), depth
        for below in ("/options", "/cancel", "/fetch"):
            found = await stranger.call("POST", below, raw=nested)
            assert found.status == 400, (below, depth)
    assert await still_payable(stranger)


async def test_he_cannot_break_the_server_with_numbers(stranger: Stranger) -> None:
    option = (await stranger.options())[0]["id"].encode()
    for number in (
        b"9" * 30,
        b"9" * 5000,
        b"-" + b"9" * 400,
        b"1e308",
        b"1e309",
        b"1e-400",
        b"0.1",
        b"-0",
        b"1E+2",
    ):
        raw = b'{"optionId":"%b","results":[{"type":"walletRpc","data":[%b]}]}' % (option, number)
        found = await stranger.call("POST", "/confirm", raw=raw)
        assert found.status == 400, number
    assert await still_payable(stranger)


async def test_he_cannot_break_the_server_with_text(stranger: Stranger) -> None:
    for path in (
        "%00",
        "%F0%9F%92%A3",
        "..%2F..%2Fadmin",
        "'",
        '"',
        "<script>",
        "a" * 10_000,
        "\udcff",
        "pay_t\n",
    ):
        for below in ("", "/status"):
            found = await stranger.shop.call("GET", f"/v1/gateway/payment/{path}{below}")
            assert (found.status, found.code) == (404, "payment_not_found"), path
    for query in (
        "includePaymentInfo=%00",
        "includePaymentInfo=%ff",
        "includePaymentInfo=true&includePaymentInfo=true",
    ):
        found = await stranger.call("POST", f"/options?{query}", [BUYER])
        assert (found.status, found.code) == (400, "invalid_params")
    assert await still_payable(stranger)


# Seeing too much


async def test_he_sees_what_a_buyer_may_see_and_no_more(stranger: Stranger) -> None:
    shop = stranger.shop
    for method, below, body in (
        ("GET", "", None),
        ("GET", "/status", None),
        ("POST", "/options?includePaymentInfo=true", [BUYER]),
    ):
        found = (await stranger.call(method, below, body)).raw.decode()
        for secret in ("SECRET-REFERENCE", "shop@example.com", shop.merchant_id, shop.account_id):
            assert secret not in found


async def test_the_payments_id_is_in_nothing_that_is_signed(stranger: Stranger) -> None:
    shop = stranger.shop
    await shop.register(shop.merchant_id, ETH_BASE, f"eip155:8453:{WALLET}")
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    for option in await stranger.options(BUYER, MAINNET_BUYER):
        text = str(option["actions"])
        assert stranger.payment not in text
        assert stranger.payment.encode().hex() not in text


async def test_the_link_opens_nothing_of_the_merchants_api(stranger: Stranger) -> None:
    shop = stranger.shop
    for method, path in (
        ("GET", f"/v1/payments/{stranger.payment}"),
        ("GET", f"/v1/payments/{stranger.payment}/status"),
        ("POST", f"/v1/payments/{stranger.payment}/cancel"),
        ("POST", f"/v1/test/payments/{stranger.payment}/simulate"),
        ("GET", "/v1/payments"),
        ("POST", "/v1/refunds"),
        ("GET", "/v1/events"),
        ("GET", "/v1/webhooks/endpoint"),
    ):
        for headers in (
            {"app_id": shop.realm.checkout_app_id, "client_id": "c"},
            {"client_id": stranger.payment},
        ):
            found = await shop.call(method, path, key=None, raw=None, **headers)
            assert (found.status, found.code) == (401, "missing_api_key"), path
    assert await shop.status(stranger.payment) == "requires_action"


async def test_one_link_says_nothing_of_another_payment(stranger: Stranger) -> None:
    other = await stranger.shop.pay()
    near = stranger.payment[:-1] + ("0" if stranger.payment[-1] != "0" else "1")
    unknown = await Stranger(stranger.shop, near).call("GET", "")
    malformed = await Stranger(stranger.shop, "pay_x").call("GET", "")
    assert unknown.status == malformed.status == 404
    assert unknown.body["message"] == malformed.body["message"]
    assert other not in (await stranger.call("GET", "")).raw.decode()


async def test_a_hash_that_he_makes_up_is_a_hint_and_no_proof_of_another_payment(stranger: Stranger) -> None:
    other = Stranger(stranger.shop, await stranger.shop.pay())
    await other.confirm("opt_nobody", TX_HASH)
    assert await stranger.shop.status(stranger.payment) == "requires_action"
    assert await stranger.shop.status(other.payment) == "requires_action"
    assert await rows(stranger.shop, "hints") == 1
