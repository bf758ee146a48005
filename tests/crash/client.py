"""An HTTP client that knows what it does not know: an answer that was cut off is `Lost`, no yes and no no."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import trio

# A server that takes longer hangs, however busy the machine is.
ANSWER_MAX_S: Final = 60
CHUNK_BYTES: Final = 65_536


class Lost(Exception):
    """The connection ended before the whole answer was there: whether the request was done is unknown."""


@dataclass(frozen=True)
class Answered:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """Decoded."""
        return msgspec.json.decode(self.raw)


class Client:
    """One keep-alive connection to 127.0.0.1, opened when it is needed, one request at a time."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._stream: trio.SocketStream | None = None
        self._buffer = b""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection at once."""
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)
            self._stream = None
            self._buffer = b""

    def is_stale(self) -> bool:
        """Whether the server has ended the connection since its last answer; clients look before they ask."""
        return self._stream is not None and self._stream.socket.is_readable()

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        """Send a request and read its answer.

        Raises:
            Lost: There is no whole answer.
            trio.TooSlowError: The server hangs.
        """
        with trio.fail_after(ANSWER_MAX_S):
            try:
                if self._stream is None:
                    self._stream = await trio.open_tcp_stream("127.0.0.1", self.port)
                await self._stream.send_all(request_bytes(method, path, body, headers or {}))
                answered = await self._read()
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                await self.close()
                raise Lost(f"{method} {path}") from error
        if answered.headers.get("connection") == "close":
            await self.close()
        return answered

    async def _read(self) -> Answered:
        head = await self._until(lambda buffer: buffer.find(b"\r\n\r\n") + 1)
        lines = self._buffer[: head - 1].decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        start = head + 3
        end = start + int(headers.get("content-length", "0"))
        await self._until(lambda buffer: len(buffer) >= end)
        raw, self._buffer = self._buffer[start:end], self._buffer[end:]
        return Answered(int(lines[0].split(" ")[1]), headers, raw)

    async def _until(self, there: Any) -> int:
        assert self._stream is not None
        while not (found := there(self._buffer)):
            chunk = await self._stream.receive_some(CHUNK_BYTES)
            if not chunk:
                raise trio.BrokenResourceError
            self._buffer += bytes(chunk)
        return int(found)


def request_bytes(method: str, path: str, body: Any, headers: dict[str, str]) -> bytes:
    """A request as it goes over the wire."""
    data = b"" if body is None else msgspec.json.encode(body)
    head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        head.append("content-type: application/json")
    if data or method != "GET":
        head.append(f"content-length: {len(data)}")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + data
