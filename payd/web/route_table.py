"""A table of routes, compiled: which route a method and a path mean.

Source: DESIGN.md, "4. The house".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

SEGMENT: Final = "[^/]+"

_PARAMETER: Final = re.compile(r"\{\w+\}")


class Routed(Protocol):
    """What a route has to say of itself."""

    @property
    def method(self) -> str:
        """Upper case."""

    @property
    def path(self) -> str:
        """With parameters in braces, such as `/v1/payments/{id}`."""


R = TypeVar("R", bound=Routed)


Shapes = list[tuple[re.Pattern[str], dict[str, R]]]


class RouteTable(Generic[R]):
    """Fixed paths by name, the others by shape.

    Args:
        routes: The table.
        segment: The pattern of a parameter on a path; what is between two slashes, unless it says otherwise.
    """

    def __init__(self, routes: Iterable[R], segment: Callable[[str], str] = lambda _: SEGMENT) -> None:
        by_path: dict[str, dict[str, R]] = {}
        for route in routes:
            by_path.setdefault(route.path, {})[route.method] = route
        self._fixed = {path: methods for path, methods in by_path.items() if "{" not in path}
        # The most fixed text first: a parameter must swallow neither what follows it nor a name in its place.
        shaped = sorted(by_path.keys() - self._fixed.keys(), key=lambda path: -len(_PARAMETER.sub("", path)))

        def shapes(head: str) -> Shapes[R]:
            chosen = [path for path in shaped if begin(path) == head or "{" in begin(path)]
            return [(_pattern(path, segment(path)), by_path[path]) for path in chosen]

        self._elsewhere = shapes("")
        self._by_begin = {begin(path): shapes(begin(path)) for path in shaped}

    def find(self, path: str) -> tuple[dict[str, R], dict[str, str]]:
        """The methods at a path, and its parameters; none where there is nothing."""
        methods = self._fixed.get(path)
        if methods is not None:
            return methods, {}
        for shape, found in self._by_begin.get(begin(path), self._elsewhere):
            match = shape.fullmatch(path)
            if match is not None:
                return found, match.groupdict()
        return {}, {}


def begin(path: str) -> str:
    """The first two names of a path: all shapes without a parameter in them are told apart by those."""
    return "/".join(path.split("/", 3)[:3])


def _pattern(path: str, segment: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", rf"(?P<\1>{segment})", re.escape(path)))
