"""Feeds over websockets: one task a socket, no buffer but the newest snapshot, and one heartbeat for all.

A push is one non-blocking write of a frame that all readers share. A socket whose buffer is full keeps the
newest snapshot, and its own task sends that when it can: nobody else waits, and who takes nothing for
`STUCK_S` is dropped.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import trio

from payd.actors.feed import AccountFeed, Listener, PaymentFeed, Update
from payd.core.errors import (
    InvalidParams,
    PaydError,
    PaymentNotFound,
    RateLimited,
    StoreUnavailable,
    UpgradeRequired,
)
from payd.web.call import Answer, Answering, Request
from payd.web.client import TrustedProxies
from payd.web.limits import Slots
from payd.web.stream_socket import POLICY, RESTART, Headers, Pull, StreamSocket

# Below what common proxies give an idle connection.
PING_S: Final = 25.0
# The pings of one period leave in as many groups, so that ten thousand sockets are no burst.
BEATS: Final = 25
# Events read and sent at once to an account's listener: some 100 kB, which 10 kB/s takes within `STUCK_S`.
BATCH_MAX: Final = 50
# A listener whose events cannot be read at the moment stays, and they are read again after this long.
READ_AGAIN_S: Final = 1.0
# Feeds open at once in all, and from one address: a shop's network full of phones.
FEEDS_MAX: Final = 20_000
FEEDS_PER_IP_MAX: Final = 200
# Of one payment: more pages than any has, and a tenth of all, so that a link in the wrong hands does not end
# the others' feeds.
FEEDS_PER_PAYMENT_MAX: Final = 2_000
# Pages that are turned away come back after this long.
RETRY_S: Final = 5

VERSION: Final = "13"
KEY_BYTES: Final = 16

_FEED = re.compile(r"/v1/(?:payments/(?P<payment_id>[^/]+)/)?feed")


class AccountSource(Protocol):
    """An account's events, for one authenticated listener."""

    account_id: str
    feed: AccountFeed

    async def start(self, after: str | None) -> Any:
        """The cursor to read on from: `after`, or the newest event. Raises PaydError if it is none."""

    async def greeting(self, cursor: Any) -> Headers:
        """What the handshake's answer tells: where the feed begins, and how much waits there."""

    async def events_after(self, cursor: Any, limit: int) -> list[tuple[Any, bytes]]:
        """The next events: cursor and message of each.

        Raises:
            StoreUnavailable: They cannot be read now.
            PaydError: The caller may no more.
        """

    async def events_again(self, seqs: list[int]) -> list[bytes]:
        """The messages of events that are sent once more. Raises StoreUnavailable."""


def is_feed(path: str) -> bool:
    """Whether a path is one of a feed."""
    return _FEED.fullmatch(path) is not None


def wants_upgrade(request: Request) -> bool:
    """Whether a request asks for a websocket."""
    tokens = request.headers.get("connection", "").lower().split(",")
    upgrade = request.headers.get("upgrade", "").strip().lower()
    return request.method == "GET" and upgrade == "websocket" and any(t.strip() == "upgrade" for t in tokens)


class Sockets:
    """All open feeds.

    Args:
        answer: Words every refusal: it is given the request with its `refusal`.
        feed_of: The feed of the realm that a payment id names, or None.
        snapshot: A payment's snapshot and whether it is final, or None if there is no such payment.
        authenticate: Who is asking for the account feed. Raises PaydError.
        trusted: The proxies, whose address stands for many clients.
        feeds_max: Open at once in all.
        feeds_per_ip: Open at once from one address; 0 is no limit.
        feeds_per_payment: Open at once on one payment; 0 is no limit.
    """

    def __init__(
        self,
        *,
        answer: Answering,
        feed_of: Callable[[str], PaymentFeed | None],
        snapshot: Callable[[str], Awaitable[tuple[bytes, bool] | None]],
        authenticate: Callable[[Request], Awaitable[AccountSource]],
        trusted: TrustedProxies,
        feeds_max: int = FEEDS_MAX,
        feeds_per_ip: int = FEEDS_PER_IP_MAX,
        feeds_per_payment: int = FEEDS_PER_PAYMENT_MAX,
    ) -> None:
        self._answer = answer
        self._feed_of = feed_of
        self._snapshot = snapshot
        self._authenticate = authenticate
        self._trusted = trusted
        self._slots = Slots(feeds_max, feeds_per_ip)
        self._per_payment = feeds_per_payment
        self._groups: list[set[StreamSocket]] = [set() for _ in range(BEATS)]
        self._opened = 0
        self._stopping = False

    def __len__(self) -> int:
        """How many are open."""
        return sum(map(len, self._groups))

    async def heartbeat(self) -> None:
        """Ping every socket once in `PING_S`; runs until cancelled."""
        while True:
            for group in self._groups:
                await trio.sleep(PING_S / BEATS)
                for socket in tuple(group):
                    socket.ping()

    def close_all(self) -> None:
        """The server stops: close every socket, and from now on each new one as soon as it is open."""
        self._stopping = True
        for group in self._groups:
            for socket in tuple(group):
                socket.close(RESTART)

    async def serve_stream(self, stream: trio.SocketStream, request: Request, early: bytes) -> None:
        """Serve a feed on a connection that has sent an upgrade and, after it, `early`. Does not close it."""
        key = request.headers.get("sec-websocket-key", "")
        socket = StreamSocket(stream, key.encode("latin-1"), early)
        if request.headers.get("sec-websocket-version") != VERSION:
            request.refusal = UpgradeRequired(
                f"This server speaks version {VERSION} of the websocket protocol."
            )
            answer = await self._answer(request)
            headers = (*answer.headers, ("sec-websocket-version", VERSION))
            await socket.refuse(Answer(answer.status, answer.body, headers))
        elif not _is_key(key):
            error = InvalidParams("Sec-WebSocket-Key is not 16 bytes in base64.")
            await self._refuse(socket, request, error)
        else:
            await self._serve(socket, request)

    async def _serve(self, socket: StreamSocket, request: Request) -> None:
        """Serve the feed that `request` names, from the handshake to the end."""
        match = _FEED.fullmatch(request.path)
        assert match is not None, "only feed paths come here"
        key = self._trusted.slot_key(request.client_ip)
        if not self._slots.try_take(key):
            return await self._refuse(socket, request, too_many())
        try:
            if match["payment_id"] is not None:
                await self._serve_payment(socket, request, match["payment_id"])
            else:
                await self._serve_account(socket, request)
        finally:
            self._slots.release(key)

    async def _serve_payment(self, socket: StreamSocket, request: Request, payment_id: str) -> None:
        feed = self._feed_of(payment_id)
        if feed is None:
            return await self._refuse(socket, request, PaymentNotFound("No such payment."))
        if 0 < self._per_payment <= feed.count(payment_id):
            return await self._refuse(socket, request, too_many())
        # First the subscription, then the state: what changes in between is not lost.
        feed.subscribe(payment_id, socket)
        try:
            try:
                snapshot = await self._snapshot(payment_id)
            except StoreUnavailable as error:
                return await self._refuse(socket, request, error)
            if snapshot is None:
                return await self._refuse(socket, request, PaymentNotFound("No such payment."))
            request.headers.clear()  # a page stays for long, and its headers are kilobytes
            await self._run(socket, Update(*snapshot), None)
        finally:
            feed.unsubscribe(payment_id, socket)

    async def _serve_account(self, socket: StreamSocket, request: Request) -> None:
        try:
            source = await self._authenticate(request)
            cursor = await source.start(request.query.get("after", [None])[-1])
            greeting = await source.greeting(cursor)
        except PaydError as error:
            return await self._refuse(socket, request, error)
        listener = Listener(socket.wake)

        async def pull() -> list[bytes]:
            nonlocal cursor
            messages: list[bytes] = []
            again: list[int] = []
            try:
                events = await source.events_after(cursor, BATCH_MAX)
                if events:
                    cursor = events[-1][0]
                    messages += [message for _, message in events]
                # Behind what is new, so that nothing comes again before it came.
                again = listener.take_resends(BATCH_MAX - len(events))
                if again:
                    messages += await source.events_again(again)
            except StoreUnavailable:
                listener.put_back(again)
                await trio.sleep(READ_AGAIN_S)
                socket.wake()
            except PaydError:
                socket.close(POLICY)
            return messages

        source.feed.subscribe(source.account_id, listener)
        try:
            await self._run(socket, None, pull, greeting)
        finally:
            source.feed.unsubscribe(source.account_id, listener)

    async def _run(
        self, socket: StreamSocket, first: Update | None, pull: Pull | None, headers: Headers = ()
    ) -> None:
        group = self._groups[self._opened % BEATS]
        self._opened += 1
        group.add(socket)
        try:
            if self._stopping:
                socket.close(RESTART)
            await socket.open(first, headers)
            await socket.run(pull)
        finally:
            group.discard(socket)

    async def _refuse(self, socket: StreamSocket, request: Request, error: PaydError) -> None:
        request.refusal = error
        await socket.refuse(await self._answer(request))


def too_many() -> RateLimited:
    """Why a feed is refused that would be one too many."""
    return RateLimited("Too many open feeds.", details={"retryAfterS": RETRY_S})


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False
