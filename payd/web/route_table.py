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


class RouteTable(Generic[R]):
    """Fixed paths by name, the others by shape.

    Args:
        routes: The table.
        segment: The pattern of a parameter on a path; what is between two slashes, unless it says otherwise.
    """

    def __init__(self, routes: Iterable[R], segment: Callable[[str], str] = lambda _: SEGMENT) -> None:
        self._fixed: dict[str, dict[str, R]] = {}
        self._shapes: list[tuple[re.Pattern[str], dict[str, R]]] = []
        by_path: dict[str, dict[str, R]] = {}
        for route in routes:
            by_path.setdefault(route.path, {})[route.method] = route
        # The most fixed text first: a parameter must swallow neither what follows it nor a name in its place.
        for path, methods in sorted(by_path.items(), key=lambda item: -len(_PARAMETER.sub("", item[0]))):
            if "{" in path:
                shape = re.sub(r"\\\{(\w+)\\\}", rf"(?P<\1>{segment(path)})", re.escape(path))
                self._shapes.append((re.compile(shape), methods))
            else:
                self._fixed[path] = methods

    def find(self, path: str) -> tuple[dict[str, R], dict[str, str]]:
        """The methods at a path, and its parameters; none where there is nothing."""
        methods = self._fixed.get(path)
        if methods is not None:
            return methods, {}
        for shape, found in self._shapes:
            match = shape.fullmatch(path)
            if match is not None:
                return found, match.groupdict()
        return {}, {}
