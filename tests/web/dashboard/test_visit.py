"""What a handler sees and how it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store.sessions import Session, SignedIn
from payd.store.users import User
from payd.web.call import Answer, Request
from payd.web.dashboard.cookies import Cookies
from payd.web.dashboard.routes import Page
from payd.web.dashboard.visit import Visit
from tests.shop import Shop
from tests.visitor import sign_in

NOW = 1_780_000_000_000


def visit(shop: Shop, role: Role = Role.OWNER, **form: str) -> Visit:
    session = Session("ses_1", "usr_1", shop.account_id, "test", NOW, NOW, NOW, "203.0.113.7", "a browser")
    user = User("usr_1", "a@example.com", "-", 0, None, 0)
    request = Request("POST", "/d/test/x", {"q": [" a "]})
    made = Visit(request, shop.house, {}, "req_1", Cookies.at("https://pay.example"), NOW)
    return replace(
        made, signed_in=SignedIn(session, user, role), form={name: [one] for name, one in form.items()}
    )


async def test_what_was_typed_has_no_spaces_around_it(shop: Shop) -> None:
    here = visit(shop, name="  Café ")
    assert (here.typed("name"), here.typed("other"), here.query("q")) == ("Café", "", "a")


async def test_links_are_of_this_mode_or_whole(shop: Shop) -> None:
    here = visit(shop)
    assert here.to("payments", status="failed", page=None) == "/d/test/payments?status=failed"
    assert here.to("/settings/users") == "/settings/users"


async def test_the_api_is_asked_as_this_person_and_a_form_sent_twice_acts_once(shop: Shop) -> None:
    here = visit(shop, once="mark")
    body = {"referenceId": "R", "amount": {"unit": "iso4217/USD", "value": "100"}}
    first = await here.ask("POST", "/v1/payments", body, merchant_id=shop.merchant_id)
    again = await here.ask("POST", "/v1/payments", body, merchant_id=shop.merchant_id)
    assert first["paymentId"] == again["paymentId"]
    assert here.caller.actor == "usr_1"
    found = await here.ask("GET", "/v1/payments", query={"referenceId": "R"})
    assert len(found["data"]) == 1


async def test_a_role_sees_what_it_may_do(shop: Shop) -> None:
    assert visit(shop).may("manage_users")
    assert not visit(shop, Role.SUPPORT).may("manage_users")


async def test_a_refused_form_is_shown_again_with_what_was_typed_but_for_secrets(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(visit: Visit) -> Answer:
        raise InvalidParams("That cannot be.")

    async def shows(visit: Visit) -> Answer:
        assert visit.frame.typed == {"name": "<Café>"}
        return visit.page("error.html", heading="", body="", request_id="")

    page = Page("POST", "/d/{mode}/x", refuses, "view", shown_by=shows)
    visitor = await sign_in(shop)
    token = await visitor.token()
    found_there = ({"POST": page}, {"mode": "test"})
    monkeypatch.setattr("payd.web.dashboard.dispatch.find_pages", lambda path: found_there)
    found = await visitor.post("/d/test/x", {"name": "<Café>", "password": "secret"}, token=token)
    assert found.status == 400
    assert "That cannot be." in found.text
    assert "secret" not in found.html
