"""JSON-RPC 2.0 as bytes: calls into the body of a POST, and a reply into their results.

What a node sends is not trusted to be anything: what does not fit is a fault of the node.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from payd.chains.rpc_errors import MESSAGE_MAX, Kind, RpcError
from payd.core.retry import read_retry_after_s
from payd.core.text import on_one_line
from payd.net.http import Reply

Call: TypeAlias = tuple[str, *tuple[Any, ...]]
"""A method's name and its parameters."""
Results: TypeAlias = list[Any]
"""One for each call, in order; a `RpcError` where the node answered so."""
KindOf: TypeAlias = Callable[[str, int, str], Kind]
"""What an error means, from the called method, its code and its message."""

# Of what a node says with a status, for people.
WORDS_MAX: Final = 200
# A shorter part of a URL is no key.
KEY_CHARS_MIN: Final = 8

# Providers sell batches: one "of more than 3 requests", or "batch requests are only available" to who pays.
_BATCH: Final = re.compile(
    "batch(ed)? (of|requests?|calls?|items?|size|limit|support|too)|support (for )?batch"
)


class Fault(Exception):
    """The node gave no answer; the words say why. One that asks for patience is not asked again before."""

    def __init__(self, words: str, *, patience_s: int | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.patience_s = patience_s


class TooManyCalls(Exception):
    """The node takes no batch of that length."""


class AnswerTooLong(Exception):
    """The answer to a batch is longer than what is read of one."""


class _Error(msgspec.Struct):
    code: int = 0
    message: str | None = None
    data: Any = None


class _Answer(msgspec.Struct):
    id: int | str | None = None
    result: Any = msgspec.UNSET
    error: _Error | None = None


_DECODER: Final = msgspec.json.Decoder(list[_Answer] | _Answer)


class Redactor:
    """Takes the keys of a URL out of what a node says about its request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        words = re.split("[/&=]", f"{parts.path}/{parts.query}")
        self._keys = sorted({word for word in words if len(word) >= KEY_CHARS_MIN}, key=len, reverse=True)

    def __call__(self, message: str | None) -> str:
        """The message without them, cut to `MESSAGE_MAX`."""
        words = message or ""
        for key in self._keys:
            words = words.replace(key, "[redacted]")
        return words[:MESSAGE_MAX]


def encode(calls: Sequence[Call], first_id: int) -> bytes:
    """The body of a POST: one call as an object, because some nodes take no batch, more of them as a list."""
    requests = [
        {"jsonrpc": "2.0", "id": first_id + place, "method": method, "params": params}
        for place, (method, *params) in enumerate(calls)
    ]
    return msgspec.json.encode(requests if len(requests) > 1 else requests[0])


def read_results(
    reply: Reply, calls: Sequence[Call], first_id: int, redact: Redactor, kind_of: KindOf
) -> Results:
    """The results of the calls, in their order; of a batch those before the first that is limited.

    Raises:
        TooManyCalls: The node may answer shorter batches.
        AnswerTooLong: One of the calls asks for too much, which it says itself when it is asked for alone.
        Fault: The reply is no answer to all of them, or already the first is limited.
    """
    is_batch = len(calls) > 1
    if is_batch and reply.status == 413 and _is_too_wide(_parsed(reply), calls, kind_of):
        raise AnswerTooLong
    if is_batch and (reply.status == 413 or (reply.status != 200 and _refuses_batch(_parsed(reply)))):
        raise TooManyCalls
    answers = _decoded(reply, redact)
    listed = answers if isinstance(answers, list) else [answers]
    if is_batch and _refuses_batch(answers):
        raise TooManyCalls
    methods: dict[int | str | None, str] = {
        first_id + place: method for place, (method, *_) in enumerate(calls)
    }
    for answer in listed:
        if len(listed) == 1 or answer.id in (None, first_id):
            _check_limit(calls[0][0], answer, redact, kind_of)
    if is_batch and _is_refusal(answers):
        raise TooManyCalls
    if not is_batch and len(listed) == 1 and listed[0].id is None and listed[0].error is not None:
        listed[0].id = first_id  # Said before the request was looked into.
    by_id = {answer.id: answer for answer in listed}
    if by_id.keys() != methods.keys() or len(listed) != len(calls):
        raise Fault("its answer does not fit the request")
    results = [_result(method, by_id[one], redact, kind_of) for one, method in methods.items()]
    # What comes after is asked for again all the same: it may say of how far the node was what is no more so.
    return list(takewhile(lambda one: not (isinstance(one, RpcError) and one.kind == "limited"), results))


def _decoded(reply: Reply, redact: Redactor) -> list[_Answer] | _Answer:
    if reply.status is None:
        raise Fault(f"{reply.error_class}: {reply.detail}")
    # Some send errors with a status of their own, 413 that of logs of too many blocks; a key that is refused
    # is none of a call.
    if reply.status not in (200, 400, 413):
        raise Fault(_refusal(reply, redact), patience_s=_patience_s(reply.status, reply))
    if not reply.is_whole:
        raise Fault("its answer is too long, or was cut off")
    answers = _parsed(reply)
    if answers is None:
        raise Fault("its answer is no JSON-RPC" if reply.status == 200 else _refusal(reply, redact))
    return answers


def _refusal(reply: Reply, redact: Redactor) -> str:
    """The status, and what the node says with it: that of a plan or a key often says what to do."""
    said = next((one.error.message for one in _listed(_parsed(reply)) if one is not None and one.error), None)
    if said is None and not reply.body.lstrip().startswith((b"<", b"{", b"[")):
        said = reply.body[:MESSAGE_MAX].decode(errors="replace")
    words = on_one_line(redact(said)[:WORDS_MAX]).strip()
    return f"HTTP {reply.status}: {words}" if words else f"HTTP {reply.status}"


def _parsed(reply: Reply) -> list[_Answer] | _Answer | None:
    try:
        answers: list[_Answer] | _Answer = _DECODER.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return answers


def _patience_s(status: int, reply: Reply) -> int | None:
    # No wall clock here: a date asks for the longest rest there is.
    asked_s = read_retry_after_s(status, reply.header("retry-after"), 0)
    return 0 if asked_s is None and status == 429 else asked_s


def _check_limit(method: str, answer: _Answer, redact: Redactor, kind_of: KindOf) -> None:
    if answer.error is not None:
        words = redact(answer.error.message)
        if kind_of(method, answer.error.code, words) == "limited":
            raise Fault(f"it asks for patience: {words}", patience_s=0)


def _is_too_wide(answers: list[_Answer] | _Answer | None, calls: Sequence[Call], kind_of: KindOf) -> bool:
    """Whether the node says of one of the calls that it asks for too many blocks."""
    errors = [one.error for one in _listed(answers) if one is not None and one.error is not None]
    return any(
        kind_of(method, error.code, error.message or "") == "too_wide"
        for method, *_ in calls
        for error in errors
    )


def _refuses_batch(answers: list[_Answer] | _Answer | None) -> bool:
    """Whether the node says in words, some with a status of their own, that it takes no such batch."""
    listed = _listed(answers)
    return bool(listed) and all(
        one is not None and one.error is not None and _is_of_batch(one.error.message or "") for one in listed
    )


def _listed(answers: list[_Answer] | _Answer | None) -> Sequence[_Answer | None]:
    return answers if isinstance(answers, list) else [answers]


def _is_of_batch(message: str) -> bool:
    words = message.lower()
    return _BATCH.search(words) is not None and "revert" not in words


def _is_refusal(answers: list[_Answer] | _Answer) -> bool:
    """Whether a batch was not looked into because of its length, or its answer became too long."""
    if isinstance(answers, _Answer):
        return answers.error is not None
    if len(answers) == 1:
        return answers[0].error is not None
    return any(
        one.error is not None and "response too large" in (one.error.message or "").lower() for one in answers
    )


def _result(method: str, answer: _Answer, redact: Redactor, kind_of: KindOf) -> Any:
    if answer.error is not None:
        message = on_one_line(redact(answer.error.message))
        kind = kind_of(method, answer.error.code, message)
        return RpcError(answer.error.code, message, answer.error.data, kind)
    if answer.result is msgspec.UNSET:
        raise Fault("its answer has neither a result nor an error")
    return answer.result
