"""A payment that a person creates: what is typed becomes what the API is asked, once."""

from __future__ import annotations

import pytest
import trio

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store.db import Tx
from payd.web.dashboard.payment_create import minor_units
from tests.shop import Shop
from tests.visitor import sign_in

LIST = "/d/test/payments"


def form(shop: Shop, **more: str) -> dict[str, str]:
    return {
        "amount": "12.50",
        "currency": "EUR",
        "reference": "BY-HAND",
        "merchant": shop.merchant_id,
        "lifetime": "60",
        "success_url": "",
        "error_url": "",
    } | more


def audited(shop: Shop) -> list[tuple[str, str, str]]:
    def read(tx: Tx) -> list[tuple[str, str, str]]:
        return tx.execute("SELECT actor, act, subject FROM audit WHERE act LIKE 'payment.%'").fetchall()

    return shop.realm.db.point(read)


async def test_a_created_payment_is_shown_with_its_link(shop: Shop) -> None:
    visitor = await sign_in(shop, Role.SUPPORT)
    made = await visitor.post(LIST, form(shop))
    assert made.status == 303
    page = await visitor.get(made.to)
    payment = made.to.rpartition("/")[2]
    assert "12.50 EUR BY-HAND" in page.text
    assert f'data-copy="https://pay.example/pay/{payment}"' in page.html
    assert "<svg" in page.html
    assert audited(shop) == [(visitor.user_id, "payment.create", payment)]


async def test_a_form_that_is_sent_twice_creates_once(shop: Shop) -> None:
    visitor = await sign_in(shop)
    sent = form(shop) | {"once": "0123456789"}
    first, again = await visitor.post(LIST, sent), await visitor.post(LIST, sent)
    assert first.to == again.to
    assert len(audited(shop)) == 1


async def test_a_form_that_is_sent_again_a_while_later_creates_nothing_more(shop: Shop) -> None:
    visitor = await sign_in(shop)
    sent = form(shop) | {"once": "0123456789"}
    first = await visitor.post(LIST, sent)
    await trio.sleep(90)
    again = await visitor.post(LIST, sent)
    assert (again.status, again.to) == (303, first.to)
    assert len(audited(shop)) == 1
    longer = await visitor.post(LIST, sent | {"lifetime": "360"})
    assert "something else in it" in longer.text
    assert len(audited(shop)) == 1


async def test_who_goes_back_and_sends_the_form_with_another_amount_is_told_what_it_did(shop: Shop) -> None:
    visitor = await sign_in(shop)
    sent = form(shop) | {"once": "0123456789"}
    await visitor.post(LIST, sent)
    refused = await visitor.post(LIST, sent | {"amount": "13.50"})
    assert refused.status == 400
    assert "This form was sent before, with something else in it, and that was done." in refused.text
    assert "Idempotency-Key" not in refused.text
    fresh = refused.hidden("once")
    assert (await visitor.post(LIST, sent | {"amount": "13.50", "once": fresh})).status == 303
    assert len(audited(shop)) == 2


async def test_a_scenario_that_was_cut_off_and_goes_on_is_one_act(shop: Shop) -> None:
    visitor = await sign_in(shop)
    run, sent = f"{LIST}/scenario", {"scenario": "happy-path", "once": "0123456789"}
    async with shop.after_writes(4):  # its choice, the payment, an offer, and the confirm
        assert (await visitor.post(run, sent)).status == 503
    made, again = await visitor.post(run, sent), await visitor.post(run, sent)
    assert (made.status, made.to) == (303, again.to)
    payment = made.to.rpartition("/")[2]
    acts = [act for act in audited(shop) if act[1] in ("payment.create", "payment.scenario")]
    assert acts == [(visitor.user_id, name, payment) for name in ("payment.create", "payment.scenario")]


async def test_what_a_key_creates_is_no_persons_act(shop: Shop) -> None:
    await shop.pay()
    assert audited(shop) == []


async def test_a_refused_form_keeps_what_was_typed(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for wrong, words in (
        ({"amount": "12.505"}, "An amount in EUR is more than zero, with at most 2 decimals"),
        ({"amount": "0"}, "An amount in EUR"),
        ({"currency": "XYZ"}, "Choose a currency."),
        ({"lifetime": "7"}, "Choose how long"),
        ({"merchant": ""}, "Choose a merchant."),
        ({"merchant": "mrch_other"}, "no such merchant"),
        ({"success_url": "https://shop.example/ok"}, "Give both addresses"),
        ({"success_url": "http://a.example", "error_url": "https://b.example"}, "Give both addresses"),
        ({"reference": ""}, "Reference:"),
    ):
        found = await visitor.post(LIST, form(shop, **wrong))
        assert found.status in (400, 404, 422), wrong
        assert words in found.html, wrong
        assert 'name="reference"' in found.html
    assert audited(shop) == []


async def test_without_a_destination_a_scenario_says_in_the_pages_words_what_to_do_first(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")
    await shop.new_merchant(pays=False)
    found = await visitor.post(f"{LIST}/scenario", {"scenario": "happy-path"})
    assert found.status == 400
    assert "say on its page where its money goes" in found.text
    assert "/v1/" not in found.text


async def test_without_a_merchant_it_says_what_to_do_first(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")
    found = await visitor.get(f"{LIST}/create")
    assert "First create a merchant" in found.text
    assert '<a href="/d/test/merchants">create a merchant</a>' in found.html


async def test_a_merchant_with_nowhere_to_be_paid_is_told_what_to_do_on_its_page(shop: Shop) -> None:
    visitor = await sign_in(shop)
    found = await visitor.post(LIST, form(shop, merchant=await shop.new_merchant(pays=False)))
    assert found.status == 400
    assert "First say on its page where its money goes." in found.text


@pytest.mark.parametrize(
    ("text", "currency", "value"),
    [
        ("12.5", "EUR", 1250),
        ("12,50", "EUR", 1250),
        ("7", "JPY", 7),
        ("1.005", "KWD", 1005),
        ("3", "USD", 300),
    ],
)
def test_an_amount_is_read_in_the_currencys_own_units(text: str, currency: str, value: int) -> None:
    assert minor_units(text, currency) == value


@pytest.mark.parametrize("text", ["", "x", "-1", "0.00", "1.234", "1e5", "1 000", ".5", "١"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams):
        minor_units(text, "USD")


def test_a_comma_that_may_part_thousands_is_not_guessed_at() -> None:
    assert minor_units("1,25", "KWD") == 1250
    with pytest.raises(InvalidParams, match=r"nothing between the thousands, such as 1250\.500"):
        minor_units("1,250", "KWD")


def test_an_amount_of_a_currency_without_decimals_is_told_so() -> None:
    with pytest.raises(InvalidParams, match=r"with no decimals and .*, such as 1250\.$"):
        minor_units("12.50", "JPY")


def test_an_amount_with_too_many_digits_is_told_how_many_there_may_be() -> None:
    assert minor_units("9" * 16, "USD") == int("9" * 16 + "00")
    for text, currency, words in (
        ("9" * 17, "USD", "at most 16 digits before the decimals"),
        ("9" * 19, "USD", "at most 16 digits before the decimals"),
        ("9" * 19, "JPY", "at most 18 digits."),
    ):
        with pytest.raises(InvalidParams, match=words):
            minor_units(text, currency)


async def test_a_scenario_is_run_and_leads_to_its_payment(shop: Shop) -> None:
    visitor = await sign_in(shop, Role.SUPPORT)
    page = await visitor.post("/d/test/payments/scenario", {"scenario": "cancelled"})
    payment = await shop.call("GET", f"/v1/payments/{page.to.rpartition('/')[2]}")
    assert (page.status, payment.body["status"]) == (303, "cancelled")
    assert "Run scenario" in (await (await sign_in(shop)).get("/d/test/payments/create")).text
    wrong = await visitor.post("/d/test/payments/scenario", {"scenario": "moon"})
    assert (wrong.status, "Choose a scenario" in wrong.text) == (400, True)
    viewer = await (await sign_in(shop, Role.VIEWER)).post(
        "/d/test/payments/scenario", {"scenario": "cancelled"}
    )
    assert viewer.status == 403
