"""What a merchant asks of its buyers besides money: the fields, what may be answered, and for whom it counts.

Source: SPEC.md, "Payment option, action and result (gateway)"; DESIGN.md, "6. The API: what SPEC.md leaves
open".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, Literal

import msgspec

from payd.core.caip import AccountId, canonical_account
from payd.core.errors import Issue, ParamsValidation
from payd.core.text import is_one_line

Kind = Literal["text", "date", "checkbox"]

FIELDS_MAX: Final = 12
"""More would lose the buyer; and what a stranger with the link can have stored stays small."""
NAME_MAX: Final = 100
TEXT_MAX: Final = 200
"""Characters of an answer: a postal address in one line."""

YES: Final = "true"
NO: Final = "false"

_ID: Final = re.compile("[A-Za-z][A-Za-z0-9_]{0,39}")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"


class Field(msgspec.Struct, frozen=True):
    """One thing that is asked. A required checkbox has to be ticked."""

    id: str
    type: Kind
    name: str
    required: bool = True


class Answered(msgspec.Struct, frozen=True):
    """A field with what a buyer answered: as it was asked then, whatever is asked later."""

    id: str
    name: str
    value: str


Problem = Literal["missing", "unticked", "long", "unprintable", "no date", "no choice"]

PROBLEMS: Final[Mapping[Problem, str]] = {
    "missing": "Required.",
    "unticked": f'Required: it has to be "{YES}".',
    "long": f"At most {TEXT_MAX} characters.",
    "unprintable": "One line of printable characters.",
    "no date": "A date such as 1990-12-31.",
    "no choice": f'"{YES}" or "{NO}".',
}
"""What is wrong with an answer, for programmers; the form has its own words."""


def field_issues(fields: Sequence[Field]) -> list[Issue]:
    """What is wrong with the fields that a merchant wants to ask."""
    issues = []
    if len(fields) > FIELDS_MAX:
        issues.append(Issue("collect", f"At most {FIELDS_MAX} fields."))
    seen: set[str] = set()
    for place, field in enumerate(fields):
        if not _ID.fullmatch(field.id):
            words = "A letter, then up to 39 letters, digits and underscores."
            issues.append(Issue(f"collect[{place}].id", words))
        elif field.id in seen:
            issues.append(Issue(f"collect[{place}].id", "Each id once."))
        if not 1 <= len(field.name) <= NAME_MAX or not is_one_line(field.name) or not field.name.strip():
            issues.append(Issue(f"collect[{place}].name", f"1 to {NAME_MAX} printable characters."))
        seen.add(field.id)
    return issues


def problems(fields: Sequence[Field], given: Mapping[str, str]) -> dict[str, Problem]:
    """What is wrong with answers, by the id of the field. An answer that is left empty is none."""
    found = {field.id: _problem(field, given.get(field.id, "").strip()) for field in fields}
    return {field_id: problem for field_id, problem in found.items() if problem is not None}


def answers(fields: Sequence[Field], given: Mapping[str, str]) -> list[Answered]:
    """Answers that have no problems, in the order of the fields; what was not asked is left out."""
    return [
        Answered(field.id, field.name, given[field.id].strip())
        for field in fields
        if given.get(field.id, "").strip()
    ]


def check_answers(
    fields: Sequence[Field], given: Sequence[tuple[str, str]], *, by_name: bool = False
) -> list[Answered]:
    """Answers as a wallet sends them, checked: as a list, or `by_name` in an object.

    Raises:
        ParamsValidation: With an issue for each that is missing, wrong, twice there or not asked for.
    """
    asked = {field.id for field in fields}
    places: dict[str, int] = {}
    issues = []
    for place, (field_id, _) in enumerate(given):
        if field_id not in asked:
            where = place_of(field_id) if by_name else _place(place, "id")
            issues.append(Issue(where, "This is not asked for."))
        elif field_id in places:
            issues.append(Issue(_place(place, "id"), "Each field once."))
        places.setdefault(field_id, place)
    values = dict(given)
    for field_id, problem in problems(fields, values).items():
        is_listed = field_id in places and not by_name
        where = _place(places[field_id], "value") if is_listed else place_of(field_id)
        issues.append(Issue(where, PROBLEMS[problem]))
    if issues:
        raise ParamsValidation.of(*issues)
    return answers(fields, values)


def schema_of(fields: Sequence[Field]) -> dict[str, Any]:
    """JSON schema of an object of answers by field id, each a string, for forms that wallets build."""
    return {
        "$schema": _SCHEMA,
        "type": "object",
        "properties": {field.id: _property(field) for field in fields},
        "required": [field.id for field in fields if field.required],
        "additionalProperties": False,
    }


def holder_of(account: AccountId) -> str:
    """For whom an answer counts: an address, on whichever network of its kind.

    Who pays from the same address on another network is not asked again.
    """
    namespace, _, address = canonical_account(account).split(":", 2)
    return f"{namespace}:{address}"


def place_of(field_id: str) -> str:
    """Where an answer stands in an object of answers by name."""
    return f"collectedData.{field_id[:NAME_MAX]}"


def _place(place: int, name: str) -> str:
    return f"collectedData.fields[{place}].{name}"


def _problem(field: Field, value: str) -> Problem | None:
    if field.type == "checkbox":
        if value not in (YES, NO, ""):
            return "no choice"
        return "unticked" if field.required and value != YES else None
    if not value:
        return "missing" if field.required else None
    if field.type == "date":
        return None if _is_date(value) else "no date"
    if len(value) > TEXT_MAX:
        return "long"
    return None if is_one_line(value) else "unprintable"


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value) or not value.isascii():
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _property(field: Field) -> dict[str, Any]:
    if field.type == "date":
        return {"type": "string", "format": "date", "title": field.name}
    if field.type == "checkbox":
        choices = [YES] if field.required else [YES, NO]
        return {"type": "string", "enum": choices, "title": field.name}
    return {
        "type": "string",
        "minLength": int(field.required),
        "maxLength": TEXT_MAX,
        "pattern": r"^.*\S.*$" if field.required else "^.*$",  # one line, and not a blank one
        "title": field.name,
    }
