"""Shapes: what the types say, and what their names mean."""

from __future__ import annotations

import re

import msgspec
import pytest

from payd.core.ids import ENTROPY_BYTES, make_id
from payd.core.option import ACCOUNTS_MAX
from payd.core.version import DEFAULT, VERSIONS
from payd.entropy import new_id
from payd.web.accounts import AccountsIn
from payd.web.openapi.document import bodies
from payd.web.openapi.fields import ACCOUNT, FIELDS, IN, identifier
from payd.web.openapi.schemas import Schemas, narrowed, shown_name


class Shown(msgspec.Struct):
    """Two lines

    of words.
    """

    id: str


def test_a_rule_is_for_the_value_that_is_not_null() -> None:
    optional = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert narrowed(optional, {"type": "string", "pattern": "^a$", "description": "An a."}) == {
        "anyOf": [{"type": "string", "pattern": "^a$"}, {"type": "null"}],
        "description": "An a.",
    }


def test_a_rule_for_another_type_is_passed_over() -> None:
    assert narrowed({"type": "integer"}, {"type": "string", "pattern": "^a$"}) == {"type": "integer"}


def test_a_list_has_rules_for_itself_and_for_what_is_in_it() -> None:
    shown = narrowed(
        {"type": "array", "items": {"type": "string"}}, {"maxItems": 2, "items": {"enum": ["a"]}}
    )
    assert shown == {"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["a"]}}


@pytest.mark.parametrize(
    ("type", "shown"), [("MerchantOut", "Merchant"), ("ErrorBody", "Error"), ("Amount", "Amount")]
)
def test_shapes_have_names_for_people(type: str, shown: str) -> None:
    assert shown_name(type) == shown


def test_the_patterns_of_ids_fit_the_ids_that_are_made() -> None:
    pattern = identifier("mrch_")["pattern"]
    assert re.search(pattern, new_id("mrch_", 1_779_098_340_007))
    for entropy in (b"\0", b"\xff"):
        assert re.search(pattern, make_id("mrch_", (1 << 48) - 1, entropy * ENTROPY_BYTES))
    for wrong in ("mrch_", "mrch_8" + "0" * 35, "mrch_" + "i" * 36, "pay_t" + "0" * 36, " mrch_" + "0" * 36):
        assert not re.search(pattern, wrong)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_action_is_one_of_two_kinds(version: str) -> None:
    action = Schemas(version, bodies()).shapes["Action"]
    assert [one["$ref"].rpartition("/")[2] for one in action["oneOf"]] == ["WalletRpc", "Build"]


def test_a_bare_list_is_one_of_accounts() -> None:
    bare, named = Schemas(DEFAULT, bodies()).of(list[str] | AccountsIn)["anyOf"]
    assert bare["maxItems"] == ACCOUNTS_MAX
    assert bare["items"] == ACCOUNT
    assert named == {"$ref": "#/components/schemas/AccountsIn"}


def test_a_name_says_of_no_shape_what_is_meant_of_a_text() -> None:
    kinds: dict[str, set[bool]] = {}
    for shape, schema in Schemas(DEFAULT, bodies()).shapes.items():
        for name, field in schema.get("properties", {}).items():
            if "description" in FIELDS.get(name, {}) and name not in IN.get(shape, {}):
                kinds.setdefault(name, set()).add("$ref" in str(field))
    assert [name for name, each in kinds.items() if len(each) > 1] == []


def test_a_transfer_goes_from_an_account_to_an_account() -> None:
    ends = Schemas(DEFAULT, bodies()).shapes["Transfer"]["properties"]
    assert {ends[end].get("pattern") for end in ("from", "to")} == {ACCOUNT["pattern"]}


def test_a_type_is_its_reference_and_its_words_are_those_of_its_docstring() -> None:
    schemas = Schemas(DEFAULT, [*bodies(), Shown])
    assert schemas.of(Shown) == {"$ref": "#/components/schemas/Shown"}
    assert schemas.shapes["Shown"]["description"] == "Two lines\n\nof words."
