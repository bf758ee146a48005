"""Requests, and the words for bodies that miss their schema."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.errors import InvalidParams, ParamsValidation, UnsupportedMediaType
from payd.web.call import Answer, Request, decode_json


class Amount(msgspec.Struct, forbid_unknown_fields=True):
    value: str


class Payment(msgspec.Struct, forbid_unknown_fields=True):
    amount: Amount
    items: list[Amount] = []
    note: str | None = None


def decode(body: bytes, content_type: str | None = "application/json") -> Payment:
    headers = {} if content_type is None else {"content-type": content_type}
    return decode_json(Request("POST", "/", headers=headers, body=body), Payment)


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/json;", None]
)
def test_json_is_json_however_it_is_called(content_type: str | None) -> None:
    assert decode(b'{"amount":{"value":"1"}}', content_type).amount.value == "1"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
def test_another_type_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="Content-Type: application/json"):
        decode(b'{"amount":{"value":"1"}}', content_type)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "it is empty"),
        (b"nul", "it ends too early"),
        (b'{"amount":', "it ends too early"),
        (b"{'amount':{}}", "object keys must be strings (byte 1)"),
        (b'{"amount":{"value":"\xff"}}', "it is not UTF-8"),
        (b'{"amount":{"value":"\\ud800"}}', None),
        (b'{"amount":{"value":1}} x', "trailing characters (byte 24)"),
    ],
)
def test_what_is_no_json_is_invalid_and_it_is_said_why(body: bytes, why: str | None) -> None:
    with pytest.raises(InvalidParams) as refused:
        decode(body)
    assert why is None or refused.value.message == f"The body is not valid JSON: {why}."


@pytest.mark.parametrize("passed_over", [b'{"x":"\xff"}', b'{"\xff":1}', b'{"x":{"y":["\xff"]}}'])
def test_what_is_no_json_is_invalid_where_nobody_looks_at_it_too(passed_over: bytes) -> None:
    class Lenient(msgspec.Struct):
        a: int = 0

    request = Request("POST", "/", body=passed_over)
    with pytest.raises(InvalidParams):
        decode_json(request, Lenient)
    request.body = passed_over.replace(b"\xff", "\u00ff".encode())
    assert decode_json(request, Lenient).a == 0


def test_a_bomb_of_brackets_is_invalid() -> None:
    with pytest.raises(InvalidParams, match="nested too deep"):
        decode_json(Request("POST", "/", body=b"[" * 60_000), list)


def test_json_that_misses_its_schema_is_refused_for_all_that_is_wrong() -> None:
    with pytest.raises(ParamsValidation) as refused:
        decode(b'{"note":7,"extra":1}')

    assert [issue.field for issue in refused.value.issues] == ["amount", "note", "extra"]
    assert refused.value.message == (
        "amount: Required. note: Expected a string or null, got a whole number; extra: Unknown field."
    )


def test_a_head_becomes_a_request() -> None:
    headers = [(b"x-a", b"1"), (b"host", b"h\xe9"), (b"x-a", b"2")]
    request = Request.from_head("GET", "/p", b"q=%20&q=+&r", headers)

    assert request.headers == {"x-a": "1, 2", "host": "hé"}
    assert request.query == {"q": [" ", " "], "r": [""]}


def test_a_broken_query_breaks_nothing() -> None:
    assert Request.from_head("GET", "/p", b"a=%ff&%zz=\xff&&=", []).query["a"] == ["�"]


def test_a_value_becomes_an_answer() -> None:
    assert Answer.json({"a": 1}, 201) == Answer(201, b'{"a":1}', ())
