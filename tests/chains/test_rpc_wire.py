"""What a node answers is believed only where it fits what was asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.dialect import kind_of
from payd.chains.rpc_errors import MESSAGE_MAX, RpcError
from payd.chains.rpc_wire import (
    AnswerTooLong,
    Call,
    Fault,
    Redactor,
    TooManyCalls,
    encode,
    read_results,
)
from payd.net.http import Header, Reply

ONE: list[Call] = [("eth_blockNumber",)]
TWO: list[Call] = [("eth_blockNumber",), ("eth_getBalance", "0xab", "latest")]
REDACT = Redactor("https://node.test/v2/0123456789abcdef?apikey=fedcba9876543210&x=1")


def reply(
    body: Any, *, status: int | None = 200, headers: tuple[Header, ...] = (), whole: bool = True
) -> Reply:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    error_class = "timeout_response" if status is None else None
    return Reply(status, error_class, "no answer within 10 s", headers, raw, whole, "192.0.2.1", 1)


def read(body: Any, calls: list[Call] = ONE, **more: Any) -> list[Any]:
    return read_results(reply(body, **more), calls, 5, REDACT, kind_of)


def fault(body: Any, calls: list[Call] = ONE, **more: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        read(body, calls, **more)
    return caught.value


def test_one_call_is_an_object_and_more_are_a_list() -> None:
    assert msgspec.json.decode(encode(ONE, 5)) == {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "eth_blockNumber",
        "params": [],
    }
    assert [one["id"] for one in msgspec.json.decode(encode(TWO, 5))] == [5, 6]
    assert msgspec.json.decode(encode(TWO, 5))[1]["params"] == ["0xab", "latest"]


def test_results_are_in_the_order_of_the_calls() -> None:
    assert read([{"id": 6, "result": "b"}, {"id": 5, "result": "a"}], TWO) == ["a", "b"]


def test_null_is_a_result() -> None:
    assert read({"id": 5, "result": None}) == [None]
    assert read({"id": 5, "result": "0x1", "error": None}) == ["0x1"]


def test_an_error_is_the_result_of_its_call_alone() -> None:
    said = {"code": 3, "message": "execution reverted", "data": "0x08c379a0"}
    results = read([{"id": 5, "result": "a"}, {"id": 6, "error": said}], TWO)

    assert results[0] == "a"
    assert isinstance(results[1], RpcError)
    assert (results[1].code, results[1].message, results[1].data) == (
        3,
        "execution reverted",
        "0x08c379a0",
    )
    assert results[1].kind == "answer"


@pytest.mark.parametrize(
    "body",
    [
        [{"id": 5, "result": "a"}],
        [{"id": 5, "result": "a"}, {"id": 5, "result": "b"}],
        [{"id": 5, "result": "a"}, {"id": 7, "result": "b"}],
        [{"id": 5, "result": "a"}, {"id": 6, "result": "b"}, {"id": 6, "result": "c"}],
        [{"id": 5, "result": "a"}, {"id": "6", "result": "b"}],
        [{"id": 5, "result": "a"}, {"result": "b"}],
        [],
    ],
)
def test_an_answer_that_is_missing_or_doubled_makes_all_of_it_worthless(body: Any) -> None:
    assert fault(body, TWO).words == "its answer does not fit the request"


@pytest.mark.parametrize("body", [{"id": 6, "result": "0x1"}, {"result": "0x1"}, [{"id": 6, "result": 1}]])
def test_a_single_answer_must_be_to_this_request(body: Any) -> None:
    assert fault(body).words == "its answer does not fit the request"


def test_an_answer_has_a_result_or_an_error() -> None:
    assert fault({"id": 5}).words == "its answer has neither a result nor an error"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b'"0x1"', b"{", b'{"id":5,"result":"\xff"}', b"[" * 100_000, b'{"id":5,"error":7}'],
)
def test_what_is_no_json_rpc_is_a_fault(body: bytes) -> None:
    assert fault(body).words == "its answer is no JSON-RPC"


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_a_fault(body: bytes) -> None:
    try:
        results = read(body)
    except Fault:
        results = [None]
    assert len(results) == 1


def test_a_body_that_was_cut_off_is_not_read() -> None:
    assert fault({"id": 5, "result": "0x1"}, whole=False).words == "its answer is too long, or was cut off"


def test_without_a_status_the_client_says_why() -> None:
    assert fault(b"", status=None).words == "timeout_response: no answer within 10 s"


@pytest.mark.parametrize(
    ("status", "header", "patience_s"),
    [
        (429, b"7", 7),
        (503, b"9", 9),
        (503, b"Wed, 21 Oct 2015 07:28:00 GMT", 1445412480),
        (429, None, 0),
        (503, None, None),
        (500, b"9", None),
        (401, None, None),
        (301, None, None),
    ],
)
def test_a_status_other_than_200_is_a_fault_and_may_ask_for_patience(
    status: int, header: bytes | None, patience_s: int | None
) -> None:
    headers = () if header is None else ((b"retry-after", header),)
    found = fault({"id": 5, "result": "0x1"}, status=status, headers=headers)

    assert (found.words, found.patience_s) == (f"HTTP {status}", patience_s)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"id": 5, "error": {"code": -32600, "message": "Must be authenticated!"}},
            ": Must be authenticated!",
        ),
        ({"id": None, "error": {"code": 429, "message": "Monthly\nlimit"}}, ": Monthly limit"),
        (b"message: API key not found, trace_id: 4b1f\n", ": message: API key not found, trace_id: 4b1f"),
        (b"no project 0123456789abcdef", ": no project [redacted]"),
        (b"x" * 5000, ": " + "x" * 200),
        (b"<html><body>Forbidden</body></html>", ""),
        ({"error": "Forbidden"}, ""),
        (b"\xff\x00", ": \ufffd"),
        (b"", ""),
    ],
)
def test_what_a_node_says_with_a_status_is_passed_on_without_its_key(body: Any, words: str) -> None:
    assert fault(body, status=403).words == f"HTTP 403{words}"


def test_an_error_may_come_with_a_status_of_400() -> None:
    [error] = read({"id": 5, "error": {"code": -32602, "message": "invalid argument"}}, status=400)

    assert isinstance(error, RpcError)
    assert fault(b"Bad Request", status=400).words == "HTTP 400: Bad Request"


def test_what_a_node_says_steers_no_page_and_no_terminal() -> None:
    [error] = read({"id": 5, "error": {"code": 3, "message": "out\x1b[2J of\u202e gas\n"}})
    assert error.message == "out [2J of  gas "


def test_an_error_without_an_id_is_that_of_the_only_call() -> None:
    [error] = read({"id": None, "error": {"code": -32700, "message": "parse error"}})

    assert isinstance(error, RpcError)
    assert error.code == -32700


@pytest.mark.parametrize(
    "body",
    [
        {"id": None, "error": {"code": -32600, "message": "batch too large"}},
        [{"id": 5, "error": {"code": -32600, "message": "batch too large"}}],
        [{"id": 5, "result": "a"}, {"id": 6, "error": {"code": -32003, "message": "response too large"}}],
    ],
)
def test_a_batch_may_be_refused_for_its_length(body: Any) -> None:
    with pytest.raises(TooManyCalls):
        read(body, TWO)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, -32403, "Batch requests are only available for paid plans. Please upgrade if you would like"),
        (402, 402, "batch calls are available for paid plans only"),
        (500, 31, "Batch of more than 3 requests are not allowed on free tier"),
        (200, 31, "Batch of more than 3 requests are not allowed on free tier"),
        (400, -32600, "batch size too large"),
        (404, -32600, "this endpoint does not support batches"),
        (200, -32005, "Batched requests are not supported by this server"),
        (200, -32000, "batch limit 100 exceeded (can increase by --rpc.batch.limit)"),
        (200, -32600, "batch item count exceeded the limit"),
    ],
)
def test_a_batch_may_be_refused_in_words_with_any_status(status: int, code: int, words: str) -> None:
    error = {"code": code, "message": words}
    for body in ({"error": error}, [{"id": 5, "error": error}, {"id": 6, "error": error}]):
        with pytest.raises(TooManyCalls):
            read(body, TWO, status=status)
    assert fault({"id": 5, "error": error}, status=500).words == f"HTTP 500: {words}"


@pytest.mark.parametrize(
    "body",
    [
        [{"id": 5, "result": "a"}, {"id": 6, "error": {"code": -32000, "message": "batch size too large"}}],
        [{"id": one, "error": {"code": 3, "message": "execution reverted: batch of 0"}} for one in (5, 6)],
    ],
)
def test_what_calls_of_a_batch_say_themselves_is_no_refusal_of_it(body: Any) -> None:
    assert len(read(body, TWO)) == 2


def test_a_failure_of_a_batch_is_a_failure() -> None:
    bodies: list[Any] = [b"", b"<html>no batch calls</html>", [], {"id": 5, "error": {"message": "no"}}]
    for body in bodies:
        assert fault(body, TWO, status=403).words in ("HTTP 403", "HTTP 403: no")


def test_a_batch_whose_body_is_too_long_is_refused_for_its_length() -> None:
    with pytest.raises(TooManyCalls):
        read(b"", TWO, status=413)
    assert fault(b"", status=413).words == "HTTP 413"


@pytest.mark.parametrize(
    "body",
    [
        {"id": None, "error": {"code": 429, "message": "compute units"}},
        {"id": 0, "error": {"code": 429, "message": "compute units"}},
        [{"id": 6, "error": {"code": 429, "message": "compute units"}}],
        [{"id": 6, "result": "a"}, {"id": 5, "error": {"code": -32005, "message": "limit exceeded"}}],
        [{"id": 5, "error": {"code": -32000, "message": "too many requests"}}],
    ],
)
def test_a_limit_on_the_first_call_is_no_answer_to_any(body: Any) -> None:
    found = fault(body, TWO)

    assert found.words.startswith("it asks for patience: ")
    assert found.patience_s == 0


def test_what_was_asked_for_before_a_limit_is_answered_and_what_comes_after_it_is_not() -> None:
    limit = {"code": -32007, "message": "15/second request limit reached"}
    body = [{"id": 5, "result": "a"}, {"id": 7, "result": "c"}, {"id": 6, "error": limit}]

    assert read(body, [*TWO, *ONE]) == ["a"]


def test_logs_that_are_too_many_are_no_limit_wherever_they_are_in_a_batch() -> None:
    calls: list[Call] = [("eth_blockNumber",), ("eth_getLogs", {})]
    _, error = read(
        [{"id": 6, "error": {"code": -32005, "message": "limit exceeded"}}, {"id": 5, "result": 1}], calls
    )

    assert error.kind == "too_wide"


def test_logs_of_too_many_blocks_may_be_refused_with_the_status_of_long_bodies() -> None:
    """As QuickNode does. Of a batch that says nothing of its length."""
    said = {"id": 5, "error": {"code": -32614, "message": "eth_getLogs is limited to a 10,000 range"}}
    [error] = read(said, [("eth_getLogs", {})], status=413)
    assert error.kind == "too_wide"
    for body in (said, [said]):
        with pytest.raises(AnswerTooLong):
            read(body, [("eth_getLogs", {}), *ONE], status=413)
        with pytest.raises(TooManyCalls):
            read(body, TWO, status=413)


def test_what_a_node_says_is_shown_without_the_keys_of_its_url() -> None:
    words = "Post https://up.test/v2/0123456789abcdef?apikey=fedcba9876543210: refused"
    [error] = read({"id": 5, "error": {"code": -1, "message": words}})

    assert error.message == "Post https://up.test/v2/[redacted]?apikey=[redacted]: refused"
    assert REDACT(None) == ""
    assert len(REDACT("x" * 5000)) == MESSAGE_MAX
