"""The document: OpenAPI 3.1 of one version, from the table of routes and what is said of each.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import msgspec

from payd.core.errors import Issue, ParamsValidation, PaydError
from payd.web.call import PROBLEM_TYPE, Answer
from payd.web.errors import STATUS, ErrorBody, Problem, as_problem, doc_url
from payd.web.openapi import deliveries
from payd.web.openapi.links import LINKS
from payd.web.openapi.operation import Media, Operation
from payd.web.openapi.prose import FEEDS, HEADERS, KEY_ONLY, KEY_OR_APP, SECURITY, TAGS, WORDS, parameters_of
from payd.web.openapi.refusals import EXAMPLES, refusals_of
from payd.web.openapi.schemas import REF, Schemas
from payd.web.openapi.story import BASE_URL, Examples, examples, feed_message, made_id
from payd.web.openapi.table import OPERATIONS, name_of
from payd.web.routes import ROUTES, Route

Schema = dict[str, Any]

OPENAPI: Final = "3.1.0"

JSON: Final = "application/json"
RETRIABLE: Final = (429, 503)

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_REASONS: Final = {200: "Done.", 201: "Created.", 202: "Begun; it goes on by itself."}


def document(version: str, base_url: str) -> Schema:
    """The description of one version of the API at one address."""
    scribe = Scribe(version)
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        operation = OPERATIONS.get(name_of(route))
        if operation is not None:
            paths.setdefault(route.path, {})[route.method.lower()] = scribe.operation(route, operation)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "payd",
            "version": version,
            "summary": "Crypto payments on your own server.",
            "description": WORDS,
            "license": {"name": "MIT", "identifier": "MIT"},
            "contact": {"name": "Who runs this server", "url": base_url},
        },
        "servers": [{"url": base_url, "description": "This server"}],
        "tags": [{"name": name, "description": words or _feeds()} for name, words in TAGS.items()],
        "paths": paths,
        "webhooks": deliveries.webhooks(),
        "components": {
            "schemas": scribe.schemas.shapes,
            "securitySchemes": SECURITY,
            "parameters": parameters_of(version),
            "headers": HEADERS,
            "examples": scribe.refused,
        },
    }


@cache
def document_bytes(version: str, base_url: str) -> bytes:
    """The same as JSON, made once."""
    return msgspec.json.encode(document(version, base_url))


class Scribe:
    """Writes the operations of one version."""

    def __init__(self, version: str) -> None:
        self._examples = examples(version)
        self.schemas = Schemas(version, bodies())
        self.refused: Schema = {}

    def operation(self, route: Route, operation: Operation) -> Schema:
        """One operation."""
        written: Schema = {
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "description": operation.words + _scope_words(route),
            "security": {"open": [], "gateway": KEY_OR_APP, "key": KEY_ONLY}[route.family],
            "parameters": [
                *_path_parameters(route, operation),
                *_query_parameters(operation),
                *_headers(route),
            ],
        }
        if operation.body is not None:
            written["requestBody"] = {
                "required": not operation.body_optional,
                "content": self._content(operation.body, sent=True),
            }
        written["responses"] = self._responses(route, operation)
        return written

    def _responses(self, route: Route, operation: Operation) -> Schema:
        written: Schema = {}
        for status, body in operation.answers.items():
            written[str(status)] = {
                "description": _REASONS.get(status, "Not now."),
                "headers": _answer_headers(route, status),
                "content": self._content(body),
            }
        if operation.id in LINKS:
            made = max(status for status in operation.answers if status < 300)
            written[str(made)]["links"] = LINKS[operation.id]
        for status, refusals in refusals_of(route, operation).items():
            self.refused |= {one.code: example_of(one) for one in refusals}
            self.refused[f"problem_{refusals[0].code}"] = _problem_of(refusals[0], status)
            refused = {
                "description": "  \n".join(f"`{one.code}`: {_words_of(one)}" for one in refusals),
                "headers": _refusal_headers(status),
                "content": {
                    JSON: _refusal(refusals),
                    PROBLEM_TYPE: _problem(refusals[0].code),
                },
            }
            written[str(status)] = (
                _either(written[str(status)], refused) if str(status) in written else refused
            )
        return dict(sorted(written.items()))

    def _content(self, body: Any, *, sent: bool = False) -> Schema:
        if isinstance(body, Media):
            if body.example is not None:
                return {kind: {"schema": {"type": "string"}, "example": body.example} for kind in body.types}
            return {kind: {"schema": {"type": "string", "format": "binary"}} for kind in body.types}
        return {JSON: {"schema": self.schemas.of(body), "examples": _shown(self._examples[body], sent)}}


def bodies() -> list[Any]:
    """The type of every body in JSON, once."""
    found: list[Any] = [ErrorBody, Problem]
    for operation in OPERATIONS.values():
        found += [operation.body, *operation.answers.values()]
    return [one for one in dict.fromkeys(found) if one is not None and not isinstance(one, Media)]


def _shown(values: Examples, sent: bool) -> Schema:
    shown = {name: _sparse(_plain(value)) if sent else _plain(value) for name, value in values.items()}
    return {
        name.replace(" ", "_"): {"summary": name.capitalize(), "value": value}
        for name, value in shown.items()
    }


def _sparse(value: Any) -> Any:
    """What is sent without what may be left out."""
    if isinstance(value, dict):
        return {name: _sparse(one) for name, one in value.items() if one is not None}
    return [_sparse(one) for one in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """As it goes over the wire, also what is in there as bytes."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _scope_words(route: Route) -> str:
    if route.scope is None:
        return ""
    whole = ", and not limited to some merchants" if route.account_wide else ""
    return f"\n\nNeeds the scope `{route.scope}`{whole}."


def _path_parameters(route: Route, operation: Operation) -> list[Schema]:
    return [_parameter("path", name, operation.path[name], True) for name in _PARAMETER.findall(route.path)]


def _query_parameters(operation: Operation) -> list[Schema]:
    return [
        _parameter("query", one.name, one.schema | {"description": one.words}, False)
        for one in operation.query
    ]


def _parameter(where: str, name: str, schema: Schema, required: bool) -> Schema:
    rules = {key: value for key, value in schema.items() if key != "description"}
    words = schema.get("description", _PATH_WORDS.get(name, ""))
    shown = {"name": name, "in": where, "required": required, "description": words, "schema": rules}
    return shown | {"explode": False} if rules.get("type") == "array" else shown


_PATH_WORDS: Final = {
    "id": "Which one.",
    "merchantId": "Whose.",
    "version": "Which version; `GET /versions` lists them.",
}


def _headers(route: Route) -> list[Schema]:
    if route.family == "open":
        return []
    named = ["ServiceVersion"]
    if route.merchant != "none":
        named.append("MerchantIdRequired" if route.merchant == "required" else "MerchantId")
    elif route.family == "gateway":
        named.append("MerchantId")
    if route.idempotency != "none":
        named.append("IdempotencyKeyRequired" if route.idempotency == "required" else "IdempotencyKey")
    return [{"$ref": f"#/components/parameters/{name}"} for name in named]


def _answer_headers(route: Route, status: int) -> Schema:
    named = ["Request-Id"]
    if route.family != "open":
        named.append("Service-Version")
    if route.idempotency != "none" and status < 300:
        named += ["Idempotent-Replayed", "Original-Request"]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in named}


def _refusal_headers(status: int) -> Schema:
    named = ["Request-Id", "Retry-After"] if status in RETRIABLE else ["Request-Id"]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in named}


def _refusal(refusals: tuple[type[PaydError], ...]) -> Schema:
    codes = [one.code for one in refusals]
    return {
        "schema": {"$ref": f"{REF}Error", "properties": {"code": {"enum": codes}}},
        "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
    }


def _problem(code: str) -> Schema:
    """The same codes in the other form; one example shows it."""
    return {
        "schema": {"$ref": f"{REF}Problem"},
        "examples": {code: {"$ref": f"#/components/examples/problem_{code}"}},
    }


def every_error() -> dict[str, Schema]:
    """The example of each code, also of those that no operation answers, such as `method_not_allowed`."""
    first: dict[str, type[PaydError]] = {}
    for kind in STATUS:
        first.setdefault(kind.code, kind)
    return {code: example_of(kind) for code, kind in sorted(first.items())}


def example_of(kind: type[PaydError]) -> Schema:
    """The example of an error."""
    message = EXAMPLES[kind.code]
    field, _, words = message.partition(": ")
    issues = (Issue(field, words),) if kind is ParamsValidation else ()
    details = {"requestId": made_id("req_"), "docUrl": doc_url(BASE_URL, kind.code)}
    body = _plain(ErrorBody(message, kind.code, details, issues))
    return {"summary": _words_of(kind), "value": body}


def _problem_of(kind: type[PaydError], status: int) -> Schema:
    """The example of an error as problem details."""
    example = example_of(kind)
    plain = Answer(status, msgspec.json.encode(example["value"]))
    return example | {"value": msgspec.json.decode(as_problem(plain).body)}


def _words_of(kind: type[PaydError]) -> str:
    return (kind.__doc__ or "").strip()


def _either(answer: Schema, refused: Schema) -> Schema:
    """One status with two kinds of body."""
    one, other = answer["content"][JSON], refused["content"][JSON]
    both = {
        "schema": {"anyOf": [one["schema"], other["schema"]]},
        "examples": one["examples"] | other["examples"],
    }
    return {
        "description": f"{answer['description']}  \n{refused['description']}",
        "headers": answer["headers"] | refused["headers"],
        "content": refused["content"] | {JSON: both},
    }


def _feeds() -> str:
    return FEEDS.format(message=msgspec.json.format(msgspec.json.encode(feed_message())).decode())
