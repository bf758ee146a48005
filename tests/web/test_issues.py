"""All that is wrong with a body is named at once."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import Issue
from payd.web.issues import ISSUES_MAX, issue_of, issues_of
from payd.web.schema import CreatePayment


class Amount(msgspec.Struct, forbid_unknown_fields=True):
    value: Annotated[str, msgspec.Meta(pattern="^[0-9]+$")]


class Payment(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    amount: Amount
    items: Annotated[list[Amount], msgspec.Meta(max_length=9)] = []
    note: str | None = None
    paid_by: Amount | msgspec.UnsetType = msgspec.UNSET
    more: dict[str, int] = {}
    kind: Literal["text", "date"] | None = None


class Question(msgspec.Struct, frozen=True):
    kind: Literal["text", "date"]


class Merchant(msgspec.Struct):
    asked: tuple[Question, ...] | msgspec.UnsetType = msgspec.UNSET


class Lenient(msgspec.Struct):
    name: str


class Span(msgspec.Struct):
    begin: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.begin:
            raise ValueError("it ends before it begins")


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (b'{"amount":{}}', "amount.value", "Required."),
        (b'{"amount":{"value":1}}', "amount.value", "Expected a string, got a whole number"),
        (b'{"amount":{"value":"x"}}', "amount.value", "Expected a string matching regex '^[0-9]+$'"),
        (b'{"amount":"1"}', "amount", "Expected an object, got a string"),
        (b'{"amount":{"value":"1"},"items":[{"value":"1"},{"value":null}]}', "items[1].value", None),
        (b'{"amount":{"value":"1"},"items":7}', "items", "Expected an array, got a whole number"),
        (b'{"amount":{"value":"1"},"items":[7]}', "items[0]", "Expected an object, got a whole number"),
        (b'{"amount":{"value":"1"},"note":true}', "note", "Expected a string or null, got true or false"),
        (b'{"amount":{"value":"1"},"paidBy": {"x":1, "value":"1"}}', "paidBy.x", "Unknown field."),
        (b'{"amount":{"value":"1","extra":1}}', "amount.extra", "Unknown field."),
        (b'{"amount":{"value":"1"},"":1}', "body", "Unknown field."),
        (b'{"amount":{"value":"1"},"more":{"a":1,"b":"2"}}', "more[]", None),
        (b'{"amount":{"value":"1"},"kind":"email"}', "kind", "One of text, date."),
        (b'{"amount":{"value":"1"},"kind":7}', "kind", "Expected a string or null, got a whole number"),
        (b"[]", "body", "Expected an object, got an array"),
    ],
)
def test_the_wrong_field_is_named(body: bytes, field: str, words: str | None) -> None:
    (issue,) = issues_of(body, Payment)

    assert issue.field == field
    assert words is None or issue.message == words


def test_every_wrong_field_is_named_in_the_schemas_order_and_then_what_is_unknown() -> None:
    body = b'{"z":1,"paidBy":{"x":1},"items":[{"value":1},{"value":"1"},{}],"note":1,"y":2}'

    assert [(issue.field, issue.message) for issue in issues_of(body, Payment)] == [
        ("amount", "Required."),
        ("items[0].value", "Expected a string, got a whole number"),
        ("items[2].value", "Required."),
        ("note", "Expected a string or null, got a whole number"),
        ("paidBy.value", "Required."),
        ("paidBy.x", "Unknown field."),
        ("z", "Unknown field."),
        ("y", "Unknown field."),
    ]


def test_each_item_of_a_frozen_array_is_named_with_the_words_that_would_do() -> None:
    body = b'{"asked":[{"kind":"email"},{"kind":"date"},{},7]}'

    assert [(issue.field, issue.message) for issue in issues_of(body, Merchant)] == [
        ("asked[0].kind", "One of text, date."),
        ("asked[2].kind", "Required."),
        ("asked[3]", "Expected an object, got a whole number"),
    ]


def test_what_each_field_allows_and_the_whole_does_not_is_about_the_whole() -> None:
    assert issues_of(b'{"begin":2,"end":1}', Span) == (Issue("body", "it ends before it begins"),)
    assert issues_of(b'[{"begin":2,"end":1}]', list[Span]) == (Issue("[0]", "it ends before it begins"),)


def test_who_sends_thousands_of_wrong_fields_is_not_told_of_them_all() -> None:
    unknown = b",".join(b'"x%d":0' % number for number in range(10_000))
    many = b'{"amount":{"value":"1"},' + unknown + b"}"

    assert len(issues_of(many, Payment)) == ISSUES_MAX
    assert len(issues_of(b"[" + b",".join([b"{}"] * 10_000) + b"]", list[Payment])) == ISSUES_MAX


def test_what_is_passed_over_is_not_wrong() -> None:
    assert issues_of(b'{"name":"x","other":1}', Lenient) == ()
    assert [issue.field for issue in issues_of(b'{"other":1}', Lenient)] == ["name"]


WRONG = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["referenceId", "amount", "unit", "value", "expiresAt", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(WRONG)
def test_a_body_has_issues_where_it_misses_its_schema_and_only_there(body: object) -> None:
    raw = msgspec.json.encode(body)
    first = None
    try:
        msgspec.json.decode(raw, type=CreatePayment)
    except msgspec.ValidationError as error:
        first = issue_of(str(error))

    found = issues_of(raw, CreatePayment)
    assert found == () if first is None else first in found


def test_words_without_a_place_are_about_the_body() -> None:
    assert issue_of("Object is odd\nvery").field == "body"
