"""What the description says of an answer: the client of the tests asks it, for every answer that it gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import jsonschema_rs

from payd.core.version import DEFAULT, VERSIONS
from payd.web.call import Answer, Request
from payd.web.openapi.document import document
from payd.web.openapi.service import NOT_DESCRIBED
from payd.web.openapi.table import OPERATIONS, name_of
from payd.web.routes import Route, match_route

BASE_URL: Final = "https://pay.example"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Query(dict[str, list[str]]):
    """A query that keeps which of its parameters were looked at."""

    def __init__(self, query: dict[str, list[str]]) -> None:
        super().__init__(query)
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> list[str]:
        self.read.add(name)
        return super().__getitem__(name)


@cache
def described(version: str) -> dict[str, Any]:
    """The document, closed: what it does not name may not be there."""
    made: dict[str, Any] = json.loads(json.dumps(document(version, BASE_URL)))
    for shape in made["components"]["schemas"].values():
        if "properties" in shape:
            shape.setdefault("additionalProperties", False)
    return made


def operation_of(version: str, route: Route) -> dict[str, Any]:
    """What the document says of a route."""
    found: dict[str, Any] = described(version)["paths"][route.path][route.method.lower()]
    return found


@cache
def validator(version: str, method: str, path: str, status: str, kind: str) -> Any:
    """Of the body of an answer in a kind of JSON; None where it is something else."""
    answer = described(version)["paths"][path][method.lower()]["responses"][status]
    if kind not in ("application/json", "application/problem+json"):
        return None
    content = answer["content"][kind]
    whole = {"$schema": DIALECT, "components": described(version)["components"], **content["schema"]}
    return jsonschema_rs.validator_for(whole, validate_formats=True)


def problems(request: Request, answer: Answer) -> Iterator[str]:
    """What an answer has that the description does not tell of, or the other way round."""
    route, _ = match_route(request.method, request.path)
    if route is None or name_of(route) in NOT_DESCRIBED:
        return
    assert name_of(route) in OPERATIONS, f"{name_of(route)} is neither described nor left out with a reason"
    headers = {name.lower(): value for name, value in answer.headers}
    caching = [value for name, value in answer.headers if name.lower() == "cache-control"]
    if caching != ["no-store"] and route.family in ("key", "gateway"):
        yield f"may be kept by caches: {caching}"
    named = headers.get("service-version", DEFAULT)
    version = named if named in VERSIONS else DEFAULT
    told = operation_of(version, route)
    if isinstance(request.query, Query):
        names = {one["name"] for one in told["parameters"] if one.get("in") == "query"}
        if unknown := request.query.read - names:
            yield f"reads {sorted(unknown)} from the query"
    if answer.status == 304:
        return
    told_answer = told["responses"].get(str(answer.status))
    if told_answer is None:
        yield f"answers {answer.status} {answer.body[:200]!r}"
        return
    kind = headers.get("content-type", "application/json").partition(";")[0]
    if kind not in told_answer["content"]:
        yield f"answers {answer.status} as {kind}"
        return
    if "retry-after" in headers and "Retry-After" not in told_answer["headers"]:
        yield f"answers {answer.status} with Retry-After"
    check = validator(version, route.method, route.path, str(answer.status), kind)
    if check is not None:
        body = json.loads(answer.body)
        yield from (f"{answer.status} {one.instance_path}: {one.message}" for one in check.iter_errors(body))


def check_described(request: Request, answer: Answer) -> None:
    """Fail unless the description tells of this answer."""
    wrong = list(problems(request, answer))
    assert not wrong, f"{request.method} {request.path}: " + "; ".join(wrong)
