"""Following a feed through everything that connections do, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import msgspec
import pytest
import trio

from payd.cli.failure import Refused
from payd.cli.feed_connection import (
    Greet,
    Greeting,
    Message,
    Place,
    SecretNews,
    Take,
    TurnedAway,
    Unanswered,
)
from payd.cli.following import PUT_OUT, RETRY_MAX_S, STEADY_S, Connected, Follower, Full, Inbox, Lost, State

PLACE = Place("http://pay.test", "svc_test_1", "account main")
Act = Callable[[str | None, Greet, Take], Awaitable[str | None]]


def message(cursor: str, *, resent: bool = False) -> Message:
    return Message(cursor, msgspec.Raw(b"{}"), resent)


class Stage:
    """A door and a feed that do what a script says, and what was seen of the follower."""

    def __init__(self, *acts: Act | Exception, cursor: str | None = None, inbox_max: int = 1000) -> None:
        self.acts = list(acts)
        self.asked: list[tuple[float, str | None]] = []
        self.states: list[State] = []
        self.begun: list[str] = []
        self.inbox = Inbox(inbox_max)
        self.place = PLACE
        self.closed_until_s = 0.0
        self.expired: list[bool] = []
        self.keys = 0
        self.forgot = 0
        self.follower = Follower(
            self, self.inbox, self.states.append, cursor=cursor, begin=self.begun.append, read=self.read
        )
        self._started_s = trio.current_time()

    async def open(self) -> Place:
        await trio.lowlevel.checkpoint()
        if trio.current_time() - self._started_s < self.closed_until_s:
            raise Unanswered("no server runs")
        return self.place

    def expire(self, *, told: bool) -> None:
        self.expired.append(told)

    def forget(self) -> bool:
        self.forgot += 1
        return self.forgot <= self.keys

    async def read(self, place: Place, cursor: str | None, greet: Greet, take: Take) -> str | None:
        self.asked.append((round(trio.current_time() - self._started_s, 3), cursor))
        await trio.lowlevel.checkpoint()
        if not self.acts:
            await trio.sleep_forever()
        act = self.acts.pop(0)
        if isinstance(act, Unanswered):
            return str(act)
        if isinstance(act, Exception):
            raise act
        return await act(cursor, greet, take)

    async def run(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.follower.run()


def sends(
    *messages: Message | SecretNews,
    greeting: Greeting = Greeting(),  # noqa: B008
    then: str = "cut",
    stays_s: float = 0,
) -> Act:
    async def act(_cursor: str | None, greet: Greet, take: Take) -> str | None:
        greet(greeting)
        for one in messages:
            if not take(one):
                return None
        await trio.sleep(stays_s)
        return then

    return act


async def test_more_is_read_once_half_of_what_waited_is_gone() -> None:
    inbox = Inbox(4)
    for cursor in "abcd":
        inbox.put(message(cursor))
    for _ in range(2):
        with trio.move_on_after(1) as patience:
            await inbox.room()
        assert patience.cancelled_caught
        await inbox.get()
    await inbox.room()


async def test_each_connection_goes_on_behind_the_last_event_that_was_read() -> None:
    stage = Stage(sends(message("a"), message("b")), sends(message("c")), cursor="start")
    await stage.run(60)
    assert [cursor for _, cursor in stage.asked] == ["start", "b", "c"]
    assert [(await stage.inbox.get()).cursor for _ in range(3)] == ["a", "b", "c"]


async def test_tries_come_later_and_later_and_soon_again_after_a_good_connection() -> None:
    down = [Unanswered("connection refused")] * 8
    stage = Stage(*down, sends(stays_s=STEADY_S), Unanswered("connection refused"), cursor="a")
    await stage.run(100)
    times = [at for at, _ in stage.asked]
    delays = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, RETRY_MAX_S, RETRY_MAX_S, RETRY_MAX_S, STEADY_S + 0.2, 0.4]


async def test_a_server_that_accepts_and_drops_is_not_asked_all_the_time() -> None:
    stage = Stage(*[sends() for _ in range(5)], cursor="a")
    await stage.run(100)
    assert [at for at, _ in stage.asked] == [0, 0.2, 0.6, 1.4, 3.0, 6.2]


async def test_a_loss_is_told_once_for_each_reason_and_ready_only_when_the_websocket_is_open() -> None:
    refused, silent = Unanswered("connection refused"), Unanswered("no answer")
    stage = Stage(
        refused, refused, silent, sends(stays_s=9, then="cut"), refused, refused, sends(), cursor="a"
    )
    await stage.run(12)
    assert stage.states[:4] == [
        Lost("connection refused", 0.2, was_connected=False),
        Lost("no answer", 0.8, was_connected=False),
        Connected(PLACE.url, PLACE.who, "a", None, None, resumed=True),
        Lost("cut", 0.2, was_connected=True),
    ]
    assert stage.states[4] == Lost("connection refused", 0.4, was_connected=True)
    assert stage.states[5] == Connected(PLACE.url, PLACE.who, "a", None, 1.4, resumed=True)


async def test_who_begins_with_what_is_new_goes_on_from_there_though_nothing_came() -> None:
    stage = Stage(sends(greeting=Greeting("n", 0)), sends(greeting=Greeting("n", 4)))
    await stage.run(1)
    assert [cursor for _, cursor in stage.asked] == [None, "n", "n"]
    assert stage.begun == ["n"]
    connected = [state for state in stage.states if isinstance(state, Connected)]
    assert [(state.behind, state.resumed) for state in connected] == [(0, False), (4, False)]


async def test_a_cursor_of_events_that_a_backup_does_not_have_is_given_up_for_the_servers() -> None:
    stage = Stage(sends(greeting=Greeting("3", 0)), sends(), cursor="7")
    await stage.run(1)
    assert [cursor for _, cursor in stage.asked] == ["7", "3", "3"]


async def test_the_doors_cursor_comes_before_the_handshakes_and_the_callers_before_both() -> None:
    for given, asked in ((None, "door"), ("mine", "mine")):
        stage = Stage(sends(greeting=Greeting("late", 0)), cursor=given)
        stage.place = Place(PLACE.url, "k", "me", "door")
        await stage.run(1)
        assert stage.asked[0][1] == asked
        assert stage.begun == [asked]


async def test_an_event_that_is_sent_again_moves_no_cursor() -> None:
    stage = Stage(sends(message("b"), message("a", resent=True)), cursor="start")
    await stage.run(1)
    assert [cursor for _, cursor in stage.asked] == ["start", "b"]
    assert [(await stage.inbox.get()).resent for _ in range(2)] == [False, True]


async def test_a_full_inbox_closes_the_connection_until_there_is_room_and_loses_nothing() -> None:
    stage = Stage(sends(*map(message, "abcdef")), sends(*map(message, "ef")), cursor="start", inbox_max=4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.run, 1000)
        await trio.sleep(100)
        assert stage.asked == [(0, "start")]
        assert stage.states[-1] == Full(4)
        seen = [(await stage.inbox.get()).cursor for _ in range(6)]
        nursery.cancel_scope.cancel()
    assert seen == list("abcdef")
    assert stage.asked[1] == (100, "d")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 200, 301])
async def test_what_cannot_become_right_ends_it_in_the_servers_words(status: int) -> None:
    stage = Stage(TurnedAway(status, "no such key"))
    with pytest.raises(Refused, match=r"http://pay\.test: no such key"):
        await stage.run(60)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_not_now_is_tried_again(status: int) -> None:
    stage = Stage(TurnedAway(status, "not now"), sends(), cursor="a")
    await stage.run(1)
    assert isinstance(stage.states[1], Connected)


async def test_a_proxy_that_finds_nobody_for_a_while_ends_nothing_but_a_revoked_key_does() -> None:
    stage = Stage(sends(), TurnedAway(404, "not found"), sends(), TurnedAway(401, "revoked"), cursor="a")
    with pytest.raises(Refused, match="revoked"):
        await stage.run(60)
    assert len(stage.asked) == 4


async def test_a_door_that_does_not_open_is_tried_again() -> None:
    stage = Stage(sends(), cursor="a")
    stage.closed_until_s = 3
    await stage.run(4)
    assert stage.states[0] == Lost("no server runs", 0.2, was_connected=False)
    assert isinstance(stage.states[1], Connected)


async def test_each_connection_and_each_word_of_the_feed_make_the_secret_doubtful_before_what_follows() -> (
    None
):
    stage = Stage(sends(message("a"), SecretNews(), message("b")), sends(), cursor="start")
    await stage.run(0.1)
    assert stage.expired == [False, True]
    assert [(await stage.inbox.get()).cursor for _ in range(2)] == ["a", "b"]
    await stage.run(1)
    assert stage.expired == [False, True, False]


async def test_a_key_that_was_given_up_while_it_was_away_is_replaced_once_for_each_connection() -> None:
    stage = Stage(
        sends(message("a")), TurnedAway(401, "revoked"), sends(message("b")), TurnedAway(401, "revoked"),
        TurnedAway(401, "revoked"), cursor="start",
    )  # fmt: skip
    stage.keys = 2
    with pytest.raises(Refused, match="revoked"):
        await stage.run(60)
    assert [cursor for _, cursor in stage.asked] == ["start", "a", "a", "b", "b"]
    assert stage.forgot == 2, "a fresh key that does not open is a wrong one"


@pytest.mark.parametrize(("end", "keys"), [(PUT_OUT, 1), ("cut", 0)])
async def test_a_key_that_a_person_revokes_or_typed_is_not_replaced(end: str, keys: int) -> None:
    stage = Stage(sends(then=end), TurnedAway(401, "revoked"), cursor="a")
    stage.keys = keys
    with pytest.raises(Refused, match="revoked"):
        await stage.run(60)
    assert len(stage.asked) == 2
