"""JSON from a public web service: one GET, bounded, strict about what counts as an answer.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from payd import __version__
from payd.chains.market.source import ASK_S, FRESH_MS, SourceFailed
from payd.net.addresses import Network, may_call
from payd.net.http import Client, Reply, Target

# The longest known answer has 20 kB: every currency that one of the sources knows.
BODY_BYTES_MAX: Final = 128 * 1024

_HEADERS: Final = (("accept", "application/json"), ("user-agent", f"payd/{__version__}"))

T = TypeVar("T")


class BadStatus(SourceFailed):
    """The service answered with another status than 200.

    Attributes:
        status: Which.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """What a service said.

    Attributes:
        said: The decoded body.
        age_ms: How old a cache on the way says that it is.
    """

    said: T
    age_ms: int


def market_client(allow_networks: Iterable[Network] = ()) -> Client:
    """The client for price services: public addresses and these networks only. Close it (`aclose`)."""
    networks = tuple(allow_networks)
    return Client(may_call=lambda address: may_call(address, networks))


class PublicService:
    """A service of the web that speaks JSON and needs no key.

    Args:
        client: Such as `market_client` makes.
        base_url: Scheme, host and the beginning of all paths.

    Raises:
        InvalidParams: The URL cannot be called.
    """

    def __init__(self, client: Client, base_url: str) -> None:
        self._client = client
        self._base = Target.of(base_url.rstrip("/"))

    async def get(self, path: str, query: Mapping[str, str], shape: type[T]) -> Answer[T]:
        """The body of `path` as a `shape`.

        Raises:
            BadStatus: It answered, with another status than 200.
            SourceFailed: It did not, or with something else.
        """
        whole = f"{self._base.path.rstrip('/')}{path}?{urlencode(query)}"
        target = msgspec.structs.replace(self._base, path=whole)
        reply = await self._client.send(
            "GET",
            target,
            _HEADERS,
            deadline_s=ASK_S,
            body_bytes_max=BODY_BYTES_MAX,
            body_wait_s=ASK_S,
        )
        return Answer(_decoded(reply, shape), _age_ms(reply))


def _decoded(reply: Reply, shape: type[T]) -> T:
    if reply.status is None:
        raise SourceFailed(f"{reply.error_class}: {reply.detail}")
    if reply.status != 200:
        raise BadStatus(reply.status)
    if not reply.is_whole:
        raise SourceFailed("the answer was cut off")
    try:
        return msgspec.json.decode(reply.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The error names a place in the shape, nothing of what was sent.
        raise SourceFailed(f"not the expected JSON: {error}") from error


def _age_ms(reply: Reply) -> int:
    """What the `Age` header says; an unreadable one is too old."""
    text = reply.header("age")
    if text is None:
        return 0
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    return int(text) * 1000 if is_number else FRESH_MS
