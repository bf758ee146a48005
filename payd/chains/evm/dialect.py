"""How the nodes of EVM chains are asked, and what their words mean.

No standard fixes codes or words; these are the ones that clients and providers use.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from payd.chains.dialect import LIMITED_WORDS, has
from payd.chains.rpc_errors import REVERT_CODES, Kind, RpcError, Verdict
from payd.chains.rpc_wire import Call

# EIP-1474 and JSON-RPC 2.0: method not found, not supported, not enabled; resource not found, unavailable;
# and the execution APIs' unknown block.
_CANNOT_CODES: Final = frozenset({-32601, -32004, -32604, -32001, -32002, -39001})
_LIMIT_CODE: Final = -32005
_LIMITED_CODES: Final = frozenset({_LIMIT_CODE, 429})
# What stands before the public nodes of OP chains (proxyd) has a code of reverts for that.
_PROXY_TIMEOUT: Final = (-32015, "gateway timeout")

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
# Where an error may speak of what was asked; what is said to any other call is the trouble of who says it.
_MAY_ANSWER: Final = frozenset({"eth_call", "eth_estimateGas", "eth_sendRawTransaction", "eth_getLogs"})
# These speak of a range, and not of its width.
_NOT_WIDE: Final = ("invalid block range", "beyond current head")
# Trouble that passes, of a node or of the sequencer behind it, whatever it was asked.
_TROUBLE: Final = (
    "timeout",
    "context deadline exceeded",
    "internal error",
    "internal server error",
    "internal json-rpc error",
    "no backend",
    "backend offline",
    "backend is currently not healthy",
    "backend returned an invalid response",
    "temporarily",
    "bad gateway",
    "service unavailable",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "dial tcp",
    '": eof',
    "context cancel",
    "pool is full",
    "tx pool full",
    "queue full",
    "l2 congestion",
    "please retry transaction",
    "unable to complete request",
    "unable to perform request",
    "cannot fulfill request",
    "suitable provider",
    "upstream",
    "no nodes available",
    "timed out",
    "too much load",
    "too many connections",
    "could not connect",
)
_CANNOT: Final = (
    *_TROUBLE,
    "method not found",
    "unsupported method",
    "method not supported",
    "is not available",
    "are not available",
    "is not supported",
    "header not found",
    "unknown block",
    "block not found",
    "could not find block",
    "missing block",
    "cannot be found",
    "blockoutofrange",
    "beyond current head",
    "block is out of range",
    "cannot query unfinalized",
    "missing trie node",
    "state not available",
    "state unavailable",
    "historical state",
    "pruned",
    "not synced",
    "syncing",
    "indexing is in progress",
)

# "unknown transaction type" is no "known transaction".
_UNKNOWN: Final = "unknown transaction"
_VERDICTS: Final[tuple[tuple[Verdict, tuple[str, ...]], ...]] = (
    (
        "known",
        (
            "already known",
            "already imported",
            "alreadyimported",
            "known transaction",
            "already_exists",
            "alreadyknown",
            "existing tx with same hash",
        ),
    ),
    ("nonce_low", ("nonce too low", "nonce is too low", "oldnonce", "invalidtransaction::stale")),
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
            "noncetoofar",
            "noncegap",
            "invalidtransaction::future",
        ),
    ),
    # Before "underpriced": of a transaction that replaces nothing, some say the fee is too low for the block.
    (
        "fee_low",
        (
            "max fee per gas less than block base fee",
            "fee cap less than block base fee",
            "gas price less than block base fee",
            "below current base fee",
            "below configured minimum gas price",
            "gas price below minimum",
            "below minimum required priority fee",
            "gas price too low",
            "fee too low",
            "feetoolow",
        ),
    ),
    (
        "underpriced",
        ("underpriced", "replacementnotallowed", "could not replace existing tx", "toolowpriority"),
    ),
    (
        "no_funds",
        (
            "insufficient funds",
            "insufficientfunds",
            "insufficient balance",
            "enough funds",
            "enough balance",
            "would cause overdraft",
            "upfront cost exceeds",
            "invalidtransaction::payment",
        ),
    ),
)


class EvmDialect(msgspec.Struct, frozen=True):
    """One chain's, called by its number."""

    chain: int

    @property
    def identity_call(self) -> Call:
        """Asks which chain the node is of."""
        return ("eth_chainId",)

    @property
    def head_call(self) -> Call:
        """Asks for the newest block's number."""
        return ("eth_blockNumber",)

    @property
    def time_call(self) -> Call:
        """Asks for the newest block, without its transactions."""
        return ("eth_getBlockByNumber", "latest", False)

    def identity_in(self, result: object) -> int | None:
        """The number of the node's chain."""
        return read_number(result)

    def head_in(self, call: Call, result: object) -> int | None:
        """The newest block's number, if the call asked for it."""
        match call:
            case ("eth_blockNumber",):
                return read_number(result)
            case ("eth_getBlockByNumber", "latest", _) if isinstance(result, dict):
                return read_number(result.get("number"))
        return None

    def time_in(self, result: object) -> int | None:
        """The time of a block."""
        return read_number(result.get("timestamp")) if isinstance(result, dict) else None

    def kind_of(self, method: str, code: int, message: str) -> Kind:
        """What an error to a call of `method` means."""
        return kind_of(method, code, message)

    def send_call(self, raw: bytes) -> Call:
        """Hands a signed transaction to a node."""
        return ("eth_sendRawTransaction", "0x" + raw.hex())

    def verdict_of(self, error: RpcError) -> Verdict:
        """What a node's error to a signed transaction says about it."""
        return classify(error.message)


def read_number(value: object) -> int | None:
    """The number of a block, a chain or the like; None for what is none."""
    if not isinstance(value, str) or re.fullmatch("0x[0-9a-fA-F]{1,16}", value) is None:
        return None
    return int(value, 16)


def kind_of(method: str, code: int, message: str) -> Kind:
    """What an error to a call of `method` means.

    The code of limits is also that of logs which are too many, so words come first. A contract's own words
    may be any, so they are not looked into.
    """
    words = message.lower()
    if method == "eth_getLogs" and _is_too_wide(code, words):
        return "too_wide"
    if (code in REVERT_CODES and (code, words) != _PROXY_TIMEOUT) or "revert" in words:
        return "answer"
    if code in _LIMITED_CODES or has(words, LIMITED_WORDS):
        return "limited"
    if method not in _MAY_ANSWER or code in _CANNOT_CODES or has(words, _CANNOT):
        return "cannot"
    return "answer"


def classify(message: str) -> Verdict:
    """What a node's error to eth_sendRawTransaction says about the transaction."""
    words = message.lower()
    if _UNKNOWN in words:
        return "other"
    said: Verdict = next((verdict for verdict, parts in _VERDICTS if has(words, parts)), "other")
    return "down" if said == "other" and has(words, _TROUBLE) else said


def _is_too_wide(code: int, words: str) -> bool:
    if has(words, _TOO_WIDE):
        return not has(words, _NOT_WIDE)
    return code == _LIMIT_CODE and not has(words, LIMITED_WORDS)
