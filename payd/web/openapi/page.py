"""The description as a page: the same document, for people. Nothing on it runs, nothing comes from elsewhere.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import jinja2
import msgspec
from markupsafe import Markup

from payd.core.version import DEFAULT, VERSIONS
from payd.web.html import environment, root_of
from payd.web.openapi.document import document, every_error
from payd.web.openapi.markdown import html_of, inline
from payd.web.openapi.schemas import REF

Schema = dict[str, Any]

PACKAGE: Final = "payd.web.openapi"
_ERRORS: Final = "4"
_RULES: Final = ("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "pattern", "format")


@dataclass(frozen=True, slots=True)
class Row:
    """A field or a parameter."""

    name: str
    kind: Markup
    required: bool
    words: Markup
    rules: str


@dataclass(frozen=True, slots=True)
class Example:
    """What is sent or answered, as text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Response:
    """One status."""

    status: str
    words: Markup
    kind: Markup
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """An operation or a webhook."""

    id: str
    method: str
    path: str
    summary: str
    words: Markup
    credential: str
    parameters: tuple[Row, ...]
    body: Markup
    bodies: tuple[Example, ...]
    command: str
    responses: tuple[Response, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The operations of a tag."""

    id: str
    name: str
    words: Markup
    operations: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A component."""

    name: str
    words: Markup
    kind: Markup
    rows: tuple[Row, ...]


@cache
def page_bytes(version: str, base_url: str) -> bytes:
    """The page of one version, made once."""
    made = document(version, base_url)
    page = _environment().get_template("docs.html")
    return page.render(
        root=root_of(base_url),
        info=made["info"],
        intro=html_of(made["info"]["description"]),
        base_url=base_url,
        versions=VERSIONS,
        default=DEFAULT,
        groups=groups_of(made),
        errors=_errors(),
        shapes=[_shape(name, one) for name, one in sorted(made["components"]["schemas"].items())],
    ).encode()


def groups_of(made: Schema) -> list[Group]:
    """The operations by tag, in the order of the tags."""
    operations = [
        (one["tags"][0], _operation(made, method, path, one))
        for path, methods in made["paths"].items()
        for method, one in methods.items()
    ]
    operations += [
        (one["post"]["tags"][0], _operation(made, "webhook", name, one["post"]))
        for name, one in made["webhooks"].items()
    ]
    return [
        Group(
            tag["name"].lower().replace(" ", "-").replace(",", ""),
            tag["name"],
            html_of(tag["description"]),
            tuple(shown for name, shown in operations if name == tag["name"]),
        )
        for tag in made["tags"]
    ]


def _operation(made: Schema, method: str, path: str, one: Schema) -> Shown:
    parameters = [_resolved(made, parameter) for parameter in one["parameters"]]
    sent: Schema = one.get("requestBody", {})
    content = next(iter(sent.get("content", {}).items()), None)
    bodies = () if content is None else _examples(made, content[1])
    return Shown(
        id=one["operationId"],
        method=method.upper(),
        path=path,
        summary=one["summary"],
        words=html_of(one["description"]),
        credential=_credential(one["security"]),
        parameters=tuple(
            _row(parameter["name"], parameter["schema"], parameter["required"], _where(parameter))
            for parameter in parameters
        ),
        body=Markup("") if content is None else _kind(content[1].get("schema", {})) or Markup(content[0]),
        bodies=bodies,
        command="" if method == "webhook" else _command(made, method, path, one, parameters, bodies),
        responses=tuple(_response(made, status, answer) for status, answer in one["responses"].items()),
    )


def _resolved(made: Schema, one: Schema) -> Schema:
    if "$ref" not in one:
        return one
    found: Any = made
    for part in one["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    resolved: Schema = found
    return resolved


def _where(parameter: Schema) -> str:
    return f"{parameter['description']} ({parameter['in']})".strip()


def _credential(security: list[dict[str, list[str]]]) -> str:
    if not security:
        return ""
    return "Api-Key" if len(security) == 1 else "Api-Key, or App-Id with Client-Id"


def _response(made: Schema, status: str, answer: Schema) -> Response:
    told: Schema = answer.get("content", {})
    kind, media = next(iter(told.items()), ("", Schema()))
    shown = _kind(media.get("schema", {})) if kind == "application/json" else Markup(kind)
    lines = [inline(line) for line in answer["description"].split("\n")]
    # What all errors look like is said once, at the end.
    examples = _examples(made, media) if status < _ERRORS else ()
    return Response(status, Markup("<br>").join(lines), shown, examples)


def _examples(made: Schema, media: Schema) -> tuple[Example, ...]:
    found = [Example("", media["example"])] if "example" in media else []
    for one in media.get("examples", {}).values():
        shown = _resolved(made, one)
        found.append(Example(shown["summary"], _json(shown["value"])))
    return tuple(found)


def _errors() -> list[tuple[str, Markup, Example]]:
    """Each code with what it means and an example: where an error's `docUrl` leads."""
    return [
        (code, inline(one["summary"]), Example("", _json(one["value"])))
        for code, one in every_error().items()
    ]


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _command(
    made: Schema, method: str, path: str, one: Schema, parameters: list[Schema], bodies: tuple[Example, ...]
) -> str:
    """The request with curl."""
    words = ["curl"] + ([f"-X {method.upper()}"] if method not in ("get", "post") else [])
    if one["security"]:
        words.append('-H "Api-Key: $KEY"')
    words += [f'-H "{parameter["name"]}: …"' for parameter in parameters if _is_header(parameter)]
    content = one.get("requestBody", {}).get("content", {})
    if "application/json" in content and bodies:
        words += ['-H "Content-Type: application/json"', f"-d {shlex.quote(_compact(bodies[0].text))}"]
    elif content:
        words.append("--data-binary @logo.png")
    elif method == "post":
        words.append("-X POST")
    words.append(f"{made['servers'][0]['url']}{path}")
    return " \\\n  ".join(words)


def _is_header(parameter: Schema) -> bool:
    return parameter["in"] == "header" and bool(parameter["required"])


def _compact(text: str) -> str:
    return msgspec.json.format(text.encode(), indent=0).decode()


def _shape(name: str, schema: Schema) -> Shape:
    required = set(schema.get("required", ()))
    rows = tuple(
        _row(field, one, field in required, one.get("description", ""))
        for field, one in schema.get("properties", {}).items()
    )
    return Shape(name, html_of(schema.get("description", "")), Markup("") if rows else _kind(schema), rows)


def _row(name: str, schema: Schema, required: bool, words: str) -> Row:
    return Row(name, _kind(schema), required, inline(words), ", ".join(_rules(schema)))


def _rules(schema: Schema) -> Iterator[str]:
    for one in (schema, *schema.get("anyOf", ())):
        yield from (f"{rule} {one[rule]}" for rule in _RULES if rule in one)
        if "default" in one:
            yield f"default {msgspec.json.encode(one['default']).decode()}"


def _kind(schema: Schema) -> Markup:
    """The type in words, with links to shapes."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return Markup('<a href="#shape-{0}">{0}</a>').format(name)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return Markup(" or ").join(_kind(one) for one in schema[several])
    if "enum" in schema:
        return Markup(" | ").join(Markup("<code>{}</code>").format(word) for word in schema["enum"])
    if schema.get("type") == "array":
        return Markup("list of {}").format(_kind(schema["items"]) or "anything")
    return Markup(inline(str(schema.get("type", ""))))


@cache
def _environment() -> jinja2.Environment:
    return environment(PACKAGE)
