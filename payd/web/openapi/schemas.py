"""JSON Schema of the wire types, with what `fields.py` knows of the names in them.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from payd.core.event import Envelope
from payd.web.actions import ActionOut, actions_of
from payd.web.openapi.fields import FIELDS, IN, WHOLE

Schema = dict[str, Any]

REF: Final = "#/components/schemas/"

NAMES: Final = {
    "ErrorBody": "Error",
    "MatchOut": "MatchOutcome",
    "TestOut": "TestDelivery",
    "WalletRpcFlat": "WalletRpc",
    "WalletRpcNested": "WalletRpc",
    "BuildFlat": "Build",
    "BuildNested": "Build",
}
"""What a shape is called in the description; of all others, the type's name without `Out`."""

_REF: Final = re.compile(rf"^{REF}(\w+)$")
_BARE: Final = ("title", "default")


class Schemas:
    """The shapes of one version.

    Args:
        version: Of the API.
        types: Every type that a body has; the shapes within them come along.
    """

    def __init__(self, version: str, types: Iterable[Any]) -> None:
        wanted = [*dict.fromkeys(types), Envelope, *actions_of(version)]
        found, shapes = msgspec.json.schema_components(wanted, ref_template=REF + "{name}")
        self._by_type = {one: _renamed(schema) for one, schema in zip(wanted, found, strict=True)}
        names = [shown_name(name) for name in shapes]
        assert len(set(names)) == len(names), f"two shapes have one name: {sorted(names)}"
        self.shapes = {
            name: _shape(name, _renamed(schema)) for name, schema in zip(names, shapes.values(), strict=True)
        }
        for shape in ("Event", "Sample"):
            self.shapes[shape]["properties"]["envelope"] = {"$ref": f"{REF}Envelope"}
        self.shapes[shown_name(ActionOut.__name__)] = _action(ActionOut)

    def of(self, type: Any) -> Schema:
        """The schema of a body."""
        # The one body that is a bare list: the accounts of a wallet.
        return narrowed(self._by_type[type], FIELDS["accounts"])


def shown_name(name: str) -> str:
    """What a type is called in the description."""
    return NAMES.get(name) or name.removesuffix("Out")


def _action(shown: type[ActionOut]) -> Schema:
    mapping = {"walletRpc": f"{REF}WalletRpc", "build": f"{REF}Build"}
    return {
        "description": inspect.cleandoc(shown.__doc__ or ""),
        "oneOf": [{"$ref": ref} for ref in mapping.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _renamed(schema: Any) -> Any:
    """A schema with the names of the description."""
    if isinstance(schema, list):
        return [_renamed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {name: _renamed(value) for name, value in schema.items()}
    ref = renamed.get("$ref")
    if isinstance(ref, str) and (match := _REF.match(ref)) is not None:
        renamed["$ref"] = REF + shown_name(match[1])
    return renamed


def _shape(name: str, schema: Schema) -> Schema:
    meanings = {**FIELDS, **IN.get(name, {})}
    shape = {key: value for key, value in schema.items() if key not in _BARE}
    if "description" in shape:
        shape["description"] = inspect.cleandoc(shape["description"])
    shape["properties"] = {
        field: narrowed(one, meanings.get(field, {})) for field, one in schema.get("properties", {}).items()
    }
    if not shape.get("required"):
        shape.pop("required", None)
    return shape | WHOLE.get(name, {})


def narrowed(shown: Schema, meaning: Schema) -> Schema:
    """What the type says of a field, with what its name means: said of the value that is not null."""
    shown = dict(shown)
    # What has a default may be left out; generated types would ask for it.
    shown.pop("default", None)
    if "enum" in shown:
        shown.setdefault("type", "string")
    if "description" in meaning:
        shown["description"] = meaning["description"]
    if shown.get("type") == "array":
        shown.setdefault("items", {})
    rules = {key: value for key, value in meaning.items() if key != "description"}
    if "anyOf" in shown:
        shown["anyOf"] = [_ruled(one, rules) for one in shown["anyOf"]]
        return shown
    return _ruled(shown, rules)


def _ruled(shown: Schema, rules: Schema) -> Schema:
    """A plain schema with rules that are meant for its type; others have none."""
    if not rules or rules.get("type", _kind(rules)) != shown.get("type"):
        return shown
    items = {"items": {**shown["items"], **rules["items"]}} if "items" in rules else {}
    return {**shown, **rules, **items}


def _kind(rules: Schema) -> str:
    if {"maxItems", "minItems", "items", "uniqueItems"} & rules.keys():
        return "array"
    return "object" if "maxProperties" in rules else "string"
