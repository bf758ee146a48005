"""One payment's page: what it shows to whom, and what can be done there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from payd.core.roles import Role
from payd.entropy import system_entropy
from payd.store.db import Tx
from payd.store.seal import KEY_BYTES, Seal
from payd.web.dashboard.payment import rate_words
from payd.web.schema import Words
from tests.ledger import sell
from tests.shop import BUYER, Shop, open_shop
from tests.visitor import Page, sign_in
from tests.web.asking import ANSWERS, SECRET, SHOWN, ask_for, confirm


def at(payment: str, below: str = "") -> str:
    return f"/d/test/payments/{payment}{below}"


def mark(page: Page) -> str:
    found = re.search(r'id="mark" name="mark" value="(\w+)"', page.html)
    assert found is not None
    return found[1]


def titles(page: Page) -> list[str]:
    return re.findall(r'<p class="title">([^<]*)</p>', page.html)


def acts(shop: Shop) -> list[tuple[str, str]]:
    def read(tx: Tx) -> list[tuple[str, str]]:
        rows = tx.execute("SELECT actor, act FROM audit WHERE actor LIKE 'usr_%' ORDER BY seq")
        return rows.fetchall()

    return shop.realm.db.point(read)


async def test_a_payment_from_its_creation_to_its_settlement(shop: Shop) -> None:
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    visitor = await sign_in(shop)
    payment = await shop.pay("ORDER-1", "2500", "iso4217/EUR")
    await shop.options(payment, [BUYER])
    for to in ("succeeded", "settled"):
        assert (await visitor.post(at(payment, "/simulate"), {"to": to})).to == at(payment)
    page = await visitor.get(at(payment))
    story = titles(page)
    wanted = ["Created", "Processing", "Succeeded", "Settled"]
    assert [one for one in story if one in wanted] == wanted
    assert "Options asked for 1 account" in story
    for name in ("created", "processing", "succeeded", "settled"):
        assert f"Event payment.{name}" in story
        assert f"Webhook payment.{name} is owed" in story
    assert any(one.startswith("Transfer of") for one in story)
    for words in ("Asked 25.00 EUR", "Paid", "Rate 1 USDC =", "Buyer", f"test:{payment}"):
        assert words in page.text


async def test_what_came_to_nothing_is_nowhere_said_to_be_paid(shop: Shop) -> None:
    visitor = await sign_in(shop)
    payment = await shop.pay()
    shown = []
    for to in ("processing", "failed"):
        await visitor.post(at(payment, "/simulate"), {"to": to})
        page, rows = await visitor.get(at(payment)), await visitor.get("/d/test/payments")
        assert "Committed 25 USDC on" in page.text
        assert "Paid 25 USDC" not in page.text
        shown.append("25 USDC" in rows.text)
    assert shown == [True, False]


async def test_only_what_is_possible_is_offered_and_says_what_it_sends(shop: Shop) -> None:
    visitor = await sign_in(shop)
    payment = await shop.pay()
    page = await visitor.get(at(payment))
    assert "Succeed sends payment.processing, then payment.succeeded" in page.text
    assert "Settle " not in page.text
    assert "Cancel payment" in page.text
    await visitor.post(at(payment, "/simulate"), {"to": "succeeded"})
    after = await visitor.get(at(payment))
    assert re.findall(r'name="to" value="(\w+)"', after.html) == ["settled"]
    assert "Cancel payment" not in after.text
    refused = await visitor.post(at(payment, "/simulate"), {"to": "failed"})
    assert (refused.status, "cannot be moved to failed" in refused.text) == (400, True)


async def test_a_move_that_is_none_is_refused(shop: Shop) -> None:
    visitor = await sign_in(shop)
    payment = await shop.pay()
    assert (await visitor.post(at(payment, "/simulate"), {"to": "paid"})).status == 400
    assert await shop.status(payment) == "requires_action"


async def test_live_payments_are_never_simulated(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        live = shop.house.realms["live"]

        def one(tx: Tx) -> str:
            payment_id = "pay_l" + "0" * 36
            return sell(tx, id=payment_id, account_id=shop.account_id, merchant_id="mrch_x").id

        payment = await live.db.write(one)
        visitor = await sign_in(shop)
        page = await visitor.get(f"/d/live/payments/{payment}")
        assert (page.status, "Simulate" in page.text) == (200, False)
        refused = await visitor.post(f"/d/live/payments/{payment}/simulate", {"to": "succeeded"})
        assert refused.status == 403
        assert live.payments.find(payment).version == 0


async def test_each_act_names_its_person(shop: Shop) -> None:
    visitor = await sign_in(shop, Role.SUPPORT, email="eva@example.com")
    cancelled, moved = await shop.pay("C-1"), await shop.pay("C-2")
    assert (await visitor.post(at(cancelled, "/cancel"))).to == at(cancelled)
    await visitor.post(at(moved, "/simulate"), {"to": "failed"})
    assert [await shop.status(one) for one in (cancelled, moved)] == ["cancelled", "failed"]
    assert acts(shop) == [
        (visitor.user_id, "payment.cancel"),
        (visitor.user_id, "payment.simulate"),
    ]
    page = await visitor.get(at(cancelled))
    assert "Cancelled by hand By eva@example.com." in page.text


async def test_who_cancelled_it_is_said_in_words(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for door, who in (("gateway/payment", "buyer"), ("payments", "merchant")):
        payment = await shop.pay()
        await shop.call("POST", f"/v1/{door}/{payment}/cancel")
        page = await visitor.get(at(payment))
        assert f"by the {who}" in page.text


async def test_a_refused_act_leaves_no_trace(shop: Shop) -> None:
    visitor = await sign_in(shop)
    payment = await shop.pay()
    await visitor.post(at(payment, "/simulate"), {"to": "succeeded"})
    before = acts(shop)
    assert (await visitor.post(at(payment, "/cancel"))).status == 400
    assert acts(shop) == before


async def test_a_viewer_sees_and_does_nothing(shop: Shop) -> None:
    payment = await shop.pay()
    page = await (await sign_in(shop, Role.VIEWER)).get(at(payment))
    assert page.status == 200
    assert 'name="to"' not in page.html
    assert "Cancel payment" not in page.text
    assert "shown from the role support on" in page.text


async def test_what_the_buyer_told_is_for_support(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    [option] = await shop.options(payment, [BUYER])
    assert (await confirm(shop, payment, option["id"], ANSWERS)).status == 200
    people = {role: await sign_in(shop, role) for role in (Role.VIEWER, Role.SUPPORT)}
    for seen in (
        await people[Role.VIEWER].get(at(payment)),
        await people[Role.SUPPORT].get("/d/test/payments"),
    ):
        assert SECRET not in seen.html
    text = (await people[Role.SUPPORT].get(at(payment))).text
    for one in SHOWN:
        assert f"{one['name']} {one['value']}" in text
    assert "The buyer gave the details that were asked for" in text
    shop.realm.seal = Seal(system_entropy(KEY_BYTES))
    sealed = await people[Role.SUPPORT].get(at(payment))
    assert (sealed.status, SECRET in sealed.html) == (200, False)
    assert "Sealed with another key cannot be read" in sealed.text


async def test_live_parts_come_only_when_something_happened(shop: Shop) -> None:
    visitor = await sign_in(shop)
    payment = await shop.pay()
    page = await visitor.get(at(payment))
    query = at(payment, f"?mark={mark(page)}")
    assert (await visitor.get(query, hx_request="true")).html.strip() == ""
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "failed"})
    found = await visitor.get(query, hx_request="true")
    assert 'id="status" role="status" class="row" hx-swap-oob="true"' in found.html
    assert "Failed" in found.text
    assert mark(found) != mark(page)


async def test_a_webhook_is_sent_again_from_here(shop: Shop) -> None:
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    visitor = await sign_in(shop)
    payment, other = await shop.pay("W-1"), await shop.pay("W-2")
    page = await visitor.get(at(payment))
    [delivery] = re.findall(r'name="delivery" value="(\w+)"', page.html)
    assert (await visitor.post(at(other, "/resend"), {"delivery": delivery})).status == 404
    sent = await visitor.post(at(payment, "/resend"), {"delivery": delivery})
    assert sent.to == at(payment)
    assert "payment.created was sent again." in (await visitor.get(at(payment))).text
    assert acts(shop) == [(visitor.user_id, "webhook.resend")]


async def test_a_webhook_of_a_paused_endpoint_says_that_it_waits_for_it(shop: Shop) -> None:
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    await shop.call("POST", "/v1/webhooks/endpoint/pause")
    visitor, payment = await sign_in(shop), await shop.pay()
    page = await visitor.get(at(payment))
    assert "when the endpoint is resumed" in page.text
    assert "Resend" not in page.text
    await shop.call("POST", "/v1/webhooks/endpoint/resume")
    page = await visitor.get(at(payment))
    assert "when the endpoint is resumed" not in page.text
    assert "Resend" in page.text


@pytest.mark.parametrize("act", ["disable", "delete"])
async def test_a_webhook_whose_endpoint_takes_none_cannot_be_sent_again(shop: Shop, act: str) -> None:
    endpoint = "/v1/webhooks/endpoint"
    await shop.call("PUT", endpoint, {"url": "https://203.0.114.9/hook"})
    visitor, payment = await sign_in(shop), await shop.pay()
    [delivery] = re.findall(r'name="delivery" value="(\w+)"', (await visitor.get(at(payment))).html)
    await (shop.call("DELETE", endpoint) if act == "delete" else shop.call("POST", f"{endpoint}/disable"))
    assert "Resend" not in (await visitor.get(at(payment))).text
    found = await visitor.post(at(payment, "/resend"), {"delivery": delivery})
    assert (found.status, "/v1/" in found.text) == (409, False)
    assert "page Webhooks" in found.text


async def test_a_payment_that_is_not_there(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for payment in ("pay_t" + "0" * 36, "x", "pay_l1"):
        assert (await visitor.get(at(payment))).status == 404


async def test_a_rate_says_what_one_of_the_asset_was_worth(shop: Shop) -> None:
    payment = await shop.realm.db.write(sell, "succeeded", value=105, account_id=shop.account_id)
    assert rate_words(payment, Words(tuple(shop.realm.payments.chains))) == "1 USDC = 1.05 USD"


async def test_the_requests_about_it_are_one_look_away_for_those_who_may_see_them(shop: Shop) -> None:
    body = {"referenceId": "A", "amount": {"unit": "iso4217/USD", "value": "1"}}
    made = await shop.call("POST", "/v1/payments", body, merchant_id=shop.merchant_id)
    payment = made.body["paymentId"]
    await shop.realm.api_log.run_once()
    owner, support = await sign_in(shop), await sign_in(shop, Role.SUPPORT, email="eva@example.com")
    page = await owner.get(at(payment))
    link = f"/d/test/log?request={payment}"
    assert f'href="{link}">Requests to the API about it' in page.html
    assert made.headers["request-id"] in (await owner.get(link)).html
    assert "/d/test/log" not in (await support.get(at(payment))).html
