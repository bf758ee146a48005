"""What the feeds send: a buyer's page, an account's events after a cursor, and nothing to the wrong one."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd.actors.feed import LEASE_S, Bell, Listener, Update
from payd.core.endpoint import SECRET_OVERLAP_MS
from payd.core.errors import (
    Forbidden,
    InvalidApiKey,
    InvalidParams,
    MissingApiKey,
    PaydError,
    RateLimited,
    StoreUnavailable,
)
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.core.payment import Payment
from payd.entropy import new_id
from payd.store import writer as store
from payd.store.batch import Failure, run_batch
from payd.store.events import SET_BACK_MAX_MS
from payd.store.keys import LISTENER, LISTENER_SCOPES, insert_key, list_keys, listener_keys
from payd.web.call import Request
from payd.web.commands import run_command
from payd.web.cursor import encode_cursor
from payd.web.dispatch import known_caller
from payd.web.feed import (
    CHECK_S,
    SECRET_CHANGED,
    AccountEvents,
    Feeds,
    check_listeners,
    end_key,
    page_bytes,
    revoke_left_keys,
)
from payd.web.limits import RateLimit
from tests.shop import BUYER, SIGNATURE, START_MS, Shop, open_shop

FIELDS = {"version", "status", "isFinal", "pollInMs", "expiresAt", "serverTime", "info"}


def request_of(**headers: str) -> Request:
    return Request(
        "GET", "/v1/feed", headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def feeds_of(shop: Shop) -> Feeds:
    return Feeds(shop.house, partial(known_caller, shop.house, gateway=False))


async def secret_listener(shop: Shop) -> AccountEvents:
    request = request_of(api_key=shop.key)
    request.query["tell"] = ["secret"]
    return await feeds_of(shop).authenticate(request)


async def listener(shop: Shop, key: str = "") -> AccountEvents:
    return await feeds_of(shop).authenticate(request_of(api_key=key or shop.key))


class Page:
    """Follows a payment."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def push(self, update: Update) -> None:
        self.told.append((msgspec.json.decode(update.payload)["status"], update.final))

    def close(self, code: int) -> None:
        pass


async def page(shop: Shop, payment: str) -> Any:
    found = await feeds_of(shop).snapshot(payment)
    assert found is not None
    return msgspec.json.decode(found[0])


async def test_plain_http_on_a_feeds_path_is_told_to_upgrade(shop: Shop) -> None:
    for path in ("/v1/feed", f"/v1/payments/{await shop.pay()}/feed", "/v1/payments/x/feed"):
        found = await shop.call("GET", path, key=None)
        assert (found.status, found.code) == (426, "upgrade_required")


async def test_who_follows_is_told_what_an_unknown_commit_stored(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment, other = await shop.pay(), await shop.pay()
    pages = [Page(), Page()]
    for page_of, followed in zip(pages, (payment, other), strict=True):
        shop.realm.payment_feed.subscribe(followed, page_of)
    rings: list[str] = []
    shop.realm.account_feed.subscribe(shop.account_id, Listener(lambda: rings.append("one")))
    failures, unreadable, find = 0, 0, shop.realm.payments.find

    def stored_but_unknown(tx: Any, batch: Any) -> Failure | None:
        nonlocal failures
        done = run_batch(tx, batch)
        if failures:
            return done
        failures += 1
        return Failure("unknown", "the disk did not answer")

    def unreadable_once(payment_id: str) -> Payment:
        nonlocal unreadable
        if unreadable < failures:
            unreadable += 1
            raise StoreUnavailable("The store cannot be read at the moment.")
        return find(payment_id)

    monkeypatch.setattr(store, "run_batch", stored_but_unknown)
    monkeypatch.setattr(shop.realm.payments, "find", unreadable_once)
    found = await shop.call("POST", f"/v1/payments/{payment}/cancel", {}, idempotency_key="k")
    assert found.status == 500
    await trio.sleep(10)

    assert unreadable == 1
    assert pages[0].told == [("cancelled", True)]
    assert pages[1].told == [("requires_action", False)]
    assert rings


async def test_a_page_has_only_what_a_buyer_may_see(shop: Shop) -> None:
    payment = await shop.pay("SECRET-REFERENCE")
    found = await page(shop, payment)
    assert found == {
        "version": 0,
        "status": "requires_action",
        "isFinal": False,
        "pollInMs": 1000,
        "expiresAt": shop.realm.payments.find(payment).expires_at_ms // 1000,
        "serverTime": shop.realm.clock.now_ms(),
        "info": None,
    }


async def test_a_page_follows_its_payment_to_the_end(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE)
    middle = await feeds_of(shop).snapshot(payment)
    assert middle is not None
    assert middle[1] is False
    await trio.sleep(1.5)
    last = await feeds_of(shop).snapshot(payment)
    assert last is not None
    assert last[1] is True
    body = msgspec.json.decode(last[0])
    assert body.keys() == FIELDS
    assert (body["version"], body["status"], body["isFinal"], body["pollInMs"]) == (
        2,
        "succeeded",
        True,
        None,
    )
    assert body["info"]["txId"] == f"test:{payment}"
    found = shop.realm.payments.find(payment)
    assert msgspec.json.decode(page_bytes(shop.realm, found))["status"] == "succeeded"


async def test_unknown_malformed_and_not_running_are_all_no_payment(shop: Shop) -> None:
    feeds = feeds_of(shop)
    for payment in ("x", "", new_id("pay_t", 0), new_id("pay_l", 0), "pay_t" + "0" * 36, "\0"):
        assert await feeds.snapshot(payment) is None
    assert feeds.payment_feed(new_id("pay_l", 0)) is None
    assert feeds.payment_feed(new_id("pay_t", 0)) is shop.realm.payment_feed


async def test_each_realm_has_its_own_feed(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        feeds = feeds_of(shop)
        assert feeds.payment_feed(new_id("pay_l", 0)) is shop.house.realms["live"].payment_feed
        assert feeds.realm_of(await shop.pay()) is shop.realm
        live = await feeds.authenticate(request_of(api_key=shop.keys["live.one"]))
        assert live.feed is shop.house.realms["live"].account_feed


async def test_a_listener_needs_a_key_that_may_read_events(shop: Shop) -> None:
    feeds = feeds_of(shop)
    blind = await shop.new_key(scopes=["payments:read"])
    app = {"app_id": shop.realm.checkout_app_id, "client_id": "c"}
    for headers, kind in (
        ({}, MissingApiKey),
        (app, MissingApiKey),
        ({"api_key": "svc_test_x"}, InvalidApiKey),
        ({"api_key": blind}, Forbidden),
    ):
        with pytest.raises(kind):
            await feeds.authenticate(request_of(**headers))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"cursor": ["x"]}, "There is no parameter 'cursor' here; there are after, tell."),
        ({"after": [""]}, "after is empty"),
        ({"after": ["a", "b"]}, "only once"),
    ],
)
async def test_who_slips_in_the_query_is_told_instead_of_what_is_new(
    shop: Shop, query: dict[str, list[str]], words: str
) -> None:
    request = request_of(api_key=shop.key)
    request.query.update(query)
    with pytest.raises(InvalidParams, match=words):
        await feeds_of(shop).authenticate(request)


async def test_a_listener_starts_behind_the_newest_event_or_behind_its_cursor(shop: Shop) -> None:
    await shop.pay()
    feed = await listener(shop)
    start = await feed.start(None)
    assert await feed.events_after(start, 10) == []
    payment = await shop.pay()
    ((seq, message),) = await feed.events_after(start, 10)
    body = msgspec.json.decode(message)
    assert body["event"]["data"]["payment_id"] == payment
    assert await feed.start(body["cursor"]) == seq
    assert await feed.start(encode_cursor(seq)) == seq, "of an older payd"
    assert await feed.events_after(seq, 10) == []
    assert len(await feed.events_after(await feed.start(encode_cursor(0)), 10)) == 2
    assert len(await feed.events_after(0, 1)) == 1


async def test_a_cursor_of_events_that_a_backup_does_not_have_misses_nothing_new(shop: Shop) -> None:
    payments = [await shop.pay() for _ in range(2)]
    feed = await listener(shop)
    messages = await feed.events_after(await feed.start(encode_cursor(1000)), 10)
    assert [msgspec.json.decode(one)["event"]["data"]["payment_id"] for _, one in messages] == payments


async def test_what_happens_before_its_listener_is_back_after_a_restore_is_not_missed(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    async with open_shop(data) as shop:
        await shop.pay()
        known = {"account_id": shop.account_id, "key": shop.key, "merchant_id": shop.merchant_id}
    shutil.copytree(data, backup)
    async with open_shop(data, start_ms=START_MS + 2 * SET_BACK_MAX_MS) as shop:
        vars(shop).update(known)
        for _ in range(3):
            await shop.pay()
        feed = await listener(shop)
        cursor = dict(await feed.greeting(await feed.start(None)))["feed-cursor"]
        older = encode_cursor(await feed.start(None))
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    later_ms = START_MS + 3 * SET_BACK_MAX_MS
    async with open_shop(data, start_ms=later_ms) as shop:
        vars(shop).update(known)
        new = [await shop.pay() for _ in range(2)]
        assert await created_after(shop, cursor) == await created_after(shop, older) == new
        new += [await shop.pay() for _ in range(3)]
        assert await created_after(shop, cursor) == new, "also where there are more than were lost"
    async with open_shop(data, start_ms=later_ms + 60_000) as shop:
        vars(shop).update(known)
        new.append(await shop.pay())
        assert await created_after(shop, cursor) == new, "also after one more start"


async def created_after(shop: Shop, cursor: str) -> list[str]:
    feed = await listener(shop)
    messages = await feed.events_after(await feed.start(cursor), 20)
    events = [msgspec.json.decode(message)["event"] for _, message in messages]
    return [event["data"]["payment_id"] for event in events if event["type"] == "payment.created"]


async def test_a_cursor_that_was_never_handed_out_is_refused(shop: Shop) -> None:
    feed = await listener(shop)
    for cursor in ("x", "W10", encode_cursor("a"), encode_cursor(1, "a"), encode_cursor(1, 2, 3)):
        with pytest.raises(InvalidParams):
            await feed.start(cursor)


async def test_a_listener_hears_its_own_account_only(shop: Shop) -> None:
    await shop.pay()
    other = await listener(shop, shop.other_key)
    assert await other.events_after(0, 10) == []
    assert other.account_id != shop.account_id


async def test_an_event_is_sent_byte_for_byte_as_the_webhook_is(shop: Shop) -> None:
    await shop.pay()
    ((seq, message),) = await (await listener(shop)).events_after(0, 10)
    (body,) = await shop.realm.db.read(lambda tx: tx.execute("SELECT body FROM events").fetchone())
    place = encode_cursor(seq, START_MS)
    assert message == b'{"cursor":"%b","event":%b}' % (place.encode(), body)


async def test_an_event_is_sent_again_as_it_was_and_says_so(shop: Shop) -> None:
    await shop.pay()
    await shop.pay()
    feed = await listener(shop)
    first, second = await feed.events_after(0, 10)
    assert await feed.events_again([second[0], first[0]]) == [
        message[:-1] + b',"resent":true}' for _, message in (second, first)
    ]
    assert await feed.events_again([0, second[0] + 1]) == [], "what is not there is left out"
    other = await listener(shop, shop.other_key)
    assert await other.events_again([first[0]]) == [], "what is somebody else's too"


async def test_a_feed_tells_where_it_begins_and_how_much_waits(shop: Shop) -> None:
    for _ in range(3):
        await shop.pay()
    feed = await listener(shop)
    newest = await feed.start(None)
    assert await feed.greeting(newest) == (
        ("feed-cursor", encode_cursor(newest, START_MS)),
        ("feed-behind", "0"),
    )
    assert dict(await feed.greeting(newest - 2))["feed-behind"] == "2"


async def test_a_key_revoked_meanwhile_hears_nothing_more(shop: Shop) -> None:
    known = {key.id for key in await shop.realm.db.read(list_keys, shop.account_id)}
    key = await shop.new_key()
    feed = await listener(shop, key)
    (fresh,) = {key.id for key in await shop.realm.db.read(list_keys, shop.account_id)} - known
    assert await feed.events_after(0, 10) == []
    bell = Bell()
    shop.realm.account_feed.subscribe(shop.account_id, Listener(bell.wake))
    await end_key(shop.realm, shop.account_id, fresh, "test")
    await bell.wait()  # it is asked at once, and not when there is something to send
    with pytest.raises(PaydError):
        await feed.events_after(0, 10)


async def test_a_key_for_some_merchants_may_not_listen_to_the_whole_account(shop: Shop) -> None:
    key = await shop.new_key(merchants=[await shop.new_merchant(pays=False)])
    with pytest.raises(Forbidden):
        await listener(shop, key)


async def test_wrong_keys_at_the_feed_are_slowed_down_as_at_every_door(shop: Shop) -> None:
    shop.house.limits.failed_auth = RateLimit(1, burst=2, now_s=lambda: 0.0)
    for kind in (InvalidApiKey, InvalidApiKey, RateLimited, RateLimited):
        with pytest.raises(kind):
            await listener(shop, "svc_test_wrong")
    await listener(shop)


async def test_an_idle_listener_is_soon_asked_for_its_key_again(shop: Shop) -> None:
    bell = Bell()
    shop.realm.account_feed.subscribe(shop.account_id, Listener(bell.wake))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check_listeners, shop.house)
        with trio.move_on_after(60) as patience:
            await bell.wait()
            await bell.wait()
        nursery.cancel_scope.cancel()
    assert not patience.cancelled_caught


async def register(shop: Shop) -> None:
    made = await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://93.184.216.34/hook"})
    assert made.status == 200, made.body


async def test_who_asks_for_it_is_told_of_a_changed_secret_before_the_events_it_signs(shop: Shop) -> None:
    feed, unasked = await secret_listener(shop), await listener(shop)
    assert await feed.events_after(0, 10) == []
    for change in ("PUT", "POST", "DELETE"):
        if change == "PUT":
            await register(shop)
        else:
            rest = "/rotate" if change == "POST" else ""
            assert (await shop.call(change, f"/v1/webhooks/endpoint{rest}")).status == 200
        await shop.pay()
        first, *events = await feed.events_after(0, 10)
        assert first == (0, SECRET_CHANGED), change
        assert events == await unasked.events_after(0, 10), "it moves no cursor, and others hear nothing"
        assert await feed.events_after(0, 10) == events, "it is told once"


async def test_a_secret_that_changes_while_events_are_read_is_told_before_those_that_it_signs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await register(shop)
    feed, db = await secret_listener(shop), shop.realm.db
    look = db.look

    async def rotate_first(query: Any, *args: Any) -> Any:
        monkeypatch.setattr(db, "look", look)
        assert (await shop.call("POST", "/v1/webhooks/endpoint/rotate")).status == 200
        await shop.pay()
        return await look(query, *args)

    monkeypatch.setattr(db, "look", rotate_first)
    first, event = await feed.events_after(0, 10)
    assert (first, event[0]) == ((0, SECRET_CHANGED), 1)


async def test_another_url_is_no_other_secret_and_one_that_has_run_out_is(shop: Shop) -> None:
    await register(shop)
    feed = await secret_listener(shop)
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://93.184.216.34/other"})
    assert await feed.events_after(0, 10) == []
    await shop.call("POST", "/v1/webhooks/endpoint/rotate")
    assert await feed.events_after(0, 10) == [(0, SECRET_CHANGED)]
    await trio.sleep(SECRET_OVERLAP_MS / 1000)
    assert await feed.events_after(0, 10) == [(0, SECRET_CHANGED)], "the old one signs no more"


async def test_a_listener_is_woken_by_each_change_of_the_secret(shop: Shop) -> None:
    rings: list[str] = []
    shop.realm.account_feed.subscribe(shop.account_id, Listener(lambda: rings.append("")))
    await register(shop)
    assert len(rings) == 1
    await register(shop)
    assert len(rings) == 1, "the endpoint was there before"
    await shop.call("POST", "/v1/webhooks/endpoint/rotate")
    assert len(rings) == 2
    await shop.call("DELETE", "/v1/webhooks/endpoint")
    assert len(rings) == 3


async def named_key(shop: Shop, name: str) -> str:
    args = {"account": shop.account_id, "name": name, "scopes": ["webhooks:read"]}
    made = await run_command(shop.house, "key.create", msgspec.json.encode(args))
    return str(made.api_key)


async def left_key(shop: Shop) -> str:
    """A listener's key from before this start."""
    api_key = make_api_key("test", shop.house.entropy(KEY_ENTROPY_BYTES))
    now_ms = shop.realm.clock.now_ms()
    await shop.realm.db.write(
        insert_key,
        key_id=new_id("key_", now_ms),
        account_id=shop.account_id,
        api_key=api_key,
        name=LISTENER,
        scopes=LISTENER_SCOPES,
        merchants=None,
        actor="cli",
        now_ms=now_ms,
        is_listener=True,
    )
    return api_key


async def left_keys(shop: Shop) -> list[str]:
    return [key.id for key in await shop.realm.db.read(listener_keys)]


async def test_a_key_whose_listener_was_killed_is_revoked_a_minute_later(shop: Shop) -> None:
    killed, used = await left_key(shop), await left_key(shop)
    own = await named_key(shop, "mine")
    feed, other = await listener(shop, used), await listener(shop, own)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check_listeners, shop.house)
        await trio.sleep(1)
        for _ in range(8):
            assert len(await left_keys(shop)) == (2 if trio.current_time() < LEASE_S else len([used]))
            await feed.events_after(0, 1)
            await trio.sleep(CHECK_S)
        with pytest.raises(InvalidApiKey):
            await listener(shop, killed)
        await other.events_after(0, 1)
        nursery.cancel_scope.cancel()
    assert len(await left_keys(shop)) == 1


async def test_a_key_that_is_just_being_opened_stays(shop: Shop) -> None:
    await left_key(shop)
    [key_id] = await left_keys(shop)
    shop.realm.account_feed.leases.grant(key_id, shop.account_id, trio.current_time())
    await trio.sleep(LEASE_S - 1)
    await revoke_left_keys(shop.realm)
    assert await left_keys(shop) == [key_id]
    await trio.sleep(1)
    await revoke_left_keys(shop.realm)
    assert await left_keys(shop) == []
