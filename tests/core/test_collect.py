"""What may be asked and answered: every rule of fields and of answers, and for whom an answer counts."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.caip import parse_account
from payd.core.collect import (
    FIELDS_MAX,
    NAME_MAX,
    TEXT_MAX,
    Answered,
    Field,
    Kind,
    answers,
    check_answers,
    field_issues,
    holder_of,
    problems,
    schema_of,
)
from payd.core.errors import ParamsValidation

NAME = Field("fullName", "text", "Full name")
BORN = Field("dob", "date", "Date of birth")
TERMS = Field("tosConfirmed", "checkbox", "I agree")
NOTE = Field("note", "text", "Note", required=False)
NEWS = Field("news", "checkbox", "Send me news", required=False)
ALL = (NAME, BORN, TERMS, NOTE, NEWS)
GOOD = {"fullName": "Ada Lovelace", "dob": "1815-12-10", "tosConfirmed": "true"}


def test_fields_with_good_ids_and_names_have_no_issues() -> None:
    assert field_issues(ALL) == []
    assert field_issues(()) == []
    assert field_issues([Field(f"f{n}", "text", "x" * NAME_MAX) for n in range(FIELDS_MAX)]) == []


@pytest.mark.parametrize("field_id", ["", "1x", "a-b", "a b", "é", "x" * 41, "a\n", '"><script>'])
def test_an_id_that_is_no_plain_name_is_refused(field_id: str) -> None:
    assert [issue.field for issue in field_issues([NAME, Field(field_id, "text", "X")])] == ["collect[1].id"]


@pytest.mark.parametrize("name", ["", "  ", "x" * (NAME_MAX + 1), "a\nb", "\u202eright to left"])
def test_a_name_that_nobody_can_read_is_refused(name: str) -> None:
    assert [issue.field for issue in field_issues([Field("x", "text", name)])] == ["collect[0].name"]


def test_ids_are_named_once_and_fields_are_few() -> None:
    assert [issue.field for issue in field_issues([NAME, NAME])] == ["collect[1].id"]
    many = [Field(f"f{n}", "text", "X") for n in range(FIELDS_MAX + 1)]
    assert [issue.field for issue in field_issues(many)] == ["collect"]


def test_good_answers_are_kept_in_the_order_of_the_questions_without_the_empty_ones() -> None:
    given = {"news": "", "tosConfirmed": "true", "dob": " 1815-12-10 ", "note": "  ", "fullName": "Ada "}
    assert problems(ALL, given) == {}
    assert answers(ALL, given) == [
        Answered("fullName", "Full name", "Ada"),
        Answered("dob", "Date of birth", "1815-12-10"),
        Answered("tosConfirmed", "I agree", "true"),
    ]


@pytest.mark.parametrize(
    ("field_id", "value", "problem"),
    [
        ("fullName", "", "missing"),
        ("fullName", " \t", "missing"),
        ("fullName", "x" * (TEXT_MAX + 1), "long"),
        ("fullName", "a\nb", "unprintable"),
        ("fullName", "a\0b", "unprintable"),
        ("dob", "", "missing"),
        ("dob", "10.12.1815", "no date"),
        ("dob", "1815-02-29", "no date"),
        ("dob", "1815-2-1", "no date"),
        ("dob", "18151210", "no date"),
        ("dob", "１８１５-12-10", "no date"),
        ("tosConfirmed", "", "unticked"),
        ("tosConfirmed", "false", "unticked"),
        ("tosConfirmed", "on", "no choice"),
        ("note", "x" * (TEXT_MAX + 1), "long"),
        ("news", "yes", "no choice"),
    ],
)
def test_a_wrong_answer_is_named_by_its_field(field_id: str, value: str, problem: str) -> None:
    assert problems(ALL, GOOD | {field_id: value}) == {field_id: problem}


def test_the_bounds_themselves_are_allowed() -> None:
    for value in ("x" * TEXT_MAX, "日本", "O'Brien <b>", "a"):
        assert problems(ALL, GOOD | {"fullName": value, "note": value, "news": "false"}) == {}


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ([], ["collectedData.fullName", "collectedData.dob", "collectedData.tosConfirmed"]),
        ([*GOOD.items(), ("iban", "x")], ["collectedData.fields[3].id"]),
        ([*GOOD.items(), ("dob", "1990-01-01")], ["collectedData.fields[3].id"]),
        ([("dob", "x"), ("fullName", "A"), ("tosConfirmed", "true")], ["collectedData.fields[0].value"]),
    ],
)
def test_what_a_wallet_sends_is_refused_by_its_place(given: Any, places: list[str]) -> None:
    with pytest.raises(ParamsValidation) as refused:
        check_answers(ALL, given)
    assert [issue.field for issue in refused.value.issues] == places


@pytest.mark.parametrize(
    ("given", "places"),
    [
        (GOOD | {"iban": "x"}, ["collectedData.iban"]),
        (GOOD | {"dob": "x"}, ["collectedData.dob"]),
        (GOOD | {"x" * (NAME_MAX + 1): "x"}, ["collectedData." + "x" * NAME_MAX]),
        ({}, ["collectedData.fullName", "collectedData.dob", "collectedData.tosConfirmed"]),
    ],
)
def test_what_a_wallet_sends_by_name_is_refused_by_its_name(given: dict[str, str], places: list[str]) -> None:
    with pytest.raises(ParamsValidation) as refused:
        check_answers(ALL, [*given.items()], by_name=True)
    assert [issue.field for issue in refused.value.issues] == places


def test_where_nothing_is_asked_nothing_is_taken() -> None:
    assert check_answers((), []) == []
    with pytest.raises(ParamsValidation):
        check_answers((), [("fullName", "A")])


def test_the_schema_says_what_is_taken() -> None:
    schema = schema_of(ALL)
    assert schema["required"] == ["fullName", "dob", "tosConfirmed"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == [field.id for field in ALL]
    assert schema["properties"]["fullName"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": TEXT_MAX,
        "pattern": r"^.*\S.*$",
        "title": "Full name",
    }
    assert schema["properties"]["dob"]["format"] == "date"
    assert schema["properties"]["tosConfirmed"]["enum"] == ["true"]
    assert schema["properties"]["news"]["enum"] == ["true", "false"]


@pytest.mark.parametrize("kind", ["text", "date", "checkbox"])
def test_every_kind_may_be_left_out_unless_it_is_required(kind: Kind) -> None:
    assert problems([Field("x", kind, "X", required=False)], {}) == {}
    assert problems([Field("x", kind, "X")], {}).keys() == {"x"}


def test_an_answer_counts_for_the_address_on_all_networks_of_its_kind_and_for_no_other() -> None:
    address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    base, mainnet = f"eip155:8453:{address}", f"eip155:1:{address.lower()}"
    assert holder_of(parse_account(base)) == holder_of(parse_account(mainnet))
    others = {
        holder_of(parse_account(text))
        for text in (base, base[:-1] + "9", f"cosmos:hub:{address}", f"solana:mainnet:{address}")
    }
    assert len(others) == 4
