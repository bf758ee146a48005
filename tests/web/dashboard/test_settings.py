"""The settings page shows what is in effect and how it is changed, and no secret."""

from __future__ import annotations

from pathlib import Path

from payd.core.roles import Role
from payd.store.audit import list_audit
from tests.shop import Shop, open_shop
from tests.visitor import sign_in

SETTINGS = "/settings/account"


async def test_an_owner_sees_the_account_and_what_payd_toml_says(shop: Shop) -> None:
    page = await (await sign_in(shop)).get(SETTINGS)
    account = shop.house.accounts[shop.account_id]
    for words in (
        account.name,
        account.id,
        account.api_version,
        "[payments]",
        "lifetime_s",
        "900 seconds",
        "[fee]",
    ):
        assert words in page.text
    assert (await (await sign_in(shop, Role.DEVELOPER)).get(SETTINGS)).status == 403


async def test_what_was_changed_is_marked_and_a_secret_is_not_shown(tmp_path: Path) -> None:
    secret = "https://hooks.example/T0/B0/very-secret"
    async with open_shop(tmp_path / "data", PAYD_FEE_PERCENT="1.5", PAYD_NOTIFY_URL=secret) as shop:
        page = await (await sign_in(shop)).get(SETTINGS)
    assert "1.5 percent changed" in page.text
    assert "(set)" in page.text
    assert "very-secret" not in page.html


NEWER = ("2026-02-18", "2026-02-19.preview", "2026-06-01", "2026-07-01", "2026-08-01.preview")


def audited(shop: Shop) -> list[tuple[str, str]]:
    acts = shop.house.office.point(list_audit, shop.account_id, None, 99)
    return [(one.actor, one.act) for one in acts if one.act.startswith("account.")]


async def test_an_owner_renames_the_account_and_nobody_else_does(shop: Shop) -> None:
    visitor = await sign_in(shop)
    before = shop.house.accounts[shop.account_id].name
    assert (await (await sign_in(shop, Role.DEVELOPER)).post(SETTINGS, {"name": "Mine"})).status == 403
    taken = next(one.name for one in shop.house.accounts.values() if one.id != shop.account_id)
    for name, words in ((taken, "There is an account named"), ("", "printable"), ("x" * 101, "printable")):
        page = await visitor.post(SETTINGS, {"name": name})
        assert (page.status, words in page.text) == (400, True)
    assert shop.house.accounts[shop.account_id].name == before
    assert (await visitor.post(SETTINGS, {"name": " Café Größe "})).to == SETTINGS
    page = await visitor.get(SETTINGS)
    assert "The account is named Café Größe." in page.text
    assert 'value="Café Größe"' in page.html
    assert audited(shop) == [(visitor.user_id, "account.rename")]
    assert (await shop.call("GET", "/v1/merchants")).status == 200


async def test_a_newer_version_is_chosen_once_and_never_an_older_one_or_a_preview(shop: Shop) -> None:
    visitor = await sign_in(shop)
    assert "Newer API version" not in (await visitor.get(SETTINGS)).text
    shop.house.versions = NEWER
    page = await visitor.get(SETTINGS)
    assert "2026-06-01 2026-07-01" in page.text
    assert "preview" not in page.text
    for version in ("2026-02-19.preview", "2027-01-01", ""):
        refused = await visitor.post(f"{SETTINGS}/version", {"version": version})
        assert refused.status == 400
    done = await visitor.post(f"{SETTINGS}/version", {"version": "2026-06-01"})
    assert done.to == SETTINGS
    answered = await shop.call("GET", "/v1/merchants")
    assert answered.headers["service-version"] == "2026-06-01"
    assert (await visitor.post(f"{SETTINGS}/version", {"version": "2026-02-18"})).status == 400
    older = await shop.call("GET", "/v1/merchants", service_version="2026-02-18")
    assert older.code == "api_version_downgrade"
    assert audited(shop) == [(visitor.user_id, "account.version")]


async def test_each_setting_of_a_merchant_is_a_click_away_and_a_form_without_scripts(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.get(SETTINGS)
    href = f"/d/test/merchants/{shop.merchant_id}"
    merchant = await visitor.get(href)
    for part in ("money", "looks", "asks", "frames"):
        assert f'href="{href}#{part}"' in page.html
        assert f'id="{part}"' in merchant.html
    for form in ("logo", "icon", "collect", "origins"):
        assert f'<form method="post" action="{href}/{form}"' in merchant.html
    assert "?lang=de" in page.text
    other = await sign_in(shop, account_id=list(shop.house.accounts)[-1])
    assert shop.merchant_id not in (await other.get(SETTINGS)).html


async def test_the_fee_is_said_with_who_sets_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_FEE_PERCENT="1.5", PAYD_FEE_BASE_USD="0.1") as shop:
        page = await (await sign_in(shop)).get(SETTINGS)
    assert "Fee 1.5 percent and 0.1 US dollars What whoever runs the server takes" in page.text
    assert "No account sets it: it is [fee] in payd.toml" in page.text
