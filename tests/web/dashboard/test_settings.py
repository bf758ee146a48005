"""The settings page shows what is in effect and how it is changed, and no secret."""

from __future__ import annotations

from pathlib import Path

from payd.core.roles import Role
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
