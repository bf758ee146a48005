"""What the description says of one route, beyond what the table of routes says.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from payd.core.errors import NotFound, PaydError, PaymentNotFound
from payd.web.openapi import fields as names

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the query.

    Attributes:
        name: As it stands in the query.
        words: What it does.
        schema: JSON Schema of its value; a list may be repeated, or be separated by commas.
    """

    name: str
    words: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is no JSON: of which kinds, with an example where it is text."""

    types: tuple[str, ...]
    example: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One route.

    Attributes:
        id: Resource and verb; names the functions of generated clients, so it never changes.
        tag: The group that it is shown in.
        summary: A few words.
        words: What there is to know, in Markdown.
        answers: By status, the type of the answer's body.
        body: The type of the request's body, or the kinds of one that is no JSON; None: there is none.
        query: The parameters of its query.
        refusals: What the handler refuses by itself; the rest follows from the route.
        body_optional: Whether the body may be left out.
        path: Schemas of its parameters in the path, by name.
    """

    id: str
    tag: str
    summary: str
    words: str
    answers: dict[int, Any]
    body: Any = None
    query: tuple[Param, ...] = ()
    refusals: tuple[type[PaydError], ...] = ()
    body_optional: bool = False
    path: dict[str, Schema] = field(default_factory=dict)


Operations = dict[str, Operation]
"""By method and path, as the table of routes has them."""

MERCHANT_PATH: Final = {"merchantId": names.identifier("mrch_")}
PAYMENT_PATH: Final = {"id": names.PAYMENT_ID}

NO_MERCHANT: Final = (NotFound,)
NO_PAYMENT: Final = (PaymentNotFound,)

MAX_POLL: Final = Param(
    "maxPollMs",
    "Holds the request until the status changes, for so many milliseconds; more than 55000 count as 55000.",
    {"type": "integer", "minimum": 0, "maximum": 999_999_999_999_999, "default": 0},
)
CURSOR: Final = Param(
    "cursor",
    "`nextCursor` of the page before; left out: the first page. No other text is a cursor.",
    {"type": "string", "maxLength": 512},
)


def limit(most: int, default: int) -> Param:
    """How many a page has at most."""
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Param("limit", "How many the page has at most.", schema)
