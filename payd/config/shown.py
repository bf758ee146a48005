"""A configuration as people may see it: each value as it is written in payd.toml, and no secret's own text.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from payd.config.keys import Key
from payd.config.kinds import Address
from payd.config.sections import KEYS, Config


def value_of(config: Config, name: str) -> Any:
    """The value of a key by its dotted name."""
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def shown_value(key: Key, value: Any) -> Any:
    """As it is written in payd.toml; a secret's own text belongs on no screen and in no report."""
    if key.kind.shown is not None:
        return _plain(key.kind.shown(value))
    return "(set)" if key.kind.is_secret and value else _plain(value)


def for_people(value: Any) -> str:
    """A shown value in one line."""
    match value:
        case bool():
            return str(value).lower()
        case list():
            return " ".join(value)
        case dict():
            pairs = ", ".join(f"{name} = {each}" for name, each in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    return str(value)


def _plain(value: Any) -> Any:
    match value:
        case Address():
            return str(value)
        case tuple():
            return [str(item) for item in value]
        case Path():
            return str(value)
        case None:
            return ""
        case _:
            return value


# What a merchant meets: no paths, addresses or limits of the machine.
_FOR_PAGES: Final = (
    "base_url",
    "payments.",
    "settlements.",
    "fee.",
    "rates.",
    "test.",
    "webhooks.",
    "notify.",
    "rate_limits.",
)


def settings_for_pages(config: Config) -> Iterator[tuple[str, str, str, str, bool]]:
    """The keys that concern who runs a shop: name, value, unit, meaning, and whether it is no default."""
    for name, key in KEYS.items():
        if name.startswith(_FOR_PAGES):
            value = value_of(config, name)
            yield name, for_people(shown_value(key, value)), key.unit, key.meaning, value != key.default
