"""A webhook receiver on this machine, for `payd demo`: keeps raw bytes, trusts none of our code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import h11
import trio
from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook, WebhookVerificationError

BODY_BYTES_MAX: Final = 256 * 1024  # far above any event; a receiver must not be filled up
READ_BYTES: Final = 65_536
DEADLINE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery. `problem` is why it was refused; None is authentic, and then `event` is its JSON."""

    headers: dict[str, str]
    body: bytes
    problem: str | None
    event: dict[str, Any] = field(default_factory=dict)


class Receiver:
    """Listens on loopback and calls `on_delivery` for each delivery.

    Args:
        on_delivery: Told of each, also of those that are refused.
    """

    def __init__(self, on_delivery: Callable[[Received], None]) -> None:
        self._on_delivery = on_delivery
        self.secret = ""
        self.url = ""

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started once `url` is known."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/webhook"
        task_status.started()
        await trio.serve_listeners(self._serve_one, listeners)

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        """One connection with any number of deliveries."""
        connection = h11.Connection(h11.SERVER)
        async with stream:
            try:
                while await self._exchange(stream, connection):
                    connection.start_next_cycle()
            except (trio.BrokenResourceError, trio.TooSlowError, h11.RemoteProtocolError):
                return

    async def _exchange(self, stream: trio.SocketStream, connection: h11.Connection) -> bool:
        """One delivery; whether another one may follow on the connection."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(READ_BYTES))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_BYTES_MAX:
                    return False
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                break
            else:
                return False
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        received = check(self.secret, headers, bytes(body))
        status = 204 if received.problem is None else 400
        answer = h11.Response(status_code=status, headers=[("content-length", "0")])
        with trio.fail_after(DEADLINE_S):
            await stream.send_all(
                (connection.send(answer) or b"") + (connection.send(h11.EndOfMessage()) or b"")
            )
        self._on_delivery(received)
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE


def check(secret: str, headers: dict[str, str], body: bytes) -> Received:
    """Verify a delivery on its raw bytes, with somebody else's code.

    Source: SPEC.md, "Signature".
    """
    try:
        event = Webhook(secret).verify(body, headers)
    except (WebhookVerificationError, EmptyWebhookSecretError, ValueError) as error:
        return Received(headers, body, str(error) or "not authentic")
    return Received(headers, body, None, event)
