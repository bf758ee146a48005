"""Who gets in, and who does not: every page and form of the table, tried by everybody who must not pass."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import trio

from payd.core.ids import Realm, hash_api_key
from payd.core.roles import LEAST, Role
from payd.core.settlement_change import SettlementChange
from payd.entropy import new_id
from payd.store.apps import insert_app
from payd.store.db import Tx
from payd.store.keys import find_key
from payd.store.sessions import IDLE_MS, LIFETIME_MS, SEEN_EVERY_MS, list_sessions
from payd.store.settlement_changes import put_change
from payd.web.command import real_ms
from payd.web.dashboard.proof import FRESH_MS
from payd.web.dashboard.routes import PAGES, Page
from tests.shop import ETH_BASE, WALLET, Shop, open_shop
from tests.visitor import FORM, OWN, Visitor, add_session, add_user, sign_in
from tests.visitor import Page as Answered

SIGNED_IN: Final = [page for page in PAGES if page.may is not None]
FORMS: Final = [page for page in PAGES if page.method == "POST"]
IN_MODE: Final = [page for page in PAGES if page.in_mode]
# One of each in a shop of another account: nothing of it may ever be shown.
SECRETS: Final = ("Other Shop", "OTHER-ORDER", "other@example.com", "OTHER-HOOK")


def name_of(page: Page) -> str:
    return f"{page.method} {page.path}"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", live=True) as opened:
        yield opened


def dump(shop: Shop) -> list[object]:
    """Everything that is stored, but for what a mere visit may write."""

    def rows(tx: Tx) -> list[object]:
        tables = tx.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'sessions'")
        return [(name, tx.execute(f'SELECT * FROM "{name}"').fetchall()) for (name,) in tables.fetchall()]

    return [
        *shop.house.office.point(rows),
        *(table for one in shop.house.realms.values() for table in one.db.point(rows)),
    ]


async def ids_of(shop: Shop, account: str, realm: Realm) -> dict[str, str]:
    """What a path may ask for, of one of the shop's two accounts."""
    key = shop.keys[f"{realm}.{account}"]
    made = await shop.call(
        "POST",
        "/v1/merchants",
        {"merchantName": "Other Shop", "merchantEmail": "other@example.com"},
        key=key,
        idempotency_key="ids-1",
    )
    merchant = made.body["merchant"]["id"]
    ids = {"id": merchant, "merchant": merchant, "merchant_id": merchant}
    opened = shop.house.realms[realm].db
    known = opened.point(find_key, hash_api_key(key))
    assert known is not None
    ids["key"], account_id = known.id, known.account_id
    app_id = new_id("app_t" if realm == "test" else "app_l", 0)
    named = {"app_id": app_id, "account_id": account_id, "name": "Other Shop", "actor": "test"}
    ids["app"] = (await opened.write(insert_app, now_ms=0, **named)).id
    if realm == "test":
        ids["destination"] = await shop.register(
            merchant,
            ETH_BASE,
            f"eip155:8453:{WALLET}",
            key=key,
        )
        await opened.write(put_change, waiting(ids["destination"], merchant, account_id))
        ids["job"] = await hook_that_waits(shop, key)
        body = {"referenceId": "OTHER-ORDER", "amount": {"unit": "iso4217/USD", "value": "100"}}
        paid = await shop.call("POST", "/v1/payments", body, key=key, merchant_id=merchant)
        ids["payment"] = ids["payment_id"] = paid.body["paymentId"]
        [delivery] = (await shop.call("GET", "/v1/webhooks/deliveries", key=key)).body["data"]
        ids |= {"delivery": delivery["id"], "event": delivery["eventId"]}
    return ids


def waiting(destination: str, merchant: str, account_id: str) -> SettlementChange:
    """A change of a destination that somebody could take back."""
    return SettlementChange(destination, merchant, account_id, f"eip155:8453:{WALLET}", "cli", 0, 1 << 41)


async def hook_that_waits(shop: Shop, key: str) -> str:
    """An endpoint that is owed events and sent none, and a job of it that has ended; the job."""
    hook = "/v1/webhooks/endpoint"
    await shop.call("PUT", hook, {"url": "https://93.184.216.34/OTHER-HOOK"}, key=key)
    since = {"since": shop.realm.clock.now_ms() // 1000}
    job = await shop.call("POST", "/v1/webhooks/replay-missing", since, key=key)
    await shop.realm.deliveries.drained(shop.realm.clock.now_ms())
    await shop.call("POST", f"{hook}/pause", key=key)
    return str(job.body["id"])


def paths(page: Page, mode: str, ids: dict[str, str]) -> list[str]:
    """The page's path with these ids; where a parameter could be any of them, with each."""
    path = page.path.replace("{mode}", mode)
    names = re.findall(r"\{(\w+)\}", path)
    if not names:
        return [path]
    found = set()
    for one in ids.values():
        filled = path
        for name in names:
            filled = filled.replace(f"{{{name}}}", ids.get(name, one))
        found.add(filled)
    return sorted(found)


async def try_out(visitor: Visitor, page: Page, path: str, **how: Any) -> tuple[Answered, bool, str]:
    """What comes of a page or a form, and of the whole house."""
    before = dump(visitor.shop)
    found = await (visitor.get(path) if page.method == "GET" else visitor.post(path, **how))
    assert not any(secret in found.html for secret in SECRETS), f"{name_of(page)} at {path} shows it"
    return (
        found,
        dump(visitor.shop) != before,
        f"{name_of(page)} at {path}: {found.status} {found.text[:200]}",
    )


async def test_without_a_session_nothing_is_shown_and_nothing_is_done(shop: Shop) -> None:
    ids = await ids_of(shop, "one", "test")
    for page in SIGNED_IN:
        for path in paths(page, "test", ids):
            found, changed, where = await try_out(Visitor(shop), page, path)
            assert (found.status, found.html, changed) == (303, "", False), where
            assert found.to.startswith("/login"), where


async def test_a_role_that_is_too_little_is_told_so(shop: Shop) -> None:
    ids = await ids_of(shop, "one", "test")
    for role in (Role.VIEWER, Role.SUPPORT, Role.DEVELOPER):
        visitor = await sign_in(shop, role)
        for page in SIGNED_IN:
            least = LEAST[page.may] if page.may is not None else role
            if role.includes(least):
                continue
            for path in paths(page, "test", ids):
                found, changed, where = await try_out(visitor, page, path)
                assert (found.status, changed) == (403, False), where
                assert f"needs the role {least.value}" in found.text, where


async def test_another_account_sees_and_moves_nothing_of_this_one(shop: Shop) -> None:
    ids = await ids_of(shop, "two", "test")
    for page in SIGNED_IN:
        visitor = await sign_in(shop, Role.OWNER)
        for path in paths(page, "test", ids):
            found, changed, where = await try_out(visitor, page, path, values={"id": ids["id"]})
            if "{" in page.path.replace("{mode}", ""):
                assert found.status in (400, 404), where
                assert not changed, where


async def test_one_mode_shows_and_moves_nothing_of_the_other(shop: Shop) -> None:
    ids = await ids_of(shop, "one", "test")
    for page in IN_MODE:
        visitor = await sign_in(shop)
        for path in paths(page, "live", ids):
            found, changed, where = await try_out(visitor, page, path, values={"id": ids["id"]})
            if "{" in page.path.replace("{mode}", ""):
                assert found.status in (400, 404), where
                assert not changed, where


async def test_a_form_without_its_token_does_nothing(shop: Shop) -> None:
    ids = await ids_of(shop, "one", "test")
    another = await (await sign_in(shop)).token()
    for page in FORMS:
        visitor = await sign_in(shop) if page.may is not None else Visitor(shop)
        for path in paths(page, "test", ids):
            for token in ("", "0" * 64, "é", another):
                found, changed, where = await try_out(visitor, page, path, token=token)
                assert (found.status, changed) == (403, False), where
                assert "too old" in found.text, where


FOREIGN: Final = (
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example"},
    {"origin": "null", "sec-fetch-site": "cross-site"},
    {"origin": "https://pay.example", "sec-fetch-site": "same-site"},
)


async def test_another_sites_form_does_nothing(shop: Shop) -> None:
    ids = await ids_of(shop, "one", "test")
    for page in FORMS:
        visitor = await sign_in(shop) if page.may is not None else Visitor(shop)
        token = await visitor.token()
        before = dump(shop)
        for path in paths(page, "test", ids):
            for headers in FOREIGN:
                found = await visitor.send("POST", path, FORM | headers, f"form_token={token}".encode())
                assert found.status == 403, path
                assert "another site" in found.text
        assert dump(shop) == before


def age(tx: Tx, by_ms: int) -> None:
    """Have every session's proof be older."""
    tx.execute("UPDATE sessions SET proved_at_ms = proved_at_ms - ?", (by_ms,))


# What moves money, opens a door that outlives the session, shows a secret, or cannot be undone.
HARMFUL: Final = {
    "POST /prove",
    "POST /settings/security/password",
    "GET /settings/security/app",
    "POST /settings/security/app",
    "POST /settings/security/app/remove",
    "POST /settings/security/passkeys",
    "POST /settings/security/passkeys/remove",
    "POST /settings/security/codes",
    "POST /settings/users",
    "POST /settings/users/role",
    "POST /settings/users/remove",
    "POST /d/{mode}/webhooks",
    "POST /d/{mode}/webhooks/reveal",
    "POST /d/{mode}/webhooks/rotate",
    "POST /d/{mode}/webhooks/delete",
    "POST /d/{mode}/merchants/{merchant}/delete",
    "POST /d/{mode}/merchants/{merchant}/add",
    "POST /d/{mode}/merchants/{merchant}/destinations/{destination}",
    "POST /d/{mode}/merchants/{merchant}/destinations/{destination}/compare",
    "POST /d/{mode}/merchants/{merchant}/destinations/{destination}/delete",
    "POST /d/{mode}/keys/live",
}


def test_what_does_harm_is_known_by_name() -> None:
    assert {name_of(page) for page in PAGES if page.proof} == HARMFUL


async def test_what_does_harm_asks_again_who_it_is(shop: Shop) -> None:
    ids = await ids_of(shop, "one", "test")
    visitor = await sign_in(shop)
    await shop.house.office.write(age, FRESH_MS)
    asking = [page for page in PAGES if page.proof]
    assert asking
    for page in asking:
        for path in paths(page, "test", ids):
            how: dict[str, Any] = {"values": {"kept": "<b>"}} if page.method == "POST" else {}
            found, changed, where = await try_out(visitor, page, path, **how)
            assert (found.status, changed) == (403, False), where
            assert "Confirm that it is you" in found.text, where
            if page.method == "POST":
                assert found.hidden("kept") == "<b>", where


async def test_the_bare_host_leads_people_to_the_dashboard_and_programs_nowhere(shop: Shop) -> None:
    assert (await Visitor(shop).get("/")).to == "/d/test/"
    for accept in ("application/json", "*/*"):
        found = await shop.call("GET", "/", key=None, accept=accept)
        assert (found.status, found.code) == (404, "not_found")
        assert (
            found.body["message"]
            == "At / browsers find the dashboard, and programs nothing: /docs has every path."
        )


async def test_a_word_that_is_said_once_is_for_a_whole_page(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await visitor.post("/d/test/keys/apps", {"app_name": "Till"})
    await visitor.get("/d/test/", hx_request="true")
    assert "The app id is made." in (await visitor.get("/d/test/keys")).text


async def test_a_form_is_not_led_to_where_a_slash_was_forgotten(shop: Shop) -> None:
    visitor = await sign_in(shop)
    assert (await visitor.get("/d/test")).to == "/d/test/"
    assert (await visitor.post("/d/test", {"a": "b"})).status in (404, 405)


async def test_who_is_sent_to_the_door_is_sent_back_afterwards(shop: Shop) -> None:
    found = await Visitor(shop).get("/d/test/?status=failed")
    assert found.to == "/login?next=%2Fd%2Ftest%2F%3Fstatus%3Dfailed"
    part = await Visitor(shop).get("/d/test/", hx_request="true")
    assert (part.status, part.got.headers["hx-redirect"]) == (401, "/login")


async def test_who_sends_a_form_after_the_session_ended_reads_so_and_comes_back_to_it(shop: Shop) -> None:
    visitor, base_url = Visitor(shop), shop.house.base_url
    for at, back in (
        (
            f"{base_url}/d/test/payments/create?again=1",
            "/login?next=%2Fd%2Ftest%2Fpayments%2Fcreate%3Fagain%3D1",
        ),
        ("https://evil.example/d/test/", "/login"),
        (f"{base_url}.evil.example/d/test/", "/login"),
    ):
        sent = await visitor.post("/d/test/payments", {"amount": "3.33"}, headers={"referer": at})
        assert (sent.status, sent.to) == (303, back)
        assert "You were signed out meanwhile, so nothing was done." in (await visitor.get(sent.to)).text
        assert "signed out" not in (await visitor.get(sent.to)).text


async def test_a_session_ends_when_it_is_idle_old_or_ended(shop: Shop) -> None:
    for spoil in (
        f"UPDATE sessions SET seen_at_ms = seen_at_ms - {IDLE_MS}",
        f"UPDATE sessions SET created_at_ms = created_at_ms - {LIFETIME_MS}",
        # The clock was far ahead then, and was set right.
        f"UPDATE sessions SET created_at_ms = created_at_ms + {2 * LIFETIME_MS}",
        "DELETE FROM sessions",
        "DELETE FROM memberships",
        "DELETE FROM users",
    ):
        visitor = await sign_in(shop)
        assert (await visitor.get("/d/test/")).status == 200
        await shop.house.office.write(run, spoil)
        assert (await visitor.get("/d/test/")).to.startswith("/login"), spoil


def run(tx: Tx, statement: str) -> None:
    tx.execute(statement)


@pytest.mark.parametrize("token", ["", "x", "0" * 36, "0" * 35 + "'", "\xe9" * 36])
async def test_a_token_that_was_never_handed_out_opens_nothing(shop: Shop, token: str) -> None:
    await sign_in(shop)
    visitor = Visitor(shop, cookies={"__Host-payd-session": token})
    assert (await visitor.get("/d/test/")).to.startswith("/login")


async def test_a_visit_is_stored_once_a_minute(shop: Shop) -> None:
    visitor = await sign_in(shop)
    office = shop.house.office

    def seen() -> int:
        return office.point(list_sessions, visitor.user_id, real_ms(shop.house))[0].seen_at_ms

    begun = seen()
    await visitor.get("/d/test/")
    assert seen() == begun
    await office.write(run, f"UPDATE sessions SET seen_at_ms = seen_at_ms - {SEEN_EVERY_MS}")
    await visitor.get("/d/test/")
    assert seen() >= begun


async def test_a_page_that_keeps_itself_up_to_date_is_no_use_of_a_session(shop: Shop) -> None:
    visitor, office = await sign_in(shop), shop.house.office
    await office.write(run, f"UPDATE sessions SET seen_at_ms = seen_at_ms - {IDLE_MS} + 60000")
    assert (await visitor.get("/d/test/payments", hx_request="true")).status == 200
    await trio.sleep(61)
    asked = await visitor.get("/d/test/payments", hx_request="true")
    assert (asked.status, asked.got.headers["hx-redirect"]) == (401, "/login")


async def test_a_page_whose_session_is_over_comes_back_to_itself(shop: Shop) -> None:
    visitor = await sign_in(shop)
    here = "/d/test/payments?q=ORDER-1&status=failed"
    visitor.cookies.clear()
    asked = await visitor.get(
        "/d/test/payments", hx_request="true", hx_current_url=f"https://pay.example{here}#x"
    )
    door = asked.got.headers["hx-redirect"]
    assert (asked.status, door) == (401, f"/login?{urlencode({'next': here})}")
    again = await sign_in(shop)
    assert (await again.get(door)).to == here
    for foreign in ("https://evil.example/x", "//evil.example", "https://[", "javascript:alert(1)"):
        asked = await visitor.get("/d/test/payments", hx_request="true", hx_current_url=foreign)
        assert asked.status == 401
        assert (await again.get(asked.got.headers["hx-redirect"])).to.startswith("/d/test/")


async def test_pages_are_shown_while_the_office_takes_no_writes(shop: Shop) -> None:
    visitor, office = await sign_in(shop), shop.house.office
    await office.write(run, f"UPDATE sessions SET seen_at_ms = seen_at_ms - {SEEN_EVERY_MS}")
    office._failure = "disk full"
    pages = [await visitor.get(path) for path in ("/status", "/d/live/", "/d/test/payments")]
    office._failure = None
    assert [page.status for page in pages] == [200, 200, 200]
    assert "disk full" in pages[0].text
    assert "disk full" in pages[1].text


async def test_pages_of_no_mode_lead_back_to_the_mode_one_came_from(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await visitor.get("/d/live/")
    assert (await visitor.get("/login")).to == "/d/live/"


@pytest.mark.parametrize("path", ["/d/other/", "/d/test/nothing", "/settings/nothing", "/d/tes/", "/d/"])
async def test_what_is_not_there_looks_the_same_to_everybody(shop: Shop, path: str) -> None:
    visitor = await sign_in(shop)
    assert (await visitor.get(path)).status in (303, 404)
    found = await Visitor(shop).get(path)
    assert found.status in (303, 404)
    assert "Sign in" in found.text or found.to.startswith("/login")


async def test_a_strangers_path_adds_no_header_and_can_be_sent(shop: Shop) -> None:
    for mode, quoted in (("\r\nSet-Cookie: a=b", "%0D%0ASet-Cookie%3A%20a%3Db"), ("你", "%E4%BD%A0")):
        assert (await Visitor(shop).get(f"/d/{mode}")).to == f"/d/{quoted}/"


async def test_a_slash_that_was_forgotten_is_added(shop: Shop) -> None:
    assert (await (await sign_in(shop)).get("/d/test")).to == "/d/test/"


async def test_a_mode_that_does_not_run_says_what_is_missing(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        found = await (await sign_in(shop)).get("/d/live/")
    assert found.status == 404
    assert "Add [[chains]] to payd.toml" in found.text


async def test_no_cookie_is_for_scripts_other_sites_or_other_hosts(shop: Shop) -> None:
    page = await Visitor(shop).get("/login")
    [line] = page.got.cookies
    assert line.startswith("__Host-payd-door=")
    for part in ("; Path=/;", "; HttpOnly", "; SameSite=Lax", "; Secure"):
        assert part in line
    assert "Domain" not in line


async def test_a_page_has_the_strict_headers_of_pages(shop: Shop) -> None:
    found = (await (await sign_in(shop)).get("/d/test/")).got.headers
    assert found["cache-control"] == "no-store"
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "same-origin"
    assert found["cross-origin-opener-policy"] == "same-origin"
    assert "unsafe" not in found["content-security-policy"]
    assert "frame-ancestors 'none'" in found["content-security-policy"]
    assert found["request-id"].startswith("req_")


async def test_a_page_that_breaks_says_so_and_tells_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = await sign_in(shop)
    monkeypatch.setattr("payd.web.dashboard.home.first_steps", lambda tx, account_id: 1 / 0)
    found = await visitor.get("/d/test/")
    assert found.status == 500
    assert "division" not in found.html
    assert "req_" in found.text


async def test_a_stranger_is_slowed_down_like_anywhere(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_RATE_LIMITS_PER_IP="1") as shop:
        found = [(await Visitor(shop).get("/login")) for _ in range(4)]
    assert [one.status for one in found] == [200, 200, 429, 429]
    assert "Too many requests" in found[-1].text
    assert found[-1].got.headers["retry-after"]


async def test_each_page_is_counted_by_its_template(shop: Shop) -> None:
    await (await sign_in(shop)).get("/d/test/")
    assert shop.house.answered["/d/{mode}/", 200] == 1


async def test_a_browser_on_plain_http_keeps_a_session_for_each_port(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        shop.house.base_url = "http://127.0.0.1:8421"
        user = await add_user(shop.house, shop.account_id)
        token = await add_session(shop.house, user, shop.account_id)
        visitor = Visitor(shop, user, shop.account_id, {"payd-session-8421": token})
        assert (await visitor.get("/d/test/")).status == 200
        left = await visitor.post("/logout", headers=OWN | {"origin": "http://127.0.0.1:8421"})
        assert left.to == "/login"
        assert "payd-session-8421" not in visitor.cookies
        assert not shop.house.office.point(list_sessions, user, real_ms(shop.house))
