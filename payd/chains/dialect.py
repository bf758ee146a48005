"""How the nodes of one kind of chain are asked, and what their words mean.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Protocol

from payd.chains.rpc_errors import Kind, RpcError, Verdict
from payd.chains.rpc_wire import Call

Identity = int | str
"""What a chain is called by its nodes: a number, or the hash of its first block."""


class Dialect(Protocol):
    """One chain's. It asks nothing itself, and keeps nothing."""

    @property
    def chain(self) -> Identity:
        """What its nodes call it."""
        ...

    @property
    def identity_call(self) -> Call:
        """Asks a node which chain it is of."""
        ...

    @property
    def head_call(self) -> Call:
        """Asks a node for its newest block."""
        ...

    @property
    def time_call(self) -> Call:
        """Asks a node when its newest block was made."""
        ...

    def identity_in(self, result: object) -> Identity | None:
        """What a node calls its chain; None where the result says nothing of it."""
        ...

    def head_in(self, call: Call, result: object) -> int | None:
        """The newest block's number, if that is what was asked for and answered."""
        ...

    def time_in(self, result: object) -> int | None:
        """What a node says to `time_call`, in Unix seconds; None where the result does not say it."""
        ...

    def kind_of(self, method: str, code: int, message: str) -> Kind:
        """What an error to a call of `method` means."""
        ...

    def send_call(self, raw: bytes) -> Call:
        """Hands a signed transaction to a node."""
        ...

    def verdict_of(self, error: RpcError) -> Verdict:
        """What a node's error to `send_call` says about the transaction."""
        ...


LIMITED_WORDS: Final = (
    "rate limit",
    "rate-limit",
    "ratelimit",
    "rate exceeded",
    "too many requests",
    "request limit",
    "requests per second",
    "request count exceeded",
    "compute units",
    "quota",
    "throttle",
    "over capacity",
    "credits limited",
    "rps limit",
    "usage limit",
    "capacity limit",
    "unauthorized",
)
"""In what providers say to every call when they want to be asked less, or by who pays, whatever the chain."""


def has(words: str, parts: tuple[str, ...]) -> bool:
    """Whether one of the parts is in the words."""
    return any(part in words for part in parts)
