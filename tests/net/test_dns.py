"""Look-ups: shared, bounded, remembered, and hanging for nobody else."""

from __future__ import annotations

import socket
import threading

import pytest
import trio
from trio.testing import MockClock

from payd.core.retry import RETRY_DELAYS_S
from payd.net.dns import ADDRESSES_MAX, CACHE_S, DNS_DEADLINE_S, DnsFailed, Resolver


class Names:
    """A name server: `hang` is never answered until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()
        self.found: set[str] = set()

    def look_up(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith("hang"):
            self.released.wait(10)
        if host == "gone" and host not in self.found:
            raise socket.gaierror("no such host")
        return [] if host == "empty" else ["1.1.1.1", "2606:4700::1"]


@pytest.mark.parametrize(
    ("host", "answer"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("2001:DB8::0", "2001:db8::")]
)
async def test_an_address_is_its_own_answer(host: str, answer: str) -> None:
    names = Names()

    assert await Resolver(names.look_up)(host) == [answer]
    assert names.asked == []


@pytest.mark.real_time
async def test_an_answer_is_used_again_for_a_while() -> None:
    names = Names()
    resolver = Resolver(names.look_up)

    assert await resolver("a.test") == ["1.1.1.1", "2606:4700::1"]
    assert await resolver("a.test") == ["1.1.1.1", "2606:4700::1"]
    assert names.asked == ["a.test"]
    assert CACHE_S <= 60


@pytest.mark.real_time
@pytest.mark.parametrize("host", ["gone", "empty"])
async def test_a_host_without_an_address_fails(host: str) -> None:
    with pytest.raises(DnsFailed, match=host):
        await Resolver(Names().look_up)(host)


@pytest.mark.real_time
async def test_a_machine_without_a_thread_to_give_fails_the_look_up_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    resolver = Resolver(Names().look_up)
    with monkeypatch.context() as full:
        full.setattr(trio.lowlevel, "start_thread_soon", refuse)
        with pytest.raises(DnsFailed, match="thread"):
            await resolver("a.test")

    assert await resolver("a.test")


async def test_who_comes_again_after_a_failure_asks_again(mock_clock: MockClock) -> None:
    """A delivery's second attempt comes five seconds after the first, and the third five minutes later."""
    names = Names()
    resolver = Resolver(names.look_up)
    for _ in range(3):
        with pytest.raises(DnsFailed):
            await resolver("gone")
    assert names.asked == ["gone"], "many deliveries to it fail at the same moment"
    names.found.add("gone")
    mock_clock.jump(RETRY_DELAYS_S[1])

    assert await resolver("gone") == ["1.1.1.1", "2606:4700::1"]


@pytest.mark.real_time
async def test_those_who_ask_at_once_share_one_look_up() -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    answers: list[list[str]] = []

    async def ask() -> None:
        answers.append(await resolver("hang.test"))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        names.released.set()

    assert len(answers) == 20
    assert names.asked == ["hang.test"]


@pytest.mark.real_time
async def test_a_look_up_that_hangs_is_left_and_its_thread_is_not_started_twice() -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    for _ in range(3):
        with trio.move_on_after(0.05) as scope:
            await resolver("hang.test")
        assert scope.cancelled_caught
    assert await resolver("b.test")
    names.released.set()

    assert await resolver("hang.test")
    assert names.asked == ["hang.test", "b.test"]


async def ask_in_vain(resolver: Resolver, *hosts: str) -> None:
    """Ask for these without waiting for the answers."""
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(resolver, host)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_more_hanging_look_ups_than_there_are_threads_fail_at_once(mock_clock: MockClock) -> None:
    names = Names()
    resolver = Resolver(names.look_up, lookups_max=4)
    await ask_in_vain(resolver, "hang1.test", "hang2.test", "hang3.test")
    with pytest.raises(DnsFailed, match="3 look-ups are waiting"):
        await resolver("c.test")
    names.released.set()


async def test_unknown_names_that_hang_leave_room_for_a_host_that_answered(mock_clock: MockClock) -> None:
    names = Names()
    resolver = Resolver(names.look_up, lookups_max=8)
    assert await resolver("shop.test")
    mock_clock.jump(CACHE_S)
    await ask_in_vain(resolver, *(f"hang{number}.test" for number in range(6)))
    with pytest.raises(DnsFailed, match="waiting"):
        await resolver("unknown.test")

    assert await resolver("shop.test") == ["1.1.1.1", "2606:4700::1"]
    names.released.set()


async def test_hosts_that_hung_before_take_half_of_the_threads_at_most(mock_clock: MockClock) -> None:
    names = Names()
    resolver = Resolver(names.look_up, lookups_max=8)
    slow = [f"hang{number}.test" for number in range(6)]
    await ask_in_vain(resolver, *slow)
    mock_clock.jump(DNS_DEADLINE_S + 0.1)
    names.released.set()
    for host in slow:
        assert await resolver(host)
    names.released.clear()
    mock_clock.jump(CACHE_S)
    await ask_in_vain(resolver, *slow[:4])
    with pytest.raises(DnsFailed, match="4 look-ups are waiting"):
        await resolver(slow[4])

    assert await resolver("fresh.test") == ["1.1.1.1", "2606:4700::1"]
    names.released.set()


async def test_a_host_that_answers_in_time_again_is_slow_no_longer(mock_clock: MockClock) -> None:
    names = Names()
    resolver = Resolver(names.look_up, lookups_max=2)
    await ask_in_vain(resolver, "hang.test")
    mock_clock.jump(DNS_DEADLINE_S + 0.1)
    names.released.set()
    for _ in range(2):
        # The first of these is the answer that came too late.
        assert await resolver("hang.test")
        mock_clock.jump(CACHE_S)
    names.released.clear()
    await ask_in_vain(resolver, "hang2.test")
    names.released.set()

    assert await resolver("hang.test")


async def test_an_endless_answer_is_cut(mock_clock: MockClock) -> None:
    resolver = Resolver(lambda _host: [f"1.1.{n // 250}.{n % 250}" for n in range(4000)])

    assert len(await resolver("many.test")) == ADDRESSES_MAX
