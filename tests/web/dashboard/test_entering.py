"""Where the door leads, and how long a wait is in words."""

from __future__ import annotations

import pytest

from payd.store.db import Tx
from payd.web.dashboard.entering import _NEXT, in_words
from tests.shop import Shop
from tests.visitor import Visitor, add_user


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (2, "2 seconds"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (61, "2 minutes"),
        (900, "15 minutes"),
    ],
)
def test_a_wait_is_told_in_words(seconds: int, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    "path", ["/d/test/", "/settings/users", "/join?token=0a", "/d/live/payments?a=b%20c&d=", "/status"]
)
def test_pages_of_ours_are_led_to(path: str) -> None:
    assert _NEXT.fullmatch(path)


@pytest.mark.parametrize(
    "path", ["/", "/pay/x", "/dx", "d/test", "/d/\\", "/d/é", "/d/#x", "/d/a b", "http://x/d/"]
)
def test_nothing_else_is(path: str) -> None:
    assert not _NEXT.fullmatch(path)


async def test_who_has_no_part_in_any_account_is_told_so(shop: Shop) -> None:
    hashed = await shop.house.passwords.hash("correct mule battery")
    await add_user(shop.house, shop.account_id, email="ada@example.com", password_hash=hashed)

    def leave(tx: Tx) -> None:
        tx.execute("DELETE FROM memberships")

    await shop.house.office.write(leave)
    form = {"email": "ada@example.com", "password": "correct mule battery"}
    found = await Visitor(shop).post("/login", form)
    assert found.status == 403
    assert "no part in any account" in found.text
