"""Logos in the store: wishes that become pictures, and old ones that come too late."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from payd.core.picture import RETRIES_S
from payd.store.db import Database
from payd.store.logos import (
    PROBLEM_MAX,
    Logo,
    Owed,
    copies_due,
    count_failing,
    delete_logo,
    digest_of,
    find_logo,
    find_picture,
    follow_icon_url,
    keep_copy,
    logos_of,
    next_copy_ms,
    put_picture,
    record_failure,
    shown_logo,
    wish_copy,
)
from payd.store.merchants import Merchant, delete_merchant, insert_merchant
from payd.store.migrate import migrate, read_migrations

URL = "https://shop.example/logo.png"
OTHER = "https://shop.example/other.png"
FIRST, SECOND = b"RIFFxxxxWEBPfirst", b"RIFFxxxxWEBPsecond"


async def wished(db: Database, url: str = URL, at_ms: int = 1000) -> Owed:
    """A wish for a copy, and what is owed then."""
    await db.write(wish_copy, "mrch_1", url, at_ms)
    [owed] = db.point(copies_due, at_ms, 10)
    return owed


async def test_a_wish_is_due_at_once_and_shows_nothing(realm_db: Database) -> None:
    assert realm_db.point(next_copy_ms) is None
    await wished(realm_db)
    assert realm_db.point(next_copy_ms) == 1000
    assert realm_db.point(copies_due, 999, 10) == []
    assert realm_db.point(find_logo, "mrch_1") == Logo("mrch_1", URL, 1000, 0, None, None)
    assert realm_db.point(shown_logo, "mrch_1") is None


async def test_a_copy_is_shown_by_its_digest_and_is_owed_no_more(realm_db: Database) -> None:
    owed = await wished(realm_db)
    assert await realm_db.write(keep_copy, owed, FIRST)
    digest = digest_of(FIRST)
    assert realm_db.point(find_logo, "mrch_1") == Logo("mrch_1", URL, None, 0, None, digest)
    assert realm_db.point(find_picture, digest) == FIRST
    assert realm_db.point(find_picture, digest_of(SECOND)) is None
    assert realm_db.point(next_copy_ms) is None
    assert not await realm_db.write(keep_copy, owed, SECOND), "once"


async def test_the_picture_before_is_shown_until_the_new_one_is_there(realm_db: Database) -> None:
    await realm_db.write(keep_copy, await wished(realm_db), FIRST)
    owed = await wished(realm_db, OTHER)
    assert realm_db.point(shown_logo, "mrch_1") == digest_of(FIRST)
    await realm_db.write(record_failure, owed, "no", 1000, is_final=True)
    assert realm_db.point(shown_logo, "mrch_1") == digest_of(FIRST)
    await realm_db.write(keep_copy, await wished(realm_db, OTHER), SECOND)
    assert realm_db.point(shown_logo, "mrch_1") == digest_of(SECOND)
    assert realm_db.point(find_picture, digest_of(FIRST)) is None


async def test_the_copy_of_an_older_wish_comes_too_late(realm_db: Database) -> None:
    old = await wished(realm_db)
    new = await wished(realm_db, OTHER)
    assert not await realm_db.write(keep_copy, old, FIRST)
    assert await realm_db.write(record_failure, old, "no", 1000, is_final=True) is None
    assert await realm_db.write(keep_copy, new, SECOND)
    again = await wished(realm_db, OTHER)
    await realm_db.write(put_picture, "mrch_1", FIRST)
    assert not await realm_db.write(keep_copy, again, SECOND), "the merchant has sent one since"
    assert realm_db.point(shown_logo, "mrch_1") == digest_of(FIRST)


async def test_a_copy_of_what_was_taken_away_comes_too_late(realm_db: Database) -> None:
    old = await wished(realm_db)
    assert await realm_db.write(delete_logo, "mrch_1")
    assert not await realm_db.write(keep_copy, old, FIRST)
    await wished(realm_db, OTHER)
    assert not await realm_db.write(keep_copy, old, FIRST), "also where the count began again"
    assert not await realm_db.write(delete_logo, "mrch_2")


async def test_failures_wait_longer_each_and_then_it_is_over(realm_db: Database) -> None:
    owed = await wished(realm_db)
    now_ms = 1000
    for number, wait_s in enumerate(RETRIES_S, 1):
        logo = await realm_db.write(record_failure, owed, "no", now_ms, is_final=False)
        assert logo is not None
        assert (logo.failures, logo.due_at_ms) == (number, now_ms + wait_s * 1000)
        now_ms += wait_s * 1000
    logo = await realm_db.write(record_failure, owed, "x" * 1000, now_ms, is_final=False)
    assert logo is not None
    assert (logo.due_at_ms, logo.problem) == (None, "x" * PROBLEM_MAX)
    assert realm_db.point(count_failing) == 1
    await wished(realm_db)
    assert realm_db.point(count_failing) == 0, "wished again, it begins again"


async def test_icon_urls_mean_what_changed(realm_db: Database) -> None:
    async def follow(before: str | None, wanted: str | None) -> Logo | None:
        await realm_db.write(follow_icon_url, "mrch_1", before, wanted, 1000)
        return realm_db.point(find_logo, "mrch_1")

    assert await follow(None, None) is None
    wish = await follow(None, URL)
    assert wish is not None
    assert wish.source_url == URL
    await realm_db.write(record_failure, realm_db.point(copies_due, 1000, 1)[0], "no", 1000, is_final=True)
    again = await follow(URL, URL)
    assert again is not None
    assert (again.due_at_ms, again.problem) == (1000, None), "the same address is tried again"
    await realm_db.write(put_picture, "mrch_1", FIRST)
    sent = realm_db.point(find_logo, "mrch_1")
    assert await follow(URL, URL) == sent, "not over a logo that was sent"
    assert await follow(None, None) == sent
    assert await follow(URL, None) is None


async def test_logos_are_found_for_several_merchants_at_once(realm_db: Database) -> None:
    await realm_db.write(put_picture, "mrch_1", FIRST)
    await realm_db.write(put_picture, "mrch_2", FIRST)
    assert realm_db.point(logos_of, ["mrch_1", "mrch_2", "mrch_3"]).keys() == {"mrch_1", "mrch_2"}
    await realm_db.write(delete_logo, "mrch_1")
    assert realm_db.point(find_picture, digest_of(FIRST)) == FIRST, "the other merchant has the same"


async def test_a_logo_goes_with_its_merchant_and_with_no_others(realm_db: Database) -> None:
    merchant = Merchant("mrch_1", "acct_1", "Shop", "a@b.c", URL, "active", 1000)
    await realm_db.write(insert_merchant, merchant)
    await realm_db.write(put_picture, "mrch_1", FIRST)
    assert not await realm_db.write(delete_merchant, "acct_2", "mrch_1", 2000)
    assert realm_db.point(shown_logo, "mrch_1") is not None
    assert await realm_db.write(delete_merchant, "acct_1", "mrch_1", 2000)
    assert realm_db.point(find_logo, "mrch_1") is None


def test_merchants_from_before_get_their_copies() -> None:
    migrations = read_migrations("realm")
    [number] = [one.version for one in migrations if one.name == "logos"]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as tx:
        migrate(tx, migrations[: number - 1])
        for row in (("mrch_1", URL, None), ("mrch_2", None, None), ("mrch_3", URL, 5)):
            tx.execute(
                "INSERT INTO merchants (id, account_id, name, email, icon_url, status, created_at_ms,"
                " deleted_at_ms) VALUES (?, 'acct_1', 'x', 'x', ?, 'active', 1, ?)",
                row,
            )
        migrate(tx, migrations[:number])
        assert [owed.merchant_id for owed in copies_due(tx, 0, 10)] == ["mrch_1"]
