"""What a node tells the moment it has it: that a transaction was confirmed, or that one names an account.

Hints to look, never what is believed; what a node does not tell is found by looking all the same.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import trio

from payd.chains.rpc_wire import Call
from payd.chains.socket import Ended, Socket, converse
from payd.net.dial import Dial
from payd.net.dns import Resolve

OnNews: TypeAlias = Callable[[str], None]
"""Told the id of a transaction that was confirmed, or "": something happened to an account, or may have
before it was subscribed to."""

# Of one connection: what a node remembers for us is bounded, and what is beyond is found by looking.
SUBSCRIPTIONS_MAX: Final = 512

_SubscriptionId: TypeAlias = int | str

_NO_NOTIFICATION: Final = "what came is no notification"


class Wanted:
    """What is to be told of; every connection follows what changes here.

    Attributes:
        changed: Set at the next change; then there is another.
    """

    def __init__(self) -> None:
        self._ids: frozenset[str] = frozenset()
        self._addresses: frozenset[str] = frozenset()
        self.changed = trio.Event()

    def ids(self) -> Collection[str]:
        """The transactions, each told of once."""
        return self._ids

    def addresses(self) -> Collection[str]:
        """The accounts, each told of whenever a transaction names it."""
        return self._addresses

    def want_ids(self, ids: Iterable[str]) -> None:
        """From now on these transactions, and no others."""
        self._ids, before = frozenset(ids), self._ids
        self._note(self._ids != before)

    def want_addresses(self, addresses: Iterable[str]) -> None:
        """From now on these accounts, and no others."""
        self._addresses, before = frozenset(addresses), self._addresses
        self._note(self._addresses != before)

    def _note(self, is_changed: bool) -> None:
        if is_changed:
            self.changed.set()
            self.changed = trio.Event()


async def follow_signatures(
    ws_url: str, wanted: Wanted, on_news: OnNews, *, resolve: Resolve | None = None, dial: Dial | None = None
) -> str:
    """One connection to a node, from the dialing to its end; whoever wants more starts over, after a while.

    Args:
        ws_url: ws or wss; path and query may hold a key, which is not shown.
        wanted: What the node is to tell of, at any time: transactions before accounts, and of both together
            no more than `SUBSCRIPTIONS_MAX`.
        on_news: Called for each piece of news.
        resolve: Name to addresses.
        dial: Address to connection.

    Returns:
        Why it ended, or did not come to a websocket.

    Raises:
        InvalidParams: The URL cannot be called.
    """
    asked = _Subscriptions(wanted)
    return await converse(
        ws_url,
        partial(_hear, asked, on_news),
        partial(_say, asked),
        partial(_heed, asked, wanted),
        resolve=resolve,
        dial=dial,
    )


class _Subject(NamedTuple):
    """What a subscription is about."""

    kind: Literal["signature", "logs"]
    key: str

    @property
    def call(self) -> Call:
        config = {"commitment": "confirmed"}
        if self.kind == "signature":
            return ("signatureSubscribe", self.key, config)
        return ("logsSubscribe", {"mentions": [self.key]}, config)

    @property
    def news(self) -> str:
        # Anybody can name an account: that is no reason to read the transaction, only to look.
        return self.key if self.kind == "signature" else ""


class _Error(msgspec.Struct):
    message: str = ""


class _News(msgspec.Struct):
    subscription: _SubscriptionId


class _Message(msgspec.Struct):
    """The answer to a call, or news."""

    id: int | None = None
    result: int | str | bool | None = None
    error: _Error | None = None
    params: _News | None = None


class _Subscriptions:
    """What one connection asked for, was granted, and was told."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._next_id = 1
        self._asked: dict[int, _Subject] = {}
        self._granted: dict[_SubscriptionId, _Subject] = {}
        # Not asked for again while it is wanted: it was told, or refused.
        self._over: set[_Subject] = set()
        # News may overtake the answer that says what they are about.
        self._early: deque[_SubscriptionId] = deque(maxlen=SUBSCRIPTIONS_MAX)
        self._stirred = trio.Event()

    def stir(self) -> None:
        """There may be something due; several reasons at once are one."""
        self._stirred.set()

    async def wait(self) -> None:
        """Until there may be something due."""
        await self._stirred.wait()
        self._stirred = trio.Event()

    def due(self) -> list[tuple[Call, int]]:
        """The calls that bring it to what is wanted, each with its id; they count as sent."""
        chosen, calls = self._chosen(), list[tuple[Call, int]]()
        for granted, subject in list(self._granted.items()):
            if subject not in chosen:
                del self._granted[granted]
                calls.append(((f"{subject.kind}Unsubscribe", granted), self._take_id()))
        for subject in chosen.difference(self._asked.values(), self._granted.values()):
            # What is asked for and not wanted any more still has its place.
            if not self._is_full():
                call_id = self._take_id()
                self._asked[call_id] = subject
                calls.append((subject.call, call_id))
        return calls

    def heard(self, text: str | bytes) -> str | None:
        """The news in a message.

        Raises:
            Ended: It is none that a node sends, or says that there will be no news.
        """
        message = _decoded(text)
        if message.params is not None:
            return self._told(message.params.subscription)
        if message.id is None and message.error is not None:
            raise Ended(f"it says: {message.error.message}")
        subject = None if message.id is None else self._asked.pop(message.id, None)
        if subject is None:
            return None  # The answer to what was given up.
        if message.error is not None:
            self._refused(subject, message.error.message)
            return None
        return self._grant(subject, message.result)

    def _chosen(self) -> set[_Subject]:
        """What is to have a place: transactions first, and of each kind what has one already."""
        self._over = {subject for subject in self._over if self._is_wanted(subject)}
        held = {*self._asked.values(), *self._granted.values()}
        kept = [subject for subject in held if self._is_wanted(subject)]
        signatures = (_Subject("signature", tx_id) for tx_id in self._wanted.ids())
        logs = (_Subject("logs", address) for address in self._wanted.addresses())
        chosen: set[_Subject] = set()
        for subject in chain(
            (one for one in kept if one.kind == "signature"),
            signatures,
            (one for one in kept if one.kind == "logs"),
            logs,
        ):
            if len(chosen) == SUBSCRIPTIONS_MAX:
                break
            if subject not in self._over:
                chosen.add(subject)
        return chosen

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _grant(self, subject: _Subject, granted: object) -> str | None:
        if isinstance(granted, bool) or not isinstance(granted, int | str) or granted in self._granted:
            raise Ended(_NO_NOTIFICATION)
        self._granted[granted] = subject
        if granted in self._early:
            self._early.remove(granted)
            return self._told(granted)
        if self._is_full() or not self._is_wanted(subject):
            self.stir()
        # What lands before an account is subscribed to is told to nobody: it is looked at now.
        return subject.news if subject.kind == "logs" else None

    def _refused(self, subject: _Subject, words: str) -> None:
        self._over.add(subject)
        self.stir()
        if not self._asked and not self._granted:
            raise Ended(f"it refuses subscriptions: {words}")

    def _told(self, granted: _SubscriptionId) -> str | None:
        subject = self._granted.get(granted)
        if subject is None:
            self._early.append(granted)
            return None
        if subject.kind == "signature":
            # The node has ended the subscription with that.
            del self._granted[granted]
            self._over.add(subject)
            self.stir()
        return subject.news

    def _is_full(self) -> bool:
        return len(self._asked) + len(self._granted) >= SUBSCRIPTIONS_MAX

    def _is_wanted(self, subject: _Subject) -> bool:
        keys = self._wanted.ids() if subject.kind == "signature" else self._wanted.addresses()
        return subject.key in keys


async def _hear(asked: _Subscriptions, on_news: OnNews, socket: Socket) -> None:
    while True:
        news = asked.heard(await socket.next())
        if news is not None:
            on_news(news)


async def _say(asked: _Subscriptions, socket: Socket) -> None:
    while True:
        await asked.wait()
        for call, call_id in asked.due():
            await socket.send(call, call_id)


async def _heed(asked: _Subscriptions, wanted: Wanted, _: Socket) -> None:
    while True:
        changed = wanted.changed
        asked.stir()
        await changed.wait()


def _decoded(text: str | bytes) -> _Message:
    try:
        return msgspec.json.decode(text, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Ended(_NO_NOTIFICATION) from error
