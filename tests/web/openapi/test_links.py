"""Each link leads to an operation, with parameters that it takes and that the answer has."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from payd.core.version import VERSIONS
from payd.web.openapi.document import document
from payd.web.openapi.links import LINKS
from tests.described import BASE_URL

DOCUMENTS = {version: document(version, BASE_URL) for version in VERSIONS}


def operations_of(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["operationId"]: one for methods in made["paths"].values() for one in methods.values()}


def parameters_of(made: dict[str, Any], operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By name."""
    found = [
        made["components"]["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for one in operation["parameters"]
    ]
    assert len({one["name"] for one in found}) == len(found)
    return {one["name"]: one for one in found}


def value_at(pointer: str, value: Any) -> Any:
    for part in pointer.removeprefix("/").split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def linked(made: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Operations with links, and the answer that has them."""
    found = {}
    for name, operation in operations_of(made).items():
        answers = [one for one in operation["responses"].values() if "links" in one]
        assert len(answers) <= 1
        if answers:
            found[name] = (operation, answers[0])
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_link_is_in_the_document(version: str) -> None:
    assert {name: answer["links"] for name, (_, answer) in linked(DOCUMENTS[version]).items()} == LINKS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_link_gives_all_that_a_path_needs_and_every_example_has_it(version: str) -> None:
    made = DOCUMENTS[version]
    operations = operations_of(made)
    looked = 0
    for name, (operation, answer) in linked(made).items():
        own = parameters_of(made, operation)
        examples = [
            one["value"]
            for one in answer["content"]["application/json"]["examples"].values()
            if "value" in one
        ]
        assert examples
        for to, link in answer["links"].items():
            wanted = parameters_of(made, operations[to])
            given = link.get("parameters", {})
            needed = {one["name"] for one in wanted.values() if one["in"] == "path"}
            assert needed <= given.keys() <= wanted.keys(), f"{name} -> {to}"
            for parameter, expression in given.items():
                if expression.startswith("$request.path."):
                    assert own[expression.removeprefix("$request.path.")]["in"] == "path"
                    continue
                check = jsonschema_rs.validator_for(wanted[parameter]["schema"])
                for example in examples:
                    check.validate(value_at(expression.removeprefix("$response.body#"), example))
                    looked += 1
    assert looked
