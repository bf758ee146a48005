"""What operators do with merchants: the same as the API does, without a key."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payd.core.errors import NotFound, PaydError
from payd.core.picture import BYTES_MAX
from payd.web.admin import REQUEST_BYTES_MAX
from payd.web.merchant_commands import MERCHANT_COMMANDS
from tests.pictures import SVG, HerePictures, plain
from tests.shop import Shop, open_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data") as opened:
        opened.realm.logos.pictures = HerePictures()
        yield opened


async def test_a_merchant_is_made_and_listed(shop: Shop) -> None:
    made = await shop.do("merchant.create", name="Shop", email="a@b.c")
    assert made["id"] in [one["id"] for one in await shop.do("merchant.list")]


async def test_a_logo_is_sent_looked_at_and_taken_away(shop: Shop) -> None:
    assert await shop.do("merchant.logo", merchant=shop.merchant_id) is None
    picture = base64.b64encode(plain()).decode()
    sent = await shop.do("merchant.logo", merchant=shop.merchant_id, picture=picture)
    assert sent["state"] == "ready"
    assert await shop.do("merchant.logo", merchant=shop.merchant_id) == sent
    [listed] = await shop.do("merchant.list")
    assert listed["logo"] == sent
    assert await shop.do("merchant.logo", merchant=shop.merchant_id, remove=True) is None
    assert await shop.do("merchant.logo", merchant=shop.merchant_id) is None


async def test_what_is_no_logo_is_refused_as_in_the_api(shop: Shop) -> None:
    picture = base64.b64encode(SVG).decode()
    with pytest.raises(PaydError, match="SVG"):
        await shop.do("merchant.logo", merchant=shop.merchant_id, picture=picture)
    with pytest.raises(NotFound):
        await shop.do("merchant.logo", merchant="mrch_x/../x", remove=True)


async def test_the_largest_picture_fits_into_a_line_of_the_admin_socket() -> None:
    assert len(base64.b64encode(bytes(BYTES_MAX))) + 1024 < REQUEST_BYTES_MAX
    assert MERCHANT_COMMANDS["merchant.logo"].changes
