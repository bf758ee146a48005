"""The document: complete, true to the handlers, and each example is what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from payd.core.version import VERSIONS
from payd.web.call import Answer, Request, decode_json
from payd.web.openapi.document import bodies, document
from payd.web.openapi.operation import Media
from payd.web.openapi.table import OPERATIONS, name_of
from payd.web.routes import ROUTES, Route
from tests.described import BASE_URL, DIALECT, Query, check_described, problems
from tests.web.rows import TABLE
from tests.web.test_routes import open_street, takes_away

DOCUMENTS = {version: document(version, BASE_URL) for version in VERSIONS}


def operations(made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def everything_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from everything_in(one)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_described_route_is_in_the_document_and_nothing_else(version: str) -> None:
    assert {name for name, _ in operations(DOCUMENTS[version])} == OPERATIONS.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reference_leads_somewhere(version: str) -> None:
    made = DOCUMENTS[version]
    used = set()
    for one in everything_in(made):
        ref = one.get("$ref")
        if isinstance(ref, str):
            found: Any = made
            for part in ref.removeprefix("#/").split("/"):
                found = found[part]
            used.add(ref)
    parts = made["components"]
    there = {
        f"#/components/{kind}/{name}" for kind in parts for name in parts[kind] if kind != "securitySchemes"
    }
    assert there == used


@pytest.mark.parametrize("version", VERSIONS)
def test_every_body_has_examples_that_fit_its_schema(version: str) -> None:
    made = DOCUMENTS[version]
    count = 0
    kinds = ("application/json", "application/problem+json")
    for media in [one[kind] for one in everything_in(made) for kind in kinds if kind in one]:
        schema = {"$schema": DIALECT, "components": made["components"], **media["schema"]}
        check = jsonschema_rs.validator_for(schema, validate_formats=True)
        assert media["examples"], media
        for example in media["examples"].values():
            name = example.get("$ref", "").rpartition("/")[2]
            value = made["components"]["examples"][name]["value"] if name else example["value"]
            assert [str(error) for error in check.iter_errors(value)] == []
            count += 1
    assert count > 500


def test_every_example_of_what_is_sent_decodes_as_the_handler_decodes_it() -> None:
    for name, operation in OPERATIONS.items():
        if operation.body is None or isinstance(operation.body, Media):
            continue
        method, path = name.split(" ")
        content = DOCUMENTS[VERSIONS[0]]["paths"][path][method.lower()]["requestBody"]["content"]
        for example in content["application/json"]["examples"].values():
            assert msgspec.convert(example["value"], operation.body) is not None


def test_every_example_of_an_answer_decodes_with_the_type_that_answers() -> None:
    closed = (
        OPERATIONS["POST /v1/gateway/payment/{id}/options"],
        OPERATIONS["POST /v1/gateway/payment/{id}/fetch"],
    )
    for name, operation in OPERATIONS.items():
        method, path = name.split(" ")
        for status, body in operation.answers.items():
            if isinstance(body, Media) or operation in closed:
                continue  # actions are rendered, never read: their examples come from what renders them
            answer = DOCUMENTS[VERSIONS[0]]["paths"][path][method.lower()]["responses"][str(status)]
            values = [
                one["value"]
                for one in answer["content"]["application/json"]["examples"].values()
                if "value" in one
            ]
            assert values
            for value in values:
                assert msgspec.json.decode(json.dumps(value).encode(), type=body) is not None, name


def test_only_actions_differ_between_the_versions() -> None:
    flat, nested = (json.loads(json.dumps(DOCUMENTS[version])) for version in VERSIONS)
    schemas = [one["components"]["schemas"] for one in (flat, nested)]
    assert [sorted(one.pop("WalletRpc")["properties"]) for one in schemas] == [
        ["chain_id", "method", "params", "type"],
        ["data", "type"],
    ]
    assert [one.pop("Build")["properties"]["data"].get("type") for one in schemas] == ["string", None]
    assert {name for name in schemas[1] if name not in schemas[0]} == {"WalletCall"}


def test_each_name_has_a_meaning() -> None:
    """Text has a pattern, a format, its words or a description; a bare string tells nobody anything."""
    fine = {"pattern", "format", "enum", "maxLength", "description"}
    bare = [
        f"{shape}.{field}"
        for shape, schema in DOCUMENTS[VERSIONS[0]]["components"]["schemas"].items()
        for field, one in schema.get("properties", {}).items()
        for text in (one, *one.get("anyOf", ()))
        if text.get("type") == "string" and not fine & (text.keys() | one.keys())
    ]
    assert bare == []


def test_who_gives_one_address_to_go_back_to_can_read_why_no_buyer_comes() -> None:
    ways_back = DOCUMENTS[VERSIONS[0]]["components"]["schemas"]["CheckoutIn"]["properties"]
    ends = [one["description"].partition(". ")[2] for one in ways_back.values()]
    assert ends == ["Both count only together, each with https."] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_no_pattern_keeps_a_generated_client_from_what_it_is_told(version: str) -> None:
    """PHP and Ruby have read a time before they match it. Beyond ASCII PHP matches bytes; Ruby refuses."""
    patterns = [one for one in everything_in(DOCUMENTS[version]) if isinstance(one.get("pattern"), str)]
    assert [one for one in patterns if one.get("format") == "date-time"] == []
    beyond = {found for one in patterns for found in re.findall(r"\\x[89a-f]\w|[^ -~]", one["pattern"])}
    assert beyond == set()


def test_lists_in_a_query_are_written_in_the_one_way_that_all_clients_know() -> None:
    """Generated clients in Ruby repeat a name as `status[0]`, which is no parameter here."""
    lists = {
        one["name"]: one.get("explode")
        for _, operation in operations(DOCUMENTS[VERSIONS[0]])
        for one in operation["parameters"]
        if one.get("schema", {}).get("type") == "array"
    }
    assert lists == {"status": False, "merchantId": False, "network": False}


def test_all_types_of_bodies_are_described_once() -> None:
    assert len(bodies()) == len(set(map(str, bodies())))


async def test_the_handlers_read_the_bodies_and_the_parameters_that_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, set[Any]] = {}
    read: dict[str, set[str]] = {}
    now: list[Route] = []

    def decode(request: Request, type: Any) -> Any:
        asked.setdefault(name_of(now[0]), set()).add(type)
        return decode_json(request, type)

    def heard(request: Request, answer: Answer) -> None:
        assert isinstance(request.query, Query)
        read.setdefault(name_of(now[0]), set()).update(request.query.read) if now else None
        check_described(request, answer)

    async with open_street(tmp_path) as street:
        monkeypatch.setattr("payd.web.call.decode_json", decode)
        monkeypatch.setattr("tests.shop.check_described", heard)
        for route in sorted(ROUTES, key=takes_away):
            now[:] = [route]
            await street.send(route, things={"payment": street.own["payment"]})
        now.clear()
    for route in ROUTES:
        operation = OPERATIONS.get(name_of(route))
        if operation is None:
            continue
        name = name_of(route)
        if route.path.startswith("/v1/solana-pay/"):
            continue  # of live payments only, which test_solana_pay.py has
        if TABLE[name].body is not None and not isinstance(operation.body, Media):
            told = (
                set(getattr(operation.body, "__args__", ()))
                if "|" in str(operation.body)
                else {operation.body}
            )
            assert asked.get(name, set()) <= told, name
            assert asked.get(name), name
        assert {one.name for one in operation.query} <= read.get(name, set()), name


async def test_an_answer_that_is_not_described_fails_the_test_that_got_it() -> None:
    request = Request("GET", "/versions", Query({}))
    fine = Answer.json({"stable": [VERSIONS[0]], "preview": []})
    assert list(problems(request, fine)) == []
    for wrong in (
        Answer.json({"stable": [VERSIONS[0]]}),
        Answer.json({"stable": [VERSIONS[0]], "preview": [], "more": 1}),
        Answer.json({"stable": ["2020-01-01"], "preview": []}),
        Answer(204),
        Answer(200, b"{}", (("Content-Type", "text/html"),)),
        Answer.json({"message": "no", "code": "not_found", "details": {}}, 429),
    ):
        assert list(problems(request, wrong)), wrong
    request.query.get("limit")
    assert list(problems(request, fine)) == ["reads ['limit'] from the query"]
