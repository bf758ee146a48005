"""What a handler sees and gives back: a request, the call around it, the answer. No framework is known here.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import parse_qs

import msgspec

from payd.core.errors import InvalidParams, ParamsValidation, PaydError, UnsupportedMediaType
from payd.web.issues import issues_of

if TYPE_CHECKING:
    from payd.web.auth import Caller
    from payd.web.house import House, Realm

T = TypeVar("T")

JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"


class Recalled(Protocol):
    """What the dispatcher knows of requests with one head."""

    @property
    def prompt(self) -> bool:
        """Whether they wait for a commit at most."""


class Seen:
    """Shared by all requests with one head: what was found out about the first of them.

    Attributes:
        known: It; None at first, and again when it does not hold any more.
        kept: Whether the door remembers the head.
    """

    __slots__ = ("kept", "known")

    def __init__(self) -> None:
        self.known: Recalled | None = None
        self.kept = False


@dataclass(slots=True)
class Request:
    """One HTTP request, whole: the door has read the body before anyone looks at it.

    Attributes:
        method: Upper case.
        path: Percent-decoded, without the query.
        query: Every value of every query parameter, decoded, blank ones too.
        headers: By lower-case name; a repeated header is joined by ", ".
        body: At most `[api] body_max` bytes.
        client_ip: Who sent it, behind trusted proxies.
        query_string: The query as it came, for fingerprints and logs.
        refusal: What the door found wrong before anyone looked at it, such as a body over the limit. Whoever
            answers raises it first, so that all errors look alike.
        seen: Where the door remembers heads: what is known of this one. Their headers and queries are shared.
    """

    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    client_ip: str = ""
    query_string: str = ""
    refusal: PaydError | None = None
    seen: Seen | None = field(default=None, compare=False)

    @classmethod
    def from_head(
        cls, method: str, path: str, query_string: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> Request:
        """A request from a parsed head: names in lower case, values as bytes; no body and no client yet."""
        by_name: dict[str, str] = {}
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            between = "; " if name == "cookie" else ", "
            by_name[name] = f"{by_name[name]}{between}{value}" if name in by_name else value
        text = query_string.decode("latin-1")
        return cls(method, path, parse_query(text), by_name, query_string=text)


@dataclass(slots=True)
class Call:
    """A request that found its route, its caller and its realm."""

    request: Request
    params: dict[str, str]
    request_id: str
    house: House
    caller: Caller | None
    realm: Realm
    version: str
    merchant_id: str | None = None

    @property
    def account_id(self) -> str:
        """Whose data a key opens."""
        assert self.caller is not None, "a key's route"
        assert self.caller.account_id is not None, "a key's route"
        return self.caller.account_id

    @property
    def actor(self) -> str:
        """Who acts, for the audit."""
        assert self.caller is not None
        return self.caller.actor

    @property
    def merchants(self) -> frozenset[str] | None:
        """The merchants that the caller's key is limited to; None for all."""
        assert self.caller is not None
        return self.caller.merchants

    def check_merchant(self, merchant_id: str) -> None:
        """Raise Forbidden when the caller's key is limited to other merchants."""
        assert self.caller is not None
        self.caller.check_merchant(merchant_id)

    def json(self, type: type[T]) -> T:
        """The body as `type`, strictly. Raises as `decode_json` does."""
        return decode_json(self.request, type)


@dataclass(slots=True)
class Answer:
    """A status, a body and headers. The door calls a body `application/json` that names no type.

    What is too long to be held whole comes in `parts`, one after the other; `body` is then empty. `about` is
    the id of what was made, for the log of requests.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    parts: AsyncGenerator[bytes, None] | None = None
    about: str = ""

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """`value` as JSON."""
        return cls(status, msgspec.json.encode(value), headers)


Answering = Callable[[Request], Coroutine[Any, Any, Answer]]


def parse_query(text: str) -> dict[str, list[str]]:
    """Every value of every parameter of a query, decoded, blank ones too."""
    return parse_qs(text, keep_blank_values=True) if text else {}


def decode_json(request: Request, type: type[T]) -> T:
    """The body of `request` as `type`.

    Raises:
        UnsupportedMediaType: The body says that it is something other than JSON.
        InvalidParams: It is not JSON at all.
        ParamsValidation: It is JSON and misses the schema; `issues` names the fields that are wrong.
    """
    said = request.headers.get("content-type")
    if said is not None and said.partition(";")[0].strip().lower() != JSON_TYPE:
        raise UnsupportedMediaType("Send the body as JSON, with the header Content-Type: application/json.")
    try:
        if not request.body.isascii():
            request.body.decode()  # JSON is UTF-8, also in the fields that are passed over
        return msgspec.json.decode(request.body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if why := _why_no_json(request.body):
            raise InvalidParams(f"The body is not valid JSON: {why}.") from None
        raise ParamsValidation.of(*issues_of(request.body, type)) from None


def _why_no_json(body: bytes) -> str | None:
    """What keeps `body` from being JSON; None if it is.

    A decoder with a schema does not tell: it stops at the first thing that misses it.
    """
    if not body:
        return "it is empty"
    try:
        body.decode()
        msgspec.json.decode(body)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deep"
    except msgspec.DecodeError as error:
        why = str(error).removeprefix("JSON is malformed: ")
        return why.replace("Input data was truncated", "it ends too early")
    return None
