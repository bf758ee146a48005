"""Turn actors: one message at a time, to its end, whoever hangs up; and no actor harms another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from payd.actors.turns import INBOX_MAX, Actor, Turns
from payd.core.errors import InternalError, InvalidState, OutcomeUnknown, RateLimited


class Counter(Actor):
    """An actor that remembers a number until it must forget."""

    __slots__ = ("number",)

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.number = 0

    def forget(self) -> None:
        self.number = 0


@asynccontextmanager
async def turns(awake_max: int = 100) -> AsyncIterator[tuple[Turns[Counter], list[tuple[str, Exception]]]]:
    bugs: list[tuple[str, Exception]] = []
    async with trio.open_nursery() as nursery:
        yield Turns(Counter, nursery, lambda key, bug: bugs.append((key, bug)), awake_max), bugs
        nursery.cancel_scope.cancel()


async def _add(actor: Counter) -> int:
    number = actor.number
    await trio.sleep(1)
    actor.number = number + 1
    return actor.number


async def test_turns_of_one_actor_never_overlap_and_keep_their_order() -> None:
    async with turns() as (actors, _):
        results: list[int] = []

        async def one() -> None:
            results.append(await actors.ask("a", _add))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(one)

        assert results == [1, 2, 3, 4, 5]


async def test_turns_of_different_actors_run_side_by_side() -> None:
    begun = trio.current_time()
    async with turns() as (actors, _):
        async with trio.open_nursery() as nursery:
            for key in "abcde":
                nursery.start_soon(actors.ask, key, _add)

        assert trio.current_time() - begun == 1


async def test_a_caller_that_hangs_up_does_not_end_its_turn() -> None:
    async with turns() as (actors, _):
        with trio.move_on_after(0.5):
            await actors.ask("a", _add)

        assert await actors.ask("a", _add) == 2


async def test_a_refusal_reaches_the_caller_and_nobody_else() -> None:
    async def refuse(actor: Counter) -> None:
        raise InvalidState("no")

    async with turns() as (actors, bugs):
        await actors.ask("a", _add)
        with pytest.raises(InvalidState):
            await actors.ask("a", refuse)

        assert await actors.ask("a", _add) == 2
        assert bugs == []


async def test_a_bug_makes_the_actor_start_over_and_is_told_to_the_supervisor() -> None:
    async def stumble(actor: Counter) -> None:
        raise ZeroDivisionError

    async with turns() as (actors, bugs):
        await actors.ask("a", _add)
        with pytest.raises(InternalError) as caught:
            await actors.ask("a", stumble)

        assert "ZeroDivision" not in caught.value.message
        assert [(key, type(bug)) for key, bug in bugs] == [("a", ZeroDivisionError)]
        assert await actors.ask("a", _add) == 1


async def test_after_a_commit_with_an_unknown_outcome_the_actor_reads_its_row_again() -> None:
    async def lose(actor: Counter) -> None:
        raise OutcomeUnknown("?")

    async with turns() as (actors, bugs):
        await actors.ask("a", _add)
        with pytest.raises(OutcomeUnknown):
            await actors.ask("a", lose)

        assert await actors.ask("a", _add) == 1
        assert bugs == []


async def test_what_waits_for_a_reservation_comes_after_it_in_its_order() -> None:
    order: list[str] = []

    def note(name: str, *, reserve: bool = False) -> Callable[[Counter], Awaitable[None]]:
        async def turn(actor: Counter) -> None:
            order.append(name)
            if reserve:
                actor.reserved = True

        return turn

    async with turns() as (actors, _), trio.open_nursery() as nursery:
        await actors.ask("a", note("reserve", reserve=True))
        for name in ("cancel", "expire"):
            nursery.start_soon(actors.ask, "a", note(name))
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(5)
        assert order == ["reserve"]

        async def commit(actor: Counter) -> None:
            order.append("commit")
            nursery.start_soon(actors.ask, "a", note("later"))
            await trio.sleep(1)
            actors.release(actor)

        await actors.ask("a", commit, waits=False)
        await trio.sleep(1)

        assert order == ["reserve", "commit", "cancel", "expire", "later"]


async def test_a_full_inbox_is_refused_in_words_and_loses_nothing() -> None:
    async with turns() as (actors, _), trio.open_nursery() as nursery:
        results: list[int] = []

        async def one() -> None:
            results.append(await actors.ask("a", _add))

        for _ in range(INBOX_MAX):
            nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.start_soon(one)  # One is being worked on, so there is room for one more.
        await trio.testing.wait_all_tasks_blocked(0.01)
        with pytest.raises(RateLimited):
            await actors.ask("a", _add)
        await trio.sleep(INBOX_MAX + 5)

        assert results == list(range(1, INBOX_MAX + 2))


async def test_idle_actors_make_room_and_busy_or_reserved_ones_never_do() -> None:
    async with turns(awake_max=3) as (actors, _), trio.open_nursery() as nursery:
        nursery.start_soon(actors.ask, "busy", _add)
        await trio.testing.wait_all_tasks_blocked(0.01)
        actors.wake("reserved").reserved = True
        for number in range(10):
            actors.wake(f"idle{number}")

        assert actors.peek("busy") is not None
        assert actors.peek("reserved") is not None
        assert len(actors) == 3


async def test_an_actor_with_nothing_to_do_has_no_task_and_no_inbox() -> None:
    async with turns() as (actors, _):
        await actors.ask("a", _add)
        await trio.testing.wait_all_tasks_blocked()

        actor = actors.peek("a")
        assert actor is not None
        assert (actor.busy, actor.inbox, actor.deferred) == (False, None, None)


async def test_a_full_inbox_refuses_neither_the_end_of_a_reservation_nor_the_house() -> None:
    async def ask_and_leave(actors: Turns[Counter]) -> None:
        with trio.move_on_after(1):
            await actors.ask("a", _add)

    async with turns() as (actors, _), trio.open_nursery() as nursery:
        actors.wake("a").reserved = True
        for _ in range(INBOX_MAX):
            nursery.start_soon(ask_and_leave, actors)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RateLimited):
            await actors.ask("a", _add)

        assert await actors.ask("a", _add, waits=False) == 1
        with trio.move_on_after(1) as waited:
            await actors.ask("a", _add, limited=False)
        assert waited.cancelled_caught


async def test_one_turn_of_many_is_of_those_that_are_idle_and_what_comes_meanwhile_waits() -> None:
    async with turns() as (actors, _), trio.open_nursery() as nursery:
        order: list[str] = []

        async def alone(actor: Counter) -> None:
            order.append(f"{actor.key} alone")

        async def together(some: list[Counter]) -> list[str]:
            nursery.start_soon(actors.ask, "b", alone)
            await trio.sleep(1)
            order.append("together")
            return [actor.key for actor in some]

        nursery.start_soon(actors.ask, "busy", _add)
        actors.wake("reserved").reserved = True
        await trio.sleep(0.5)

        assert await actors.ask_together(["a", "busy", "reserved", "b"], together) == ["a", "b"]
        await trio.sleep(0.1)
        assert order == ["together", "b alone"]
        assert await actors.ask("a", _add) == 1


async def test_one_turn_of_many_that_breaks_has_each_start_over_and_take_turns_again() -> None:
    async with turns() as (actors, bugs):

        async def stumble(some: list[Counter]) -> None:
            for actor in some:
                actor.number = 7
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await actors.ask_together(["a", "b"], stumble)

        assert (await actors.ask("a", _add), await actors.ask("b", _add), bugs) == (1, 1, [])


async def test_one_turn_of_many_ends_although_nobody_waits_for_it() -> None:
    async with turns() as (actors, _):

        async def together(some: list[Counter]) -> None:
            await trio.sleep(1)
            for actor in some:
                actor.number = 5

        with trio.move_on_after(0.5):
            await actors.ask_together(["a", "b"], together)

        assert (await actors.ask("a", _add), await actors.ask("b", _add)) == (6, 6)
