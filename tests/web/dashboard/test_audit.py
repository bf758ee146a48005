"""The audit log: acts of all places together, of one account alone."""

from __future__ import annotations

import re
from pathlib import Path

from payd.core.period import DAY_MS
from payd.store.audit import insert_audit
from payd.store.db import Tx
from payd.web.dashboard.audit import SHOWN
from tests.shop import Shop, open_shop
from tests.visitor import sign_in

HERE = "/settings/audit"


async def test_acts_on_people_and_on_each_mode_stand_together(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        owner = await sign_in(shop, email="ada@example.com")
        await owner.post("/settings/users", {"role": "viewer"})
        page = await owner.get(HERE)
        assert "People ada@example.com link.invite" in page.text
        assert "Test mode test key.create" in page.text
        assert "Live mode test key.create" in page.text
        live = await owner.get(f"{HERE}?where=live")
        assert "link.invite" not in live.text
        assert "key.create" in live.text


async def test_a_test_clock_that_was_moved_hides_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        owner = await sign_in(shop, email="ada@example.com")
        await owner.post("/settings/users", {"role": "viewer"})
        await shop.new_key(realm="live")

        def fill(tx: Tx) -> None:
            at_ms = shop.realm.clock.now_ms() + 30 * DAY_MS
            for number in range(2 * SHOWN):
                insert_audit(
                    tx,
                    at_ms=at_ms,
                    account_id=shop.account_id,
                    actor="cli",
                    act="x.y",
                    subject=f"x{number:03}",
                )

        await shop.realm.db.write(fill)
        page = await owner.get(HERE)
        assert "People ada@example.com link.invite" in page.text
        assert "Live mode test key.create" in page.text
        rows = re.findall(r"\bx[0-9]{3}\b", page.text)
        assert rows == [f"x{number:03}" for number in range(2 * SHOWN)][: -len(rows) - 1 : -1]
        assert page.html.count("<tr>") == SHOWN + 1


async def test_another_accounts_acts_are_its_own(shop: Shop) -> None:
    owner = await sign_in(shop)
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    stranger = await sign_in(shop, account_id=other)
    await stranger.post("/settings/users", {"role": "viewer", "email": "secret@example.com"})
    assert "secret@example.com" in (await stranger.get(HERE)).text
    assert "secret@example.com" not in (await owner.get(HERE)).text


async def test_older_ones_are_a_page_away_and_none_is_left_out(shop: Shop) -> None:
    def fill(tx: Tx) -> None:
        for number in range(120):
            insert_audit(
                tx, at_ms=number, account_id=shop.account_id, actor="cli", act=f"act.{number:03}", subject="x"
            )

    await shop.house.office.write(fill)
    owner = await sign_in(shop)
    path, seen = f"{HERE}?where=office", []
    while path:
        page = await owner.get(path)
        seen += [word for word in page.text.split() if word.startswith("act.")]
        path = page.html.partition('class="button" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert seen == [f"act.{number:03}" for number in reversed(range(120))]


async def test_who_acts_reads_as_people_say_it(shop: Shop) -> None:
    owner = await sign_in(shop)

    def fill(tx: Tx) -> None:
        details = {"old": "<b>a</b>", "nothing": None}
        for actor in ("cli", "server", "key_1"):
            insert_audit(
                tx,
                at_ms=9,
                account_id=shop.account_id,
                actor=actor,
                act="x.y",
                subject=actor,
                details=details,
            )

    await shop.house.office.write(fill)
    page = await owner.get(HERE)
    assert "the command line x.y cli old: <b>a</b>" in page.text
    assert "payd x.y server" in page.text
    assert "key_1 x.y" in page.text
    assert "<b>a</b>" not in page.html


async def test_what_cannot_be_is_refused(shop: Shop) -> None:
    owner = await sign_in(shop)
    for query in ("where=live", "where=x", "where=test&before=x", "before=-1", "before=" + "9" * 30):
        assert (await owner.get(f"{HERE}?{query}")).status == 400
