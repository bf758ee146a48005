"""Turn actors: a state object and an inbox; a task lives only while the inbox holds something.

One message at a time, each to its end, shielded. The caller waits for the reply but does not own the step: a
client that disconnects cancels its handler and nothing else.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import outcome
import trio

from payd.core.errors import InternalError, PaydError, RateLimited

T = TypeVar("T")
A = TypeVar("A", bound="Actor")

# More than this at once on one payment is an attack, not a buyer.
INBOX_MAX: Final = 256
# Awake actors; at about 2 kB each this bounds memory to some 20 MB.
AWAKE_MAX: Final = 10_000
# How many busy actors are passed over when room is made.
EVICTION_TRIES_MAX: Final = 64


class Actor:
    """What is kept awake of one key. Subclasses add their state."""

    __slots__ = ("busy", "deferred", "inbox", "key", "reserved")

    def __init__(self, key: str) -> None:
        self.key = key
        self.inbox: deque[_Message] | None = None
        self.deferred: list[_Message] | None = None
        self.busy = False
        self.reserved = False

    def forget(self) -> None:
        """Drop what memory holds; the next turn reads the row."""


class _Message:
    __slots__ = ("task", "turn", "waits")

    def __init__(
        self, turn: Callable[[Any], Awaitable[Any]], waits: bool, task: trio.lowlevel.Task | None
    ) -> None:
        self.turn = turn
        self.waits = waits
        self.task = task


class Turns(Generic[A]):
    """The awake actors of one kind, by key."""

    def __init__(
        self,
        make: Callable[[str], A],
        nursery: trio.Nursery,
        on_bug: Callable[[str, Exception], None],
        awake_max: int = AWAKE_MAX,
    ) -> None:
        self._make = make
        self._nursery = nursery
        self._on_bug = on_bug
        self._awake_max = awake_max
        self._awake: OrderedDict[str, A] = OrderedDict()

    def __len__(self) -> int:
        return len(self._awake)

    @property
    def waiting(self) -> int:
        """How many turns wait in inboxes. Looks at every awake actor."""
        return sum(len(actor.inbox) for actor in self._awake.values() if actor.inbox)

    def peek(self, key: str) -> A | None:
        """The actor if it is awake."""
        return self._awake.get(key)

    def wake(self, key: str) -> A:
        """The actor, woken; the least recently used idle one makes room."""
        actor = self._awake.get(key)
        if actor is None:
            actor = self._awake[key] = self._make(key)
            if len(self._awake) > self._awake_max:
                self._make_room()
        else:
            self._awake.move_to_end(key)
        return actor

    def forget_all(self) -> None:
        """Every actor reads its row again before its next turn."""
        for actor in self._awake.values():
            actor.forget()

    async def ask(
        self, key: str, turn: Callable[[A], Awaitable[T]], *, waits: bool = True, limited: bool = True
    ) -> T:
        """Run one turn on the actor and give its result.

        Args:
            key: Whose turn.
            turn: An async function of the actor.
            waits: Whether the turn waits for the end of a reservation. Only the turn that ends one does not,
                and a full inbox never refuses it.
            limited: Whether a full inbox refuses the turn. Not those of the house: there is one at a time.

        Raises:
            RateLimited: The inbox is full.
            PaydError: What the turn refused.
            InternalError: The turn hit a bug; the actor starts over from its row.
        """
        actor = self.wake(key)
        message = _Message(turn, waits, trio.lowlevel.current_task())
        self._put(actor, message, limited=limited and waits)

        def abort(_: object) -> trio.lowlevel.Abort:
            message.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        result: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return result

    async def ask_together(self, keys: Sequence[str], turn: Callable[[list[A]], Awaitable[T]]) -> T:
        """Run one turn on many actors at once and give its result.

        Args:
            keys: Whose turn, each once.
            turn: An async function of those of the actors that are idle, in this order; who has turns of its
                own, or a reservation, is left out. It ends before anything else happens to them.

        Raises:
            Exception: What the turn raised; the actors start over from their rows.
        """
        idle = [actor for actor in map(self.wake, keys) if not (actor.busy or actor.reserved)]
        for actor in idle:
            actor.busy = True
        try:
            with trio.CancelScope(shield=True):
                result = await turn(idle)
        except Exception:
            for actor in idle:
                actor.forget()
            raise
        finally:
            for actor in idle:
                actor.busy = False
                if actor.inbox:
                    self._start(actor)
        return result

    def release(self, actor: A) -> None:
        """End the actor's reservation; what waited for it comes next, in its order."""
        actor.reserved = False
        if actor.deferred:
            inbox = actor.inbox = actor.inbox if actor.inbox is not None else deque()
            inbox.extendleft(reversed(actor.deferred))
            actor.deferred = None
            self._start(actor)

    def _put(self, actor: A, message: _Message, *, limited: bool) -> None:
        if actor.inbox is None:
            actor.inbox = deque()
        if limited and len(actor.inbox) + len(actor.deferred or ()) >= INBOX_MAX:
            raise RateLimited(
                "Too much at once for one payment, or one key. Try again shortly.", details={"retryAfterS": 1}
            )
        actor.inbox.append(message)
        self._start(actor)

    def _start(self, actor: A) -> None:
        if not actor.busy:
            actor.busy = True
            self._nursery.start_soon(self._take_turns, actor)

    async def _take_turns(self, actor: A) -> None:
        try:
            while actor.inbox:
                message = actor.inbox.popleft()
                if message.waits and actor.reserved:
                    actor.deferred = actor.deferred or []
                    actor.deferred.append(message)
                    continue
                with trio.CancelScope(shield=True):
                    reply = await self._one_turn(actor, message)
                if message.task is not None:
                    trio.lowlevel.reschedule(message.task, reply)
        finally:
            actor.busy = False
            actor.inbox = None

    async def _one_turn(self, actor: A, message: _Message) -> outcome.Outcome[Any]:
        try:
            return outcome.Value(await message.turn(actor))
        except InternalError as broken:
            actor.forget()
            return outcome.Error(broken)
        except PaydError as refusal:
            return outcome.Error(refusal)
        except Exception as bug:
            # The supervisor: this actor starts over from its row, the others never notice.
            actor.forget()
            self._on_bug(actor.key, bug)
            return outcome.Error(
                InternalError("Something broke on our side. Nothing was changed; try again.")
            )

    def _make_room(self) -> None:
        for _ in range(EVICTION_TRIES_MAX):
            key, oldest = self._awake.popitem(last=False)
            if not (oldest.busy or oldest.reserved or oldest.inbox):
                return
            self._awake[key] = oldest
