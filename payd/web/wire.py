"""One connection as hypercorn sees it: the stream with what was read before, deadlines, and an orderly end.

Hypercorn's own read timeout counts from one read to the next, so that a byte now and then satisfies it, and
it cuts long polls. Here the whole head has one deadline, an idle connection another, and while a request is
answered there is none: its body has the door's. Hypercorn's idle timer, and its close after an answer that
came before the whole body, can be lost to the cancellation that ends each request; here closing never waits,
so that it cannot be.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import errno
import os
import socket as stdlib_socket
from collections import OrderedDict
from collections.abc import Iterator
from math import inf
from typing import Final

import trio

from payd.web.call import Request

# A request line with its headers; browsers send a tenth of it.
HEAD_BYTES_MAX: Final = 16_384
# A client's request line and headers take one round trip; who needs longer holds a connection for nothing.
HEAD_S: Final = 20.0
# Idle connections stay this long, longer than common proxies keep theirs: Caddy two minutes, others less. Who
# closes first decides, and a request that meets our close on its way is lost to whoever sent it.
KEEP_ALIVE_S: Final = 150.0
# Who has just come has so long to ask, and who has just asked to be answered, before it makes room.
SETTLED_S: Final = 1.0
# A client that takes nothing for this long will not come back for the rest.
SEND_S: Final = 30.0
# At our end of a connection, what the client still sends is read and thrown away for so long and so far:
# closing with unread input resets the connection, and the answer may be lost with it.
LINGER_S: Final = 2.0
LINGER_BYTES_MAX: Final = 8 << 20
# A client that says no more while it is answered has left, or takes the answer all the same, as programs do
# whose input is at its end: pages are answered within this.
LAST_WORD_S: Final = 2.0
CHUNK_BYTES: Final = 65_536
END: Final = b"\r\n\r\n"
"""Of a head."""


class Wires:
    """The connections that are served, and since when each waits: who makes room when all are taken.

    An idle one waits for a request, or for the rest of its head; a busy one for its answer, or for the rest
    of its body. What honest clients ask for is soon answered, so who is busy for longest is held up by its
    own client, or polls for long and comes back.
    """

    def __init__(self) -> None:
        # Since when, by the run's clock; who has waited for longest is first.
        self._idle: OrderedDict[Wire, float] = OrderedDict()
        self._busy: OrderedDict[Wire, float] = OrderedDict()

    def __iter__(self) -> Iterator[Wire]:
        return iter((*self._idle, *self._busy))

    def open(self, stream: trio.SocketStream) -> Wire:
        """A new connection, idle until its first request."""
        wire = Wire(stream, self)
        self._idle[wire] = trio.current_time()
        return wire

    def discard(self, wire: Wire) -> None:
        """Forget a connection, also one that is forgotten already."""
        self._idle.pop(wire, None)
        self._busy.pop(wire, None)

    def note_busy(self, wire: Wire) -> None:
        """A request of it is complete but for its body."""
        if self._idle.pop(wire, None) is not None:
            self._busy[wire] = trio.current_time()

    def note_idle(self, wire: Wire) -> None:
        """All its requests are answered."""
        if self._busy.pop(wire, None) is not None:
            self._idle[wire] = trio.current_time()

    def note_asked(self, wire: Wire) -> None:
        """An idle one asked, and is answered."""
        if wire in self._idle:
            self._idle[wire] = trio.current_time()
            self._idle.move_to_end(wire)

    async def end_idle(self) -> None:
        """End who is idle for `KEEP_ALIVE_S` and has no deadline of its own, for ever."""
        while True:
            now_s = next_s = trio.current_time()
            for wire, since_s in self._idle.items():
                if since_s + KEEP_ALIVE_S > now_s:
                    next_s = since_s
                    break
                if since_s > -inf and wire.scope.deadline == inf:
                    wire.scope.cancel()
            await trio.sleep_until(next_s + KEEP_ALIVE_S)

    def note_leaving(self, wire: Wire) -> None:
        """It only waits for its client to go: nobody makes room before it."""
        self.discard(wire)
        self._idle[wire] = -inf
        self._idle.move_to_end(wire, last=False)

    def end_longest(self) -> bool:
        """End who has been idle for longest; it takes a moment, as its own task does it.

        Where nobody is idle but who has only just come, or was only just answered, it is who has been busy
        for longest; and where all have only just come or asked, again who is idle. False without anybody.
        """
        settled_s = trio.current_time() - SETTLED_S
        for until_s in (settled_s, inf):
            if self._idle and next(iter(self._idle.values())) <= until_s:
                self._idle.popitem(last=False)[0].scope.cancel()
                return True
            if self._busy and next(iter(self._busy.values())) <= until_s:
                self._busy.popitem(last=False)[0].abort()
                return True
        return False


class Wire:
    """The stream that hypercorn is given. All of its life it runs inside `scope`."""

    __slots__ = (
        "_head", "_in_head", "_is_over", "_stream", "_unread", "_wires",
        "active", "closes", "ended", "scope", "socket", "unsent", "upgrade",
    )  # fmt: skip

    def __init__(self, stream: trio.SocketStream, wires: Wires) -> None:
        self._wires = wires
        self.socket = stream.socket
        self.scope = trio.CancelScope()
        self.active = 0
        self.ended = False
        # The feed that the connection was handed over to.
        self.upgrade: Request | None = None
        self._stream = stream
        self._unread = b""
        # Of an answer, what the client has not taken yet and its task has to send; whether it is the last.
        self.unsent = b""
        self.closes = False
        self._head = b""
        self._in_head = False
        self._is_over = False
        self._allow(HEAD_S)

    def unread(self, data: bytes) -> None:
        """Put back what was read to see what kind of connection this is."""
        self._unread = data

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes; empty at the end. The first bytes of a head start its deadline.

        Whoever is told of the end answers no more: while a request is under way, it is told a little later.
        """
        if self._unread:
            await trio.lowlevel.checkpoint()
            data, self._unread = self._unread, b""
        else:
            try:
                data = await receive(self.socket, max_bytes or CHUNK_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.scope.cancel()  # hypercorn would wait for its own idle timer
                raise
        if not data:
            self._is_over = True
            if self.active:
                await trio.sleep(LAST_WORD_S)  # or until it is answered
            self._end_when_idle()
        else:
            self.begin_head()
        return data

    async def send_all(self, data: bytes) -> None:
        """Send everything. The head of an answer waits for what follows it: one write instead of two.

        What is long leaves as it is, and after its head: the documentation is one object that all who ask for
        it share, also those who do not take it.

        Raises:
            trio.BrokenResourceError: The client is gone, or took nothing for `SEND_S`.
        """
        if self.upgrade is not None:
            return  # a last word of hypercorn's on a connection that is not its own any more
        if is_head(data):
            self._head += data
            return
        head, self._head = self._head, b""
        if head and len(data) > CHUNK_BYTES:
            await self.send_whole(head)
        else:
            data = head + data
        await self.send_whole(data)

    async def send_whole(self, data: bytes) -> None:
        """Send an answer that is whole. Raises as `send_all` does."""
        try:
            rest = memoryview(data)[send_now(self.socket, data) :]
            while rest:
                with trio.fail_after(SEND_S):
                    await wait_writable(self.socket)
                rest = rest[send_now(self.socket, rest) :]
        except (trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.scope.cancel()  # hypercorn may be waiting for what never comes
            raise trio.BrokenResourceError("the client is gone") from error

    async def send_eof(self) -> None:
        """Nothing yet: the end is `linger`'s. No checkpoint, so that hypercorn gets on to `aclose`."""

    async def aclose(self) -> None:
        """End the connection: whatever runs on it is cancelled, then the guard closes it. No checkpoint."""
        self.hang_up()

    def hand_over(self, upgrade: Request) -> None:
        """End what runs on the connection, but not the connection: this feed goes on with it.

        Unless it was ended before: then its place is another's by now.
        """
        if not self.scope.cancel_called:
            self.upgrade = upgrade
            self.scope.cancel()

    def hang_up(self) -> None:
        """End the connection from outside, unless it was handed over.

        What was ended before, for others or in its time, is not lingered over.
        """
        if self.upgrade is not None or self.scope.cancel_called:
            return
        self.ended = True
        self._flush()
        self.scope.cancel()

    def abort(self) -> None:
        """Close the socket under everybody, also under a send that is shielded from cancellation."""
        self.hang_up()
        self.socket.close()

    async def linger(self) -> None:
        """After `hang_up`: let the client take what was sent; see `linger`."""
        self.scope = trio.CancelScope()
        self._wires.note_leaving(self)
        with self.scope:
            await linger(self._stream)

    def begin_head(self) -> None:
        """The first bytes of a head have come, or some more."""
        if not self.active and not self._in_head:
            self._in_head = True
            self._allow(HEAD_S)

    def begin_request(self) -> None:
        """A request's head is complete: no deadline of ours until it is answered."""
        self.active += 1
        self._in_head = False
        if self.scope.deadline != inf:
            self.scope.deadline = inf
        if self.active == 1:
            self._wires.note_busy(self)

    def end_request(self, *, parks: bool = False) -> None:
        """A request was answered; after the last one the connection is idle.

        Where it `parks`, it is `Wires.end_idle` that ends it in time: deadlines cost more than the request.
        """
        self.active -= 1
        self._flush()
        if not self.active:
            self._wires.note_idle(self)
            if not parks:
                self._allow(KEEP_ALIVE_S)
            self._end_when_idle()

    def note_answered(self) -> None:
        """A request was answered at once: the connection has never been busy, and is idle from now on."""
        self._wires.note_asked(self)

    def _flush(self) -> None:
        """Send a head that nothing followed, as of an answer without a body."""
        data, self._head = self._head, b""
        try:
            is_sent = not data or send_now(self.socket, data) == len(data)
        except trio.BrokenResourceError:
            is_sent = False
        if not is_sent:
            self.scope.cancel()  # a client that does not even take a head

    def _end_when_idle(self) -> None:
        """A client that sends nothing more and waits for nothing is gone; hypercorn would keep its timer."""
        if self._is_over and not self.active:
            self.scope.cancel()

    def _allow(self, seconds: float) -> None:
        self.scope.deadline = trio.current_time() + seconds


def is_head(data: bytes) -> bool:
    """Whether this is the whole head of a final answer in HTTP/1.1, and no more."""
    return data.startswith(b"HTTP/1.1 ") and data[9:10] != b"1" and data.endswith(END)


def accept_now(listener: trio.abc.Listener[trio.SocketStream]) -> trio.SocketStream | None:
    """Accept a connection that has come already, without a checkpoint.

    Returns:
        None where none has, and for every error: the listener's own `accept` says which.
    """
    if not isinstance(listener, trio.SocketListener) or (its := listener.socket).fileno() < 0:
        return None
    same = stdlib_socket.socket(its.family, its.type, its.proto, fileno=its.fileno())
    try:
        accepted, _ = same.accept()
    except OSError:
        return None
    finally:
        same.detach()
    return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))


def send_now(socket: trio.socket.SocketType, data: bytes | memoryview) -> int:
    """Send what the kernel takes at once, without a checkpoint.

    Returns:
        How many bytes it took; 0 if its buffer is full.

    Raises:
        trio.BrokenResourceError: The connection is gone.
    """
    return write_now(socket.fileno(), data)


def write_now(number: int, data: bytes | memoryview) -> int:
    """`send_now` to the socket with this file descriptor."""
    try:
        return os.write(number, data)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise trio.BrokenResourceError(errno.errorcode.get(error.errno or 0, "gone")) from error


async def wait_writable(socket: trio.socket.SocketType) -> None:
    """Return when some of what is to be sent fits.

    Raises:
        trio.ClosedResourceError: The connection was closed here.
    """
    if socket.fileno() < 0:
        raise trio.ClosedResourceError("closed here")
    await trio.lowlevel.wait_writable(socket)


async def receive(socket: trio.socket.SocketType, max_bytes: int) -> bytes:
    """Read what comes next; empty at the end. Half of what a stream's own `receive_some` costs.

    Raises:
        trio.BrokenResourceError, trio.ClosedResourceError: The connection is gone, or was closed here.
    """
    while True:
        if socket.fileno() < 0:
            raise trio.ClosedResourceError("closed here")
        await trio.lowlevel.wait_readable(socket)
        data = receive_now(socket, max_bytes)
        if data is not None:
            return data


def receive_now(socket: trio.socket.SocketType, max_bytes: int) -> bytes | None:
    """Read what has come, without a checkpoint.

    Returns:
        Some of it; empty at the end; None when nothing has come.

    Raises:
        trio.BrokenResourceError: The connection is gone.
    """
    try:
        return os.read(socket.fileno(), max_bytes)
    except BlockingIOError:
        return None
    except OSError as error:
        raise trio.BrokenResourceError(errno.errorcode.get(error.errno or 0, "gone")) from error


async def linger(stream: trio.SocketStream) -> None:
    """End a connection from our side so that the client gets all that was sent; the caller closes it."""
    with trio.move_on_after(LINGER_S):
        try:
            stream.socket.shutdown(stdlib_socket.SHUT_WR)
            left = LINGER_BYTES_MAX
            while left > 0 and (data := await stream.receive_some(CHUNK_BYTES)):
                left -= len(data)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            return
