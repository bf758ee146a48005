"""What a node's refusal means: its answer, something that only this node cannot do, or patience it asks for.

No standard fixes codes or words; these are the ones that clients and providers use.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["answer", "too_wide", "cannot", "limited"]
"""answer: any node would say so. too_wide: ask for fewer blocks. cannot: another may. limited: ask later."""

Verdict = Literal[
    "ok", "known", "nonce_low", "nonce_high", "underpriced", "fee_low", "no_funds", "down", "other"
]
"""What a node says to a signed transaction. ok and known: it has it. other: nothing is known."""

MESSAGE_MAX: Final = 1000  # characters; some nodes append a whole trace

# EIP-1474 and JSON-RPC 2.0: method not found, not supported, not enabled; resource not found, unavailable;
# and the execution APIs' unknown block.
_CANNOT_CODES: Final = frozenset({-32601, -32004, -32604, -32001, -32002, -39001})
_LIMITED_CODES: Final = frozenset({-32005, 429})
_REVERT_CODES: Final = frozenset({3, -32015})

_TOO_WIDE: Final = (
    "query returned more than",
    "too many results",
    "response size exceeded",
    "response size should not",
    "block range",
    "range is too",
    "range too",
    "max range",
    "range limit",
    "ranges over",
    "exceeds max",
    "blocks at once",
    "limited to a",
    "query timeout exceeded",
)
# These speak of a range, and not of its width.
_NOT_WIDE: Final = ("invalid block range", "beyond current head")
_CANNOT: Final = (
    "method not found",
    "unsupported method",
    "method not supported",
    "is not available",
    "is not supported",
    "header not found",
    "unknown block",
    "block not found",
    "could not find block",
    "missing block",
    "cannot be found",
    "blockoutofrange",
    "beyond current head",
    "cannot query unfinalized",
    "missing trie node",
    "state not available",
    "state unavailable",
    "historical state",
    "pruned",
    "not synced",
    "syncing",
    "execution timeout",
    "execution aborted (timeout",
    "request timed out",
    "context deadline exceeded",
    "internal error",
)
_LIMITED: Final = (
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
)

# "unknown transaction type" is no "known transaction".
_UNKNOWN: Final = "unknown transaction"
_VERDICTS: Final[tuple[tuple[Verdict, tuple[str, ...]], ...]] = (
    (
        "known",
        ("already known", "already imported", "known transaction", "already_exists", "alreadyknown"),
    ),
    ("nonce_low", ("nonce too low", "nonce is too low", "oldnonce")),
    (
        "nonce_high",
        (
            "nonce too high",
            "nonce is too high",
            "nonce too far in the future",
            "nonce is too distant",
            "exceeds next nonce",
            "nonce out of range",
            "tx-nonce-too-high",
            "noncegap",
        ),
    ),
    # Before "underpriced": of a transaction that replaces nothing, some say the fee is too low for the block.
    (
        "fee_low",
        (
            "max fee per gas less than block base fee",
            "fee cap less than block base fee",
            "below current base fee",
            "feetoolow",
        ),
    ),
    ("underpriced", ("underpriced", "replacementnotallowed")),
    ("no_funds", ("insufficient funds", "insufficientfunds", "upfront cost exceeds")),
)


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
        return self.code in _REVERT_CODES or "revert" in words or "vm execution error" in words


class BadAnswer(ValueError):
    """A node's answer is not what its method answers; the message says what is wrong with it."""


class NodesDown(Exception):
    """No node gave an answer: nothing is known, neither for nor against. The message says which and why."""


def kind_of(method: str, code: int, message: str) -> Kind:
    """What an error to a call of `method` means.

    The code of limits is also that of logs which are too many, so words come first. A contract's own words
    may be any, so they are not looked into.
    """
    words = message.lower()
    if method == "eth_getLogs" and _is_too_wide(words):
        return "too_wide"
    if code in _REVERT_CODES or "revert" in words:
        return "answer"
    if code in _LIMITED_CODES or _has(words, _LIMITED):
        return "limited"
    if code in _CANNOT_CODES or _has(words, _CANNOT):
        return "cannot"
    return "answer"


def classify(message: str) -> Verdict:
    """What a node's error to eth_sendRawTransaction says about the transaction."""
    words = message.lower()
    if _UNKNOWN in words:
        return "other"
    return next((verdict for verdict, parts in _VERDICTS if _has(words, parts)), "other")


def _is_too_wide(words: str) -> bool:
    return (_has(words, _TOO_WIDE) and not _has(words, _NOT_WIDE)) or words.strip(" .") == "limit exceeded"


def _has(words: str, parts: tuple[str, ...]) -> bool:
    return any(part in words for part in parts)
