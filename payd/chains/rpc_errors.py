"""What a node's refusal means: its answer, something that only this node cannot do, or patience it asks for.

Which code or words mean what, the dialect of a chain's nodes knows.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["answer", "too_wide", "cannot", "limited"]
"""answer: any node would say so. too_wide: ask for fewer blocks. cannot: another may. limited: ask later."""

Verdict = Literal[
    "ok", "known", "nonce_low", "nonce_high", "underpriced", "fee_low", "no_funds", "expired", "down", "other"
]
"""What a node says to a signed transaction. ok and known: it has it. other: nothing is known."""

MESSAGE_MAX: Final = 1000  # characters; some nodes append a whole trace

# Of contracts, which only some chains have.
REVERT_CODES: Final = frozenset({3, -32015})


class RpcError(Exception):
    """A node answered with a JSON-RPC error.

    Attributes:
        code: The node's number.
        message: The node's words, cut to `MESSAGE_MAX`.
        data: As it came; of a revert, what the contract returned.
        kind: What it means; "limited" is never raised, because then no node has given an answer.
    """

    def __init__(self, code: int, message: str, data: object = None, kind: Kind = "answer") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.data = data
        self.kind: Kind = kind

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @property
    def is_revert(self) -> bool:
        """Whether the contract itself refused the call: the only error that speaks of a call's outcome."""
        words = self.message.lower()
        said = self.code in REVERT_CODES or "revert" in words or "vm execution error" in words
        return said and self.kind == "answer"


class BadAnswer(ValueError):
    """A node's answer is not what its method answers; the message says what is wrong with it."""


class NodesDown(Exception):
    """No node gave an answer: nothing is known, neither for nor against. The message says which and why."""
