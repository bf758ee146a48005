"""The form that wallets show: what it asks, what it takes, and everything a stranger may try on it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from payd.core.option import OPTIONS_PER_ANSWER_MAX
from payd.store.collected import HOLDERS_MAX, holders_of
from payd.web.checkout.collect import PREFILL_MAX
from tests.shop import BUYER, SIGNATURE, WALLET, Got, Shop, open_shop
from tests.web.asking import FIELDS, SECRET, SHOWN, VALUES, ask_for, confirm, path_of, shown
from tests.web.checkout.test_routes import get, post, texts

OTHER = f"eip155:8453:{WALLET}"


async def asked(shop: Shop, accounts: tuple[str, ...] = (BUYER,)) -> tuple[str, str]:
    """A payment and the link of its form."""
    await ask_for(shop)
    payment = await shop.pay()
    path = f"/v1/gateway/payment/{payment}/options"
    found = await shop.call("POST", path, list(accounts))
    return payment, path_of(found.body["collectData"]["url"])


async def fill_in(shop: Shop, link: str, values: dict[str, str] | None = None, **headers: Any) -> Got:
    return await post(shop, link, urlencode(VALUES if values is None else values), **headers)


def state_of(found: Got) -> str:
    match = re.search(r'id="collect" data-state="(\w+)"', found.raw.decode())
    assert match is not None, found.raw
    return match[1]


def prefill(known: Any, alphabet: str = "standard") -> str:
    raw = json.dumps(known).encode()
    encode = base64.b64encode if alphabet == "standard" else base64.urlsafe_b64encode
    return quote(encode(raw).decode(), safe="")


async def test_the_form_asks_each_field_in_words_and_says_what_becomes_of_the_answers(shop: Shop) -> None:
    payment, link = await asked(shop)
    found = await get(shop, link)
    assert (found.status, state_of(found)) == (200, "form")
    said = texts(found)
    for words in (
        "Café Größe asks for these to take your payment of $25.00",
        "Full name",
        "Note (optional)",
        "I agree to the terms",
        "Deleted after 90 days",
        "do not enter anyone's real details",
        payment,
    ):
        assert words in said.replace("&#39;", "'"), words
    body = found.raw.decode()
    assert re.search(r'<input type="text" id="f-fullName" name="fullName"[^>]* autocomplete="name"', body)
    assert re.search(r'<input type="date" id="f-dob" name="dob"[^>]* required autocomplete="bday"', body)
    assert re.search(r'<input type="checkbox" id="f-tosConfirmed"[^>]* value="true" required>', body)
    assert not re.search(r'id="f-note"[^>]* required', body)


async def test_a_form_filled_in_by_plain_html_lets_the_payment_go_on(shop: Shop) -> None:
    payment, link = await asked(shop)
    sent = await fill_in(shop, link)
    assert (sent.status, sent.headers["location"]) == (303, link)
    done = await get(shop, link)
    assert state_of(done) == "done"
    assert "Go back to your wallet" in texts(done)
    [option] = await shop.options(payment, [BUYER])
    assert option["collectData"] is None
    assert (await confirm(shop, payment, option["id"])).body["status"] == "processing"
    assert (await shown(shop, payment))["fields"] == SHOWN


async def test_one_form_answers_for_all_accounts_in_its_link(shop: Shop) -> None:
    payment, link = await asked(shop, (BUYER, OTHER))
    await fill_in(shop, link)
    for option in await shop.options(payment, [BUYER, OTHER]):
        assert option["collectData"] is None
    assert len(shop.realm.db.point(holders_of, payment)) == 2


async def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_stays(shop: Shop) -> None:
    payment, link = await asked(shop)
    found = await fill_in(shop, link, {"fullName": "Ada <Byron>", "dob": "10.12.1815", "note": "x" * 201})
    assert (found.status, state_of(found)) == (422, "form")
    body, said = found.raw.decode(), texts(found)
    for words in (
        "Please look at this again",
        "Enter a date",
        "Tick this to go on",
        "200 characters at most",
    ):
        assert words in said
    for field in ("dob", "note", "tosConfirmed"):
        assert f'aria-invalid="true" aria-describedby="p-{field}"' in body
        assert f'<a href="#f-{field}">' in body
    assert "p-fullName" not in body
    assert 'value="Ada &lt;Byron&gt;"' in body
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_a_buyer_may_send_it_again_while_the_payment_is_open(shop: Shop) -> None:
    payment, link = await asked(shop)
    await fill_in(shop, link, VALUES | {"fullName": "Ada"})
    await fill_in(shop, link)
    [option] = await shop.options(payment, [BUYER])
    await confirm(shop, payment, option["id"])
    assert (await shown(shop, payment))["fields"] == SHOWN


async def test_answers_are_never_shown_again_to_who_has_the_link(shop: Shop) -> None:
    _, link = await asked(shop)
    await fill_in(shop, link)
    assert SECRET not in (await get(shop, link)).raw.decode()


@pytest.mark.parametrize("alphabet", ["standard", "url-safe"])
async def test_a_wallet_fills_in_what_it_knows_but_ticks_nothing(shop: Shop, alphabet: str) -> None:
    _, link = await asked(shop)
    known = VALUES | {"fullName": "Adaÿþ?>~", "dob": "not a date", "iban": "DE", "note": 7}
    found = await get(shop, f"{link}&prefill={prefill(known, alphabet)}")
    body = found.raw.decode()
    assert state_of(found) == "form"
    assert 'name="fullName" value="Adaÿþ?&gt;~"' in body
    assert 'name="dob" value=""' in body
    assert 'name="note" value=""' in body
    assert " checked" not in body
    assert "aria-invalid" not in body
    assert "prefill" not in body, "it is in no further link"


@pytest.mark.parametrize("text", ["x", "====", "W10=", "bnVsbA==", "%00", "é", "e30" * 9000, "[" * 4000])
async def test_a_prefill_that_cannot_be_read_is_none(shop: Shop, text: str) -> None:
    _, link = await asked(shop)
    found = await get(shop, f"{link}&prefill={quote(text)}")
    assert (found.status, state_of(found)) == (200, "form")


async def test_a_prefill_that_is_too_long_is_none(shop: Shop) -> None:
    _, link = await asked(shop)
    for pad, known in ((0, True), (PREFILL_MAX, False)):
        found = await get(shop, f"{link}&prefill={prefill({'fullName': 'Ada', 'pad': 'x' * pad})}")
        assert ('value="Ada"' in found.raw.decode()) is known


@pytest.mark.parametrize(
    "accounts", ["", "x", ",", f"{BUYER},", f"{BUYER},x", OTHER, f"{BUYER},{OTHER}", "%00", "eip155:8453"]
)
async def test_a_link_for_accounts_that_were_offered_nothing_takes_nothing(shop: Shop, accounts: str) -> None:
    payment, link = await asked(shop)
    wrong = f"{link.partition('?')[0]}?accounts={accounts}"
    for found in (await get(shop, wrong), await fill_in(shop, wrong)):
        assert found.status == 400
        assert "Go back to your wallet" in texts(found)
        assert state_of(found) == "closed", "the wallet is told"
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_a_link_without_accounts_takes_nothing(shop: Shop) -> None:
    _, link = await asked(shop)
    assert (await get(shop, link.partition("?")[0])).status == 400


async def test_a_stranger_fills_no_disk(shop: Shop) -> None:
    assert HOLDERS_MAX >= OPTIONS_PER_ANSWER_MAX
    many = tuple(f"eip155:8453:0x{number:040x}" for number in range(0x10000, 0x10000 + 50))
    payment, link = await asked(shop, many)
    assert (await fill_in(shop, link)).status == 303
    [_] = await shop.options(payment, [BUYER])
    more = f"{link.partition('?')[0]}?accounts={BUYER}"
    refused = await fill_in(shop, more)
    assert refused.status == 429
    assert len(shop.realm.db.point(holders_of, payment)) == HOLDERS_MAX


@pytest.mark.parametrize("to", ["processing", "succeeded", "failed", "expired", "cancelled"])
async def test_a_payment_that_is_over_asks_nothing_and_says_why(shop: Shop, to: str) -> None:
    payment, link = await asked(shop)
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})
    shown_page, sent = await get(shop, link), await fill_in(shop, link)
    assert (shown_page.status, sent.status) == (200, 409)
    for found in (shown_page, sent):
        assert state_of(found) == "closed"
        assert re.search(r'data-error="This payment ', found.raw.decode())
        assert "<form" not in found.raw.decode()
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_a_window_that_has_closed_asks_nothing_before_anybody_has_said_so(shop: Shop) -> None:
    payment, link = await asked(shop)
    shop.realm.clock.move_to_offset(3_600_000)
    assert "expired" in texts(await get(shop, link))
    assert state_of(await fill_in(shop, link)) == "closed"
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_a_payment_that_asks_nothing_is_done_at_once(shop: Shop) -> None:
    payment = await shop.pay()
    [_] = await shop.options(payment, [BUYER])
    assert state_of(await get(shop, f"/collect/{payment}?accounts={BUYER}")) == "done"


async def test_an_unknown_payment_is_said_to_people_to_wallets_and_to_programs(shop: Shop) -> None:
    for payment in ("pay_t" + "0" * 36, "pay_t", "x"):
        link = f"/collect/{payment}?accounts={BUYER}"
        found = await get(shop, link)
        assert (found.status, state_of(found)) == (404, "closed")
        assert 'data-error="No such payment. ' in found.raw.decode()
        assert "/static/collect.js" in found.raw.decode()
        assert (await get(shop, link, "application/json")).code == "payment_not_found"


async def test_a_form_of_another_site_is_refused(shop: Shop) -> None:
    payment, link = await asked(shop)
    for headers in (
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
    ):
        found = await fill_in(shop, link, None, **headers)
        assert found.status == 403
    wrong_type = await fill_in(shop, link, None, content_type="text/plain")
    assert wrong_type.status == 415
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_wallets_may_frame_the_form_and_nothing_else_of_the_policy_is_softer(shop: Shop) -> None:
    payment, link = await asked(shop)
    form = (await get(shop, link)).headers
    checkout = (await get(shop, f"/pay/{payment}")).headers
    refused = (await get(shop, "/collect/x")).headers
    policy = form["content-security-policy"]
    assert policy.endswith("frame-ancestors https: http://localhost:* http://127.0.0.1:*")
    assert refused["content-security-policy"] == policy
    strict = checkout["content-security-policy"]
    assert policy.partition("frame-ancestors")[0] == strict.partition("frame-ancestors")[0]
    assert form["cache-control"] == "no-store"
    assert form["referrer-policy"] == "no-referrer"


async def test_what_a_merchant_calls_a_field_is_text_and_nothing_else(shop: Shop) -> None:
    name = "<script>alert(1)</script>\"' onfocus=x"
    _, link = await asked(shop)
    await ask_for(shop, [FIELDS[0] | {"name": name}])
    body = (await get(shop, link)).raw.decode()
    assert "<script>alert" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39; onfocus=x" in body


async def test_a_form_with_every_kind_of_field_has_room_for_the_longest(shop: Shop) -> None:
    many = [{"id": f"f{number}", "type": "text", "name": "x" * 100} for number in range(12)]
    payment, link = await asked(shop)
    await ask_for(shop, many)
    sent = await fill_in(shop, link, {field["id"]: "日" * 200 for field in many})
    assert sent.status == 303
    [option] = await shop.options(payment, [BUYER])
    await shop.confirm(payment, option["id"], SIGNATURE)
    assert [len(one["value"]) for one in (await shown(shop, payment))["fields"]] == [200] * 12


async def test_the_form_says_how_long_answers_are_kept_here(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_PAYMENTS_COLLECTED_DAYS="7") as shop:
        _, link = await asked(shop)
        assert "Deleted after 7 days" in texts(await get(shop, link))


async def test_too_many_forms_of_one_address_are_slowed_down(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_RATE_LIMITS_PER_IP="1") as shop:
        _, link = await asked(shop)
        codes = [(await fill_in(shop, link)).status for _ in range(3)]
        assert codes == [303, 303, 429]
