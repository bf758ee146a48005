"""Feeds: who hears what, and what is never kept."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, TextMessage

from payd.actors.feed import (
    LEASE_S,
    RESENDS_MAX,
    AccountFeed,
    Bell,
    Leases,
    Listener,
    PaymentFeed,
    Update,
    text_frame,
)


class Page:
    """A reader that keeps everything."""

    def __init__(self) -> None:
        self.updates: list[Update] = []

    def push(self, update: Update) -> None:
        self.updates.append(update)

    def close(self, code: int) -> None:
        raise AssertionError("the feed closes nobody")


def test_every_reader_of_the_payment_gets_the_same_frame_and_nobody_else_gets_it() -> None:
    feed = PaymentFeed()
    mine, twin, other = Page(), Page(), Page()
    feed.subscribe("pay_t1", mine)
    feed.subscribe("pay_t1", twin)
    feed.subscribe("pay_t2", other)

    assert feed.publish("pay_t1", b'{"version":1}', final=True) == 2

    assert mine.updates == twin.updates
    assert mine.updates[0].frame is twin.updates[0].frame
    assert (mine.updates[0].payload, mine.updates[0].final) == (b'{"version":1}', True)
    assert other.updates == []


def test_who_left_hears_nothing_and_leaves_nothing() -> None:
    feed = PaymentFeed()
    page = Page()
    feed.subscribe("pay_t1", page)
    assert len(feed) == 1
    feed.unsubscribe("pay_t1", page)
    feed.unsubscribe("pay_t1", page)

    assert feed.publish("pay_t1", b"{}", final=False) == 0
    assert page.updates == []
    assert len(feed) == 0


def test_one_that_leaves_does_not_take_the_others_along() -> None:
    feed = PaymentFeed()
    stays, leaves = Page(), Page()
    feed.subscribe("pay_t1", stays)
    feed.subscribe("pay_t1", leaves)
    feed.unsubscribe("pay_t1", leaves)

    assert feed.publish("pay_t1", b"{}", final=False) == 1


def test_a_reader_may_leave_while_it_is_told() -> None:
    feed = PaymentFeed()

    class Leaves(Page):
        def push(self, update: Update) -> None:
            super().push(update)
            feed.unsubscribe("pay_t1", self)

    readers = [Leaves() for _ in range(3)]
    for reader in readers:
        feed.subscribe("pay_t1", reader)

    assert feed.publish("pay_t1", b"{}", final=False) == 3
    assert all(len(reader.updates) == 1 for reader in readers)


def test_a_frame_is_what_a_websocket_client_reads() -> None:
    for payload in (b"{}", "€".encode(), *(b"x" * size for size in (125, 126, 65_535, 65_536))):
        client = Connection(ConnectionType.CLIENT)
        client.receive_data(text_frame(payload))

        assert [event for event in client.events()] == [TextMessage(data=payload.decode())]


def test_the_last_frame_of_all_is_the_goodbye() -> None:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(Update(b'{"version":1}', final=True).frame)

    assert [event for event in client.events()] == [
        TextMessage(data='{"version":1}'),
        CloseConnection(code=1000, reason=""),
    ]
    assert Update(b"{}", final=False).frame == text_frame(b"{}")


def test_who_follows_is_counted_by_topic() -> None:
    feed = PaymentFeed()
    page, twin = Page(), Page()
    feed.subscribe("pay_t1", page)
    feed.subscribe("pay_t1", twin)
    feed.unsubscribe("pay_t1", page)

    assert (feed.count("pay_t1"), feed.count("pay_t2")) == (1, 0)


async def test_an_account_wakes_its_own_listeners() -> None:
    feed = AccountFeed()
    mine, other = Bell(), Bell()
    feed.subscribe("acct_1", Listener(mine.wake))
    feed.subscribe("acct_2", Listener(other.wake))
    assert feed.wake("acct_1") == 1
    with trio.fail_after(1):
        await mine.wait()
    with trio.move_on_after(1) as scope:
        await other.wait()

    assert scope.cancelled_caught


def test_a_resend_reaches_every_listener_of_the_account_once_in_order() -> None:
    feed = AccountFeed()
    rings: list[str] = []
    one, two = Listener(lambda: rings.append("one")), Listener(lambda: rings.append("two"))
    other = Listener(lambda: rings.append("other"))
    feed.subscribe("acct_1", one)
    feed.subscribe("acct_1", two)
    feed.subscribe("acct_2", other)

    assert feed.resend("acct_1", 7) == 2
    assert feed.resend("acct_1", 3) == 2

    assert sorted(rings) == ["one", "one", "two", "two"]
    assert (one.take_resends(10), two.take_resends(1), two.take_resends(10)) == ([7, 3], [7], [3])
    assert (one.take_resends(10), other.take_resends(10)) == ([], [])


def test_of_too_many_resends_the_oldest_are_forgotten() -> None:
    listener = Listener(lambda: None)
    for seq in range(RESENDS_MAX + 2):
        listener.resend(seq)

    assert listener.take_resends(2 * RESENDS_MAX) == list(range(2, RESENDS_MAX + 2))


def test_what_is_put_back_comes_first_and_is_forgotten_first() -> None:
    listener = Listener(lambda: None)
    listener.resend(1)
    listener.resend(2)
    taken = listener.take_resends(2)
    listener.resend(3)
    listener.put_back(taken)
    assert listener.take_resends(2) == [1, 2]

    for seq in range(4, RESENDS_MAX + 3):
        listener.resend(seq)
    listener.put_back([1, 2])
    assert listener.take_resends(2 * RESENDS_MAX) == list(range(3, RESENDS_MAX + 3))


def test_a_key_lapses_once_its_listener_is_not_heard_of_for_a_while() -> None:
    leases = Leases()
    leases.grant("key_1", "acct_1", 0)
    leases.grant("key_2", "acct_1", 0)
    leases.grant("key_3", "acct_2", 1)
    leases.renew("key_2", 30)
    leases.renew("key_of_a_person", 30)
    assert leases.take_lapsed(LEASE_S - 1) == []
    assert leases.take_lapsed(LEASE_S) == [("acct_1", "key_1")]
    assert leases.take_lapsed(LEASE_S + 29) == [("acct_2", "key_3")]
    assert leases.take_lapsed(10 * LEASE_S) == [("acct_1", "key_2")]
    assert leases.take_lapsed(20 * LEASE_S) == [], "each once"


def test_a_key_that_is_watched_is_not_granted_anew() -> None:
    leases = Leases()
    leases.grant("key_1", "acct_1", 0)
    leases.grant("key_1", "acct_1", LEASE_S)
    assert leases.take_lapsed(LEASE_S) == [("acct_1", "key_1")]


def test_a_changed_secret_wakes_the_accounts_own_listeners() -> None:
    feed = AccountFeed()
    rings: list[str] = []
    feed.subscribe("acct_1", Listener(lambda: rings.append("mine")))
    feed.subscribe("acct_2", Listener(lambda: rings.append("other")))
    assert feed.secret_changed("acct_1") == 1
    assert rings == ["mine"]


async def test_a_ring_while_nobody_waits_is_kept_and_many_are_one() -> None:
    bell = Bell()
    bell.wake()
    bell.wake()
    with trio.fail_after(1):
        await bell.wait()
    with trio.move_on_after(1) as scope:
        await bell.wait()

    assert scope.cancelled_caught


async def test_a_long_poll_waits_for_the_newest_snapshot(nursery: trio.Nursery) -> None:
    feed = PaymentFeed()
    bell = Bell()
    feed.subscribe("pay_t1", bell)
    seen: list[bytes] = []

    async def poll() -> None:
        await bell.wait()
        assert bell.latest is not None
        seen.append(bell.latest.payload)

    nursery.start_soon(poll)
    await wait_all_tasks_blocked()
    feed.publish("pay_t1", b"1", final=False)
    feed.publish("pay_t1", b"2", final=False)
    await wait_all_tasks_blocked()

    assert seen == [b"2"]


async def test_a_closed_bell_rings_without_a_snapshot() -> None:
    bell = Bell()
    bell.close(1012)
    with trio.fail_after(1):
        await bell.wait()

    assert bell.latest is None
