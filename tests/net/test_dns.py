"""Look-ups: shared, bounded, remembered, and hanging for nobody else."""

from __future__ import annotations

import socket
import threading

import pytest
import trio

from payd.net.dns import CACHE_S, DnsFailed, Resolver


class Names:
    """A name server: `hang` is never answered until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()

    def look_up(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith("hang"):
            self.released.wait(10)
        if host == "gone":
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


@pytest.mark.real_time
async def test_more_hanging_look_ups_than_there_are_threads_fail_at_once() -> None:
    names = Names()
    resolver = Resolver(names.look_up, lookups_max=2)
    for host in ("hang1.test", "hang2.test"):
        with trio.move_on_after(0.02):
            await resolver(host)
    with pytest.raises(DnsFailed, match="waiting"):
        await resolver("c.test")
    names.released.set()
