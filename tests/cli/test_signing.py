"""What signs is asked for when it may have changed, once, and what is known signs on meanwhile."""

from __future__ import annotations

import trio

from payd.cli.feed_connection import Unanswered
from payd.cli.following import State
from payd.cli.signing import SecretChanged, Signing, Unshown

Answer = tuple[str, ...] | Exception


class Stage:
    """Somebody to ask, and what was told."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.states: list[State] = []
        self.signing = Signing(self.ask, self.states.append)
        self.signing.put(("old",))

    async def ask(self) -> tuple[str, ...]:
        answer = self.answers.pop(0)
        await trio.sleep(1)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_nobody_is_asked_while_nothing_may_have_changed() -> None:
    stage = Stage()
    assert await stage.signing.secrets() == ("old",)
    assert stage.signing.current == "old"


async def test_what_may_have_changed_is_asked_for_once_and_a_change_is_told() -> None:
    stage = Stage(("old", "older"), ("new", "old"))
    stage.signing.expire(told=False)
    assert await stage.signing.secrets() == await stage.signing.secrets() == ("old", "older")
    assert stage.states == [], "what signs first is the same"
    stage.signing.expire(told=False)
    assert await stage.signing.secrets() == ("new", "old")
    assert stage.states == [SecretChanged(None)]


async def test_it_is_asked_for_until_somebody_answers() -> None:
    stage = Stage(Unanswered("away"), Unshown("not for you"))
    stage.signing.expire(told=True)
    assert await stage.signing.secrets() == ("old",)
    assert stage.states == []
    assert await stage.signing.secrets() == ("old",)
    assert stage.states == [SecretChanged("not for you")], "that it was told is not forgotten"
    assert await stage.signing.secrets() == ("old",)


async def test_a_change_that_is_told_while_it_is_asked_for_counts() -> None:
    stage = Stage(("new",), ("newer",))
    stage.signing.expire(told=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.signing.secrets)
        await trio.sleep(0.5)
        assert stage.answers == [("newer",)], "the first is under way"
        stage.signing.expire(told=True)
    assert await stage.signing.secrets() == ("newer",)
