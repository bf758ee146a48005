"""Endpoints and their secrets as they are stored."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.endpoint import ALL, CANARY, NOTIFY, SECRET_OVERLAP_MS, Endpoint, EndpointState
from payd.core.errors import InvalidState, NotFound
from payd.store import endpoints
from payd.store.db import Database, Tx
from payd.store.deliveries import count_pending, list_deliveries
from payd.store.endpoints import SealedSecret
from payd.store.seal import KEY_BYTES, Seal
from tests.store.test_deliveries import happen

URL = "https://a.test/hook"


async def put(
    db: Database,
    *,
    url: str = URL,
    events: tuple[str, ...] = ALL,
    fresh_id: str = "ep_1",
    now_ms: int = 1000,
) -> tuple[Endpoint, bool]:
    return await db.write(
        endpoints.put_endpoint,
        account_id="acct_1",
        url=url,
        events=events,
        fresh_id=fresh_id,
        sealed=b"sealed 1",
        now_ms=now_ms,
        actor="key_1",
    )


async def rotate(db: Database, sealed: bytes, now_ms: int, endpoint_id: str = "ep_1") -> Endpoint:
    return await db.write(
        endpoints.rotate_secret,
        endpoint_id=endpoint_id,
        account_id="acct_1",
        sealed=sealed,
        now_ms=now_ms,
        actor="key_1",
    )


def acts(tx: Tx) -> list[tuple[str, str, str]]:
    return list(tx.execute("SELECT actor, act, subject FROM audit ORDER BY seq"))


async def test_an_account_has_one_endpoint_and_putting_again_changes_it(realm_db: Database) -> None:
    first, is_new = await put(realm_db)
    second, is_second_new = await put(realm_db, url="https://b.test/", fresh_id="ep_2")

    assert (first.id, is_new) == ("ep_1", True)
    assert (second.id, second.url, is_second_new) == ("ep_1", "https://b.test/", False)
    assert realm_db.point(endpoints.find_endpoint, "acct_1") == second
    assert realm_db.point(endpoints.find_endpoint, "acct_2") is None
    assert realm_db.point(endpoints.secrets_of, "ep_2") == []
    assert realm_db.point(acts) == [("key_1", "endpoint.register", "ep_1"), ("key_1", "endpoint.url", "ep_1")]


async def test_a_rotation_lets_the_old_secret_run_out_and_forgets_expired_ones(realm_db: Database) -> None:
    await put(realm_db)
    await rotate(realm_db, b"sealed 2", 2000)
    await rotate(realm_db, b"sealed 3", 3000)
    both = sorted(realm_db.point(endpoints.secrets_of, "ep_1"))
    await rotate(realm_db, b"sealed 4", 3000 + SECRET_OVERLAP_MS)

    assert both == [
        SealedSecret(b"sealed 1", 1000, 2000 + SECRET_OVERLAP_MS),
        SealedSecret(b"sealed 2", 2000, 3000 + SECRET_OVERLAP_MS),
        SealedSecret(b"sealed 3", 3000, None),
    ]
    assert sorted(realm_db.point(endpoints.secrets_of, "ep_1")) == [
        SealedSecret(b"sealed 3", 3000, 3000 + 2 * SECRET_OVERLAP_MS),
        SealedSecret(b"sealed 4", 3000 + SECRET_OVERLAP_MS, None),
    ]


async def test_a_sixth_valid_secret_is_refused_and_nothing_changes(realm_db: Database) -> None:
    await put(realm_db)
    for number in range(4):
        await rotate(realm_db, b"more", 2000 + number)
    before = realm_db.point(endpoints.secrets_of, "ep_1")
    with pytest.raises(InvalidState):
        await rotate(realm_db, b"too many", 3000)

    assert realm_db.point(endpoints.secrets_of, "ep_1") == before


async def test_deleting_wipes_the_values_of_added_headers(realm_db: Database) -> None:
    await realm_db.write(
        endpoints.put_endpoint,
        account_id="acct_1",
        url="https://a.test/",
        events=ALL,
        fresh_id="ep_1",
        sealed=b"sealed",
        now_ms=1000,
        actor="key_1",
        headers=(lambda endpoint_id: b"sealed for " + endpoint_id.encode(), ("authorization",)),
    )
    deleted = await realm_db.write(endpoints.delete_endpoint, account_id="acct_1", now_ms=2000, actor="key_1")

    assert (deleted.headers, deleted.header_names) == (None, ("authorization",))
    assert realm_db.point(endpoints.endpoint_of_id, "ep_1") == deleted


async def test_a_rotation_of_an_endpoint_that_was_replaced_is_refused(realm_db: Database) -> None:
    await put(realm_db)
    with pytest.raises(NotFound):
        await rotate(realm_db, b"sealed for another", 2000, endpoint_id="ep_0")


async def test_deleting_wipes_the_secrets_and_keeps_the_row(realm_db: Database) -> None:
    await put(realm_db)
    await realm_db.write(endpoints.delete_endpoint, account_id="acct_1", now_ms=2000, actor="key_1")

    assert realm_db.point(endpoints.find_endpoint, "acct_1") is None
    assert realm_db.point(endpoints.secrets_of, "ep_1") == []
    kept = realm_db.point(endpoints.endpoint_of_id, "ep_1")
    assert kept is not None
    assert kept.state == "deleted"
    with pytest.raises(NotFound):
        await realm_db.write(endpoints.delete_endpoint, account_id="acct_1", now_ms=2000, actor="key_1")
    again, is_new = await put(realm_db, fresh_id="ep_2")
    assert (again.id, is_new) == ("ep_2", True)


async def test_enabling_starts_the_failure_clock_over(realm_db: Database) -> None:
    endpoint, _ = await put(realm_db)

    def fail(tx: Tx) -> None:
        tx.execute(
            "UPDATE endpoints SET state = 'disabled', failing_since_ms = 5 WHERE id = ?", (endpoint.id,)
        )

    await realm_db.write(fail)
    enabled = await realm_db.write(
        endpoints.switch_endpoint, account_id="acct_1", act="enable", now_ms=2000, actor="key_1"
    )

    assert (enabled.state, enabled.failing_since_ms) == ("enabled", None)
    assert realm_db.point(endpoints.find_endpoint, "acct_1") == enabled


async def test_the_secret_is_revealed_with_a_trace(realm_db: Database) -> None:
    seal = Seal(bytes(KEY_BYTES))
    await put(realm_db)
    await rotate(realm_db, seal.seal(b"whsec_2", "ep_1"), 2000)
    _, secret = await realm_db.write(
        endpoints.reveal_secret, account_id="acct_1", seal=seal, now_ms=3000, actor="cli"
    )

    assert secret == "whsec_2"
    assert realm_db.point(acts)[-1] == ("cli", "endpoint.reveal", "ep_1")


async def test_another_url_has_not_failed_yet(realm_db: Database) -> None:
    await put(realm_db)
    failing = msgspec.structs.replace(
        realm_db.point(endpoints.get_endpoint, "acct_1"), failing_since_ms=1, last_failure_at_ms=1, warnings=2
    )
    await realm_db.write(endpoints.save_endpoint, failing, 1)
    await put(realm_db, events=("payment.created",))
    same = realm_db.point(endpoints.get_endpoint, "acct_1")
    assert (same.failing_since_ms, same.warnings) == (1, 2)
    await put(realm_db, url="https://other.test/")
    moved = realm_db.point(endpoints.get_endpoint, "acct_1")
    assert (moved.failing_since_ms, moved.warnings) == (None, 0)


async def test_enabled_urls_are_of_merchants_alone_and_bounded(realm_db: Database) -> None:
    await put(realm_db)
    for account, endpoint_id in (("acct_2", "ep_2"), ("acct_3", "ep_3"), ("house", NOTIFY), ("h2", CANARY)):
        await realm_db.write(
            endpoints.put_endpoint,
            account_id=account,
            url=f"https://{account}.test/",
            events=ALL,
            fresh_id=endpoint_id,
            sealed=b"sealed",
            now_ms=1000,
            actor="key_1",
        )
    await realm_db.write(endpoints.delete_endpoint, account_id="acct_3", now_ms=1001, actor="key_1")
    assert realm_db.point(endpoints.enabled_urls, limit=9) == [URL, "https://acct_2.test/"]
    assert realm_db.point(endpoints.enabled_urls, limit=1) == [URL]


async def test_what_a_disabled_endpoint_is_owed_is_cancelled_to_the_last_of_it(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "CANCEL_BATCH_MAX", 2)
    await put(realm_db)
    for number in range(5):
        await happen(realm_db, number)
    await realm_db.write(
        endpoints.switch_endpoint, account_id="acct_1", act="disable", now_ms=2000, actor="key_1"
    )

    assert realm_db.point(count_pending) == 3
    assert [await realm_db.write(endpoints.sweep_endpoint, "ep_1") for _ in range(3)] == [True, False, False]
    assert realm_db.point(count_pending) == 0
    rows = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert {(row.state, row.reason, row.next_at_ms) for row in rows} == {
        ("cancelled", "endpoint_disabled", None)
    }


async def test_an_endpoint_comes_back_as_it_was_saved(realm_db: Database) -> None:
    endpoint, _ = await put(realm_db)
    changed = msgspec.structs.replace(
        endpoint,
        url="https://other.test/",
        events=("payment.settled", "payment.failed"),
        state=EndpointState.PAUSED,
        failing_since_ms=1,
        last_failure_at_ms=2,
        last_success_at_ms=3,
        headers=b"sealed",
        header_names=("authorization", "x-shop"),
        off_since_ms=4,
        warnings=5,
    )
    await realm_db.write(endpoints.save_endpoint, changed, 6)
    assert realm_db.point(endpoints.endpoint_of_id, "ep_1") == changed
    assert realm_db.point(lambda tx: tx.execute("SELECT updated_at_ms FROM endpoints").fetchall()) == [(6,)]


async def test_the_houses_own_secret_is_another_after_each_start_and_no_merchants_is(
    realm_db: Database,
) -> None:
    await put(realm_db)
    for sealed in (b"first start", b"second start"):
        await realm_db.write(endpoints.put_house_endpoint, CANARY, "https://payd.test/", sealed, 2000)
    for endpoint_id, sealed in ((CANARY, b"second start"), ("ep_1", b"sealed 1")):
        [secret] = realm_db.point(endpoints.secrets_of, endpoint_id)
        assert secret.sealed == sealed
