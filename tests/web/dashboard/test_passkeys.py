"""Passkeys: asked for, made, used once, and refused in every wrong shape."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import webauthn  # noqa: F401  # while a thread imports it, virtual time would run on past what is fresh
from hypothesis import given
from hypothesis import strategies as st

from payd.entropy import new_id
from payd.store.second_factors import factors_of, list_passkeys, prune_challenges
from payd.web.command import real_ms
from payd.web.dashboard.dispatch import DOOR_S
from payd.web.dashboard.passkeys import CHALLENGE_MS, DOOR_MS, from_base64, host_for_passkeys, to_base64
from tests.authenticator import PRESENT, VERIFIED, Authenticator
from tests.shop import Shop
from tests.visitor import Page, Visitor, sign_in
from tests.web.dashboard.test_door import later
from tests.web.dashboard.test_proof import INVITE, invitations, person

ORIGIN = "https://pay.example"


def asked(page: Page) -> tuple[dict[str, Any], str]:
    """What a page asks the browser for, and what is to come back with the answer."""
    found = re.search(r'<script type="application/json">(.*?)</script>', page.html, re.S)
    assert found is not None, page.text
    return json.loads(found[1]), page.hidden("challenge") or page.hidden("proof_challenge")


async def with_passkey(shop: Shop) -> tuple[Visitor, Authenticator]:
    """Somebody who has set one up."""
    visitor, device = await sign_in(shop), Authenticator()
    options, challenge = asked(await visitor.get("/settings/security"))
    form = {"passkey": device.make(options, ORIGIN), "challenge": challenge, "name": "Phone"}
    assert "Keep these recovery codes" in (await visitor.post("/settings/security/passkeys", form)).text
    return visitor, device


async def enters(shop: Shop, answer: str, challenge: str, browser: Visitor) -> Page:
    return await browser.post("/login/passkey", {"passkey": answer, "challenge": challenge})


async def test_a_passkey_lets_in_however_often_others_fail_at_the_same_address(shop: Shop) -> None:
    _, device = await with_passkey(shop)
    browser, failed = Visitor(shop), 0
    while failed != 429:
        form = {"email": f"{new_id('', 0)}@example.com", "password": "wrong"}
        failed = (await Visitor(shop).post("/login", form)).status
    options, challenge = asked(await browser.get("/login"))
    assert (await enters(shop, device.sign(options, ORIGIN), challenge, browser)).status == 303


async def test_it_lets_its_person_in_and_nothing_else_is_asked(shop: Shop) -> None:
    owner, device = await with_passkey(shop)
    browser = Visitor(shop)
    options, challenge = asked(await browser.get("/login"))
    assert options["rpId"] == "pay.example"
    assert options["userVerification"] == "required"
    found = await enters(shop, device.sign(options, ORIGIN), challenge, browser)
    assert found.to == "/d/test/"
    assert f"usr_{owner.user_id[4:]}@example.com" in (await browser.get("/d/test/")).text
    [stored] = shop.house.office.point(list_passkeys, owner.user_id)
    assert (stored.name, stored.sign_count) == ("Phone", 1)
    assert stored.used_at_ms is not None


async def test_an_answer_opens_once(shop: Shop) -> None:
    _, device = await with_passkey(shop)
    browser = Visitor(shop)
    options, challenge = asked(await browser.get("/login"))
    device.count = -1  # as many devices do, it does not count
    answer = device.sign(options, ORIGIN)
    door = dict(browser.cookies)
    assert (await enters(shop, answer, challenge, browser)).status == 303
    office, good_until_ms = shop.house.office, real_ms(shop.house) + DOOR_MS
    await office.write(prune_challenges, good_until_ms, 9)
    again = Visitor(shop, cookies=door)
    assert (await enters(shop, answer, challenge, again)).status == 403


async def test_a_door_that_was_left_open_for_the_night_lets_in_and_no_other_page(shop: Shop) -> None:
    _, device = await with_passkey(shop)
    browser, late = Visitor(shop), Visitor(shop)
    doors = [(one, *asked(await one.get("/login"))) for one in (browser, late)]
    visitor = await person(shop)
    options, challenge = asked(await visitor.post("/settings/users", INVITE))
    later(shop, CHALLENGE_MS)
    form = {"proof_passkey": device.sign(options, ORIGIN), "proof_challenge": challenge}
    assert "This took too long" in (await visitor.post("/settings/users", INVITE | form)).text
    later(shop, DOOR_MS - CHALLENGE_MS - 1)
    found = [await enters(shop, device.sign(doors[0][1], ORIGIN), doors[0][2], browser)]
    later(shop, 1)
    found += [await enters(shop, device.sign(doors[1][1], ORIGIN), doors[1][2], late)]
    assert [one.status for one in found] == [303, 403]
    assert DOOR_MS == DOOR_S * 1000


async def test_an_answer_is_good_in_the_browser_that_asked_alone(shop: Shop) -> None:
    _, device = await with_passkey(shop)
    options, challenge = asked(await Visitor(shop).get("/login"))
    other = Visitor(shop)
    found = await enters(shop, device.sign(options, ORIGIN), challenge, other)
    assert found.status == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": "https://evil.example"},
        {"flags": PRESENT},
        {"flags": VERIFIED},
        {"host": "evil.example"},
    ],
    ids=str,
)
async def test_a_wrong_answer_opens_nothing(shop: Shop, wrong: dict[str, Any]) -> None:
    _, device = await with_passkey(shop)
    browser = Visitor(shop)
    options, challenge = asked(await browser.get("/login"))
    answer = device.sign(options, **({"origin": ORIGIN} | wrong))
    assert (await enters(shop, answer, challenge, browser)).status == 403


async def test_another_devices_signature_or_challenge_opens_nothing(shop: Shop) -> None:
    _, device = await with_passkey(shop)
    browser, thief = Visitor(shop), Authenticator()
    options, challenge = asked(await browser.get("/login"))
    assert (await enters(shop, thief.sign(options, ORIGIN), challenge, browser)).status == 403
    other = options | {"challenge": to_base64(b"x" * 32)}
    assert (await enters(shop, device.sign(other, ORIGIN), challenge, browser)).status == 403
    for answer in ("", "{}", "[]", '{"id": 1}', '{"id": "é"}', "x" * 5000):
        assert (await enters(shop, answer, challenge, browser)).status == 403


async def test_nesting_without_end_is_an_answer_that_is_wrong(shop: Shop) -> None:
    visitor, browser = await sign_in(shop), Visitor(shop)
    for nested in ("[" * 20_000, '{"id":"AAAA","more":' + "[" * 20_000):
        _, challenge = asked(await browser.get("/login"))
        assert (await enters(shop, nested, challenge, browser)).status == 403
        _, challenge = asked(await visitor.get("/settings/security"))
        form = {"passkey": nested, "challenge": challenge, "name": "Phone"}
        assert (await visitor.post("/settings/security/passkeys", form)).status == 400


async def test_one_that_was_removed_opens_nothing(shop: Shop) -> None:
    owner, device = await with_passkey(shop)
    [stored] = shop.house.office.point(list_passkeys, owner.user_id)
    assert (await owner.post("/settings/security/passkeys/remove", {"id": stored.id})).status == 303
    assert shop.house.office.point(factors_of, owner.user_id) == (False, 0, 0), "no codes without a factor"
    browser = Visitor(shop)
    options, challenge = asked(await browser.get("/login"))
    assert (await enters(shop, device.sign(options, ORIGIN), challenge, browser)).status == 403


async def test_anothers_passkey_proves_nothing(shop: Shop) -> None:
    _, device = await with_passkey(shop)
    visitor = await person(shop)
    options, challenge = asked(await visitor.post("/settings/users", INVITE))
    options["allowCredentials"] = []
    form = {"proof_passkey": device.sign(options, ORIGIN), "proof_challenge": challenge}
    found = await visitor.post("/settings/users", INVITE | form)
    assert (found.status, "another person" in found.text) == (403, True)
    assert invitations(shop) == 0


async def test_making_one_needs_what_was_asked_for(shop: Shop) -> None:
    visitor, device = await sign_in(shop), Authenticator()
    options, challenge = asked(await visitor.get("/settings/security"))
    wrong = (
        device.make(options, "https://evil.example"),
        device.make(options, ORIGIN, PRESENT),
        device.make(options | {"challenge": to_base64(b"x" * 32)}, ORIGIN),
        "{}",
        "",
    )
    for answer in wrong:
        form = {"passkey": answer, "challenge": challenge, "name": "x"}
        found = await visitor.post("/settings/security/passkeys", form)
        assert found.status == 400
        assert "could not be made" in found.text
    assert not shop.house.office.point(list_passkeys, visitor.user_id)


async def test_one_device_is_registered_once(shop: Shop) -> None:
    owner, device = await with_passkey(shop)
    options, challenge = asked(await owner.get("/settings/security"))
    assert [one["id"] for one in options["excludeCredentials"]] == [to_base64(device.id)]
    form = {"passkey": device.make(options, ORIGIN), "challenge": challenge, "name": "x"}
    assert (await owner.post("/settings/security/passkeys", form)).status == 400


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("https://pay.example/below", "pay.example"),
        ("http://localhost:8420", "localhost"),
        ("http://127.0.0.1:8420", None),
        ("https://203.0.113.7", None),
        ("https://[::1]", None),
        ("http://pay.example", None),
    ],
)
def test_they_belong_to_a_name_that_is_reached_safely(base_url: str, host: str | None) -> None:
    assert host_for_passkeys(base_url) == host


async def test_without_a_name_none_are_offered(shop: Shop) -> None:
    shop.house.base_url = "https://203.0.113.7"
    visitor = await sign_in(shop)
    page = await visitor.get("/settings/security")
    assert "data-passkey" not in page.html
    assert "Passkeys belong to a name" in page.text
    assert "8420" not in page.text  # payd may listen on any port


@given(st.binary(max_size=40))
def test_bytes_survive_their_text(data: bytes) -> None:
    assert from_base64(to_base64(data)) == data
