"""The least that a server can do: the same bytes for whatever comes. It shows what the generator can do."""

from __future__ import annotations

import select
import socket
from typing import Final

BODY: Final = b'{"status":"ok"}'
ANSWER: Final = b"HTTP/1.1 200 \r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
RECEIVE_BYTES: Final = 65_536
BACKLOG: Final = 2048


def main() -> None:
    """Serve until killed; a request is what arrives at once."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    print(f"fixed serves http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                client, _ = listener.accept()
                clients[client.fileno()] = client
                poll.register(client.fileno(), select.EPOLLIN)
            elif not answer(clients[number]):
                poll.unregister(number)
                clients.pop(number).close()


def answer(client: socket.socket) -> bool:
    """Whether the client was there to be answered; some leave without a goodbye."""
    try:
        if not client.recv(RECEIVE_BYTES):
            return False
        client.sendall(ANSWER)
    except ConnectionError:
        return False
    return True


if __name__ == "__main__":
    main()
