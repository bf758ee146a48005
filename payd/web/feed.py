"""The feeds' contents: a payment's snapshot for its page, an account's events for its listener.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import trio

from payd.actors.feed import AccountFeed, PaymentFeed
from payd.core.endpoint import valid_secrets
from payd.core.errors import Forbidden, InvalidParams, PaymentNotFound, StoreUnavailable, UpgradeRequired
from payd.core.payment import Payment
from payd.store.clock import newest_event_seq
from payd.store.endpoints import Tx, find_endpoint, secrets_of
from payd.store.events import EventRow, event_time, events_after, seq_in_history
from payd.store.keys import Key, listener_keys, revoke_key
from payd.store.retention import lacks_events
from payd.web.auth import Caller, authenticate
from payd.web.call import Answer, Call, Request
from payd.web.feed_cursor import FeedCursor, read_feed_cursor
from payd.web.house import House, Realm
from payd.web.query import check_names
from payd.web.schema import buyer_page
from payd.web.sockets import READ_AGAIN_S

# How long a listener may stay whose key was revoked by a commit of which nobody heard.
CHECK_S: Final = 25.0
# How many events that wait behind a cursor are counted.
BEHIND_MAX: Final = 100

PARAMETERS: Final = ("after", "tell")

SECRET_CHANGED: Final = b'{"secret":"changed"}'
"""What a listener that asked with `tell=secret` is sent, before the events that this secret signs."""

OLDEST: Final = str(FeedCursor(0, None))
"""The cursor before all events that there are."""

FORGOTTEN: Final = (
    "Events behind this cursor were forgotten with age. GET /v1/payments says what became of all payments;"
    f" after={OLDEST} goes on with the events that are left."
)

HOUSE_ACTOR: Final = "server"


async def not_an_upgrade(call: Call) -> Answer:
    """A feed's path asked for without a websocket upgrade."""
    raise UpgradeRequired("This is a websocket: connect with ws:// or wss://.")


def page_bytes(realm: Realm, payment: Payment) -> bytes:
    """What the payment feed sends for a payment at this version."""
    words = realm.words
    return msgspec.json.encode(buyer_page(payment, words, realm.clock.now_ms()))


def publish(realm: Realm, payment: Payment) -> None:
    """Send a payment as it is now to the pages that follow it."""
    if realm.payment_feed.followers(payment.id):
        realm.payment_feed.publish(payment.id, page_bytes(realm, payment), payment.is_final)


class CatchUp:
    """Tells all who follow a realm what is stored, after a commit of which nobody knew whether it was.

    Whoever asked for it was answered so, and nobody else was told.

    Args:
        realm: Whose followers.
    """

    def __init__(self, realm: Realm) -> None:
        self._realm = realm
        self._reloaded = trio.Event()
        realm.db.on_reload(lambda: self._reloaded.set())

    async def run(self) -> None:
        """Do so after each failed commit; runs until cancelled."""
        while True:
            await self._reloaded.wait()
            self._reloaded = trio.Event()
            for account_id in self._realm.account_feed.topics():
                self._realm.account_feed.wake(account_id)
            for payment_id in self._realm.payment_feed.topics():
                await self._tell(payment_id)

    async def _tell(self, payment_id: str) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            try:
                # Nothing may come in between: a page that was told something newer would go back.
                return publish(self._realm, self._realm.payments.find(payment_id))
            except PaymentNotFound:
                return None
            except StoreUnavailable:
                await trio.sleep(READ_AGAIN_S)


class Feeds:
    """What `web.sockets.Sockets` asks: the feed of a payment, its snapshot, who listens to an account.

    Args:
        house: Whose feeds.
        known_caller: Who sent a request, with the limits of every door. Raises PaydError.
    """

    def __init__(self, house: House, known_caller: Callable[[Request], Caller]) -> None:
        self._house = house
        self._known_caller = known_caller

    def realm_of(self, payment_id: str) -> Realm | None:
        """The realm of a payment id, if it runs."""
        try:
            return self._house.realm_of_payment(payment_id)
        except PaymentNotFound:
            return None

    def payment_feed(self, payment_id: str) -> PaymentFeed | None:
        """The feed of the realm that a payment id names."""
        realm = self.realm_of(payment_id)
        return None if realm is None else realm.payment_feed

    async def snapshot(self, payment_id: str) -> tuple[bytes, bool] | None:
        """A payment's page and whether it is the last; None when there is no such payment."""
        realm = self.realm_of(payment_id)
        if realm is None:
            return None
        try:
            payment = realm.payments.find(payment_id)
        except PaymentNotFound:
            return None
        return page_bytes(realm, payment), payment.is_final

    async def authenticate(self, request: Request) -> AccountEvents:
        """The events of the caller's account.

        Raises:
            PaydError: No key, a wrong one, or one that may not read all of the account's events.
            InvalidParams: What is asked for is not said clearly: then nothing would be told, and nobody know.
        """
        caller = self._known_caller(request)
        caller.check_scope("webhooks:read")
        if caller.merchants is not None:
            raise Forbidden("The feed is the whole account's; this key is limited to some of its merchants.")
        _check_query(request.query)
        tells_secret = "secret" in request.query.get("tell", [])
        return AccountEvents(caller, self._house, dict(request.headers), tells_secret=tells_secret)


def _check_query(query: Mapping[str, list[str]]) -> None:
    check_names(query, PARAMETERS)
    after = query.get("after", [])
    if len(after) > 1:
        raise InvalidParams("after may stand in the query only once.")
    if after == [""]:
        raise InvalidParams("after is empty; give it a cursor, or leave it out to begin with what is new.")


class AccountEvents:
    """One listener's view of its account's events; implements `web.sockets.AccountSource`.

    Args:
        caller: Who listens.
        house: Whose events.
        headers: With the key, which is shown again each time.
        tells_secret: Whether the listener is told that its endpoint's secret changed.
    """

    def __init__(self, caller: Caller, house: House, headers: dict[str, str], *, tells_secret: bool) -> None:
        assert caller.account_id is not None
        self.account_id: str = caller.account_id
        self.feed: AccountFeed = caller.realm.account_feed
        self._realm = caller.realm
        self._house = house
        self._headers = headers
        self._tells_secret = tells_secret
        self._signs = self._what_signs()

    async def start(self, after: str | None) -> int:
        """The place to go on from: behind a cursor, or behind the newest event.

        A cursor of events that a restored backup does not have goes on where the two histories parted, or
        before that: some events may come again, none is missed. Where its time says nothing, all that
        happened since this server's start is new: cursors of an older payd have none, and the clock of a
        test realm that was moved on is back where the backup had it.

        Raises:
            InvalidParams: The cursor is none of ours, or some of what is behind it was forgotten.
            StoreUnavailable: Nothing can be read now.
        """
        newest = self._realm.db.point(newest_event_seq)
        if not after:
            return newest
        cursor = read_feed_cursor(after)
        found_seq = min(self._realm.found_seq, newest)
        if cursor.at_ms is None:
            return cursor.seq if cursor.seq <= newest else found_seq
        # Where its event is still there, so are those behind it.
        is_gone = self._realm.db.point(event_time, cursor.seq) != cursor.at_ms
        if is_gone and await self._realm.db.look(lacks_events, self.account_id, cursor.at_ms):
            raise InvalidParams(FORGOTTEN, details={"after": OLDEST})
        return self._realm.db.point(seq_in_history, self.account_id, cursor.seq, cursor.at_ms, found_seq)

    async def greeting(self, cursor: int) -> tuple[tuple[str, str], ...]:
        """Headers: the cursor before the first event that comes, and how many wait, at most `BEHIND_MAX`.

        Who asked for what is new can so go on from here, also when nothing came before the connection broke.
        """
        rows = await self._realm.db.look(events_after, self.account_id, cursor, BEHIND_MAX)
        place = FeedCursor(cursor, self._realm.db.point(event_time, cursor))
        return ("feed-cursor", str(place)), ("feed-behind", str(len(rows)))

    async def events_after(self, cursor: int, limit: int) -> list[tuple[int, bytes]]:
        """The next events as messages `{cursor, event}`; before them `SECRET_CHANGED` where that is so.

        Raises:
            PaydError: The key was revoked meanwhile.
        """
        caller = authenticate(self._house, self._headers, gateway=False)
        self.feed.leases.renew(caller.actor, trio.current_time())
        rows = await self._realm.db.look(events_after, self.account_id, cursor, limit)
        # Looked at behind the events: none that came after a change is sent before the word of it.
        signed, self._signs = self._signs, self._what_signs()
        news = [] if signed == self._signs else [(cursor, SECRET_CHANGED)]
        return news + [
            (row.seq, b'{"cursor":"%b","event":%b}' % (_place_after(row), row.body)) for row in rows
        ]

    def _what_signs(self) -> tuple[str, tuple[bytes, ...]] | None:
        if not self._tells_secret:
            return None
        return self._realm.db.point(what_signs, self.account_id, self._realm.clock.now_ms())

    async def events_again(self, seqs: list[int]) -> list[bytes]:
        """Events as messages `{cursor, event, resent}`; what is not the account's is left out."""
        form = b'{"cursor":"%b","event":%b,"resent":true}'
        found = [await self._realm.db.look(events_after, self.account_id, seq - 1, 1) for seq in seqs]
        return [
            form % (_place_after(row), row.body)
            for seq, rows in zip(seqs, found, strict=True)
            for row in rows
            if row.seq == seq
        ]


def _place_after(row: EventRow) -> bytes:
    return str(FeedCursor(row.seq, row.created_at_ms)).encode()


def newest_place(tx: Tx) -> FeedCursor:
    """Behind all events of a realm."""
    seq = newest_event_seq(tx)
    return FeedCursor(seq, event_time(tx, seq))


def what_signs(tx: Tx, account_id: str, now_ms: int) -> tuple[str, tuple[bytes, ...]] | None:
    """An endpoint's id and its sealed secrets that are valid now, the current one first; None without one."""
    endpoint = find_endpoint(tx, account_id)
    if endpoint is None:
        return None
    valid = valid_secrets(secrets_of(tx, endpoint.id), now_ms)
    return endpoint.id, tuple(one.sealed for one in valid)


async def check_listeners(house: House) -> None:
    """Have all who listen to an account show their key again each `CHECK_S`; runs until cancelled.

    A listener is asked for its key when there is something to send: where nothing happens, one whose key was
    revoked would stay. Keys whose listeners are gone are revoked, also those from before this start.
    """
    for realm in house.realms.values():
        for key in await realm.db.read(listener_keys):
            realm.account_feed.leases.grant(key.id, key.account_id, trio.current_time())
    while True:
        await trio.sleep(CHECK_S)
        for realm in house.realms.values():
            for account_id in house.accounts:
                realm.account_feed.wake(account_id)
            await revoke_left_keys(realm)


async def revoke_left_keys(realm: Realm) -> None:
    """Revoke the keys of listeners that are gone, killed ones too."""
    for account_id, key_id in realm.account_feed.leases.take_lapsed(trio.current_time()):
        await end_key(realm, account_id, key_id, HOUSE_ACTOR)


async def end_key(realm: Realm, account_id: str, key_id: str, actor: str) -> Key:
    """Revoke an account's key: it opens nothing more, and who listens by it is let go at once.

    Args:
        realm: Where the key is.
        account_id: Whose key.
        key_id: Which one.
        actor: Who revokes it, for the audit.

    Raises:
        NotFound: The account has no such key.
        StoreUnavailable, OutcomeUnknown: It could not be stored, or perhaps was.
    """
    key = await realm.db.write(
        revoke_key, account_id=account_id, key_id=key_id, actor=actor, now_ms=realm.clock.now_ms()
    )
    realm.account_feed.wake(account_id)  # each listener is asked for its key, and finds that it has none
    return key
