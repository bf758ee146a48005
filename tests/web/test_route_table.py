"""A table of routes finds what a path means, and nothing that it only resembles."""

from __future__ import annotations

from dataclasses import dataclass

from payd.web.route_table import RouteTable
from payd.web.routes import ROUTES


@dataclass(frozen=True)
class One:
    method: str
    path: str


TABLE = RouteTable(
    [
        One("GET", "/a"),
        One("POST", "/a"),
        One("GET", "/a/{id}"),
        One("GET", "/a/{id}/b/{other}"),
        One("GET", "/a/new"),
        One("GET", "/{mode}/c/{parameter}"),
        One("GET", "/{mode}/c/new"),
    ]
)


def test_a_fixed_path_goes_before_a_parameter() -> None:
    methods, params = TABLE.find("/a/new")
    assert methods["GET"].path == "/a/new"
    assert params == {}


def test_a_name_goes_before_a_parameter_in_its_place() -> None:
    assert TABLE.find("/x/c/new")[0]["GET"].path == "/{mode}/c/new"
    assert TABLE.find("/x/c/other")[1] == {"mode": "x", "parameter": "other"}


def test_parameters_are_what_stands_between_two_slashes() -> None:
    methods, params = TABLE.find("/a/one/b/two")
    assert [*methods] == ["GET"]
    assert params == {"id": "one", "other": "two"}


def test_a_path_has_all_its_methods() -> None:
    assert {*TABLE.find("/a")[0]} == {"GET", "POST"}


def test_what_is_not_there_is_not_found() -> None:
    for path in ("", "/", "/a/", "/a/one/", "/a/one/b", "/A", "/a.b"):
        assert TABLE.find(path) == ({}, {}), path


def test_a_parameter_may_be_told_to_take_more() -> None:
    wide = RouteTable([One("GET", "/x/{id}")], lambda _: ".+")
    assert wide.find("/x/a/b")[1] == {"id": "a/b"}


def test_a_path_is_found_whatever_others_begin_alike() -> None:
    deep = ["/v/{a}/{b}/c/d", "/v/y/{a}/c/d", "/{a}/y/z/w"]
    paths = ["/{a}", "/x/{a}", "/x/y/{a}", "/x/y/{a}/z", "/x/{a}/z", *deep]
    table = RouteTable([One("GET", path) for path in paths])
    for path in paths:
        asked = path.replace("{a}", "1").replace("{b}", "2")
        assert table.find(asked)[0]["GET"].path == path, asked
    assert table.find("/x/y/1/2") == ({}, {})


def test_a_key_needs_the_scope_of_what_the_path_names_and_to_look_never_more_than_to_read() -> None:
    nouns = {"merchants": "merchants", "webhooks": "webhooks", "events": "webhooks"}
    for route in ROUTES:
        if route.scope in (None, "gateway", "test"):
            continue
        noun = nouns.get(route.path.split("/")[2], "payments")
        if "/settlements/crypto" in route.path:
            noun = "settlements"
        changes = "secret" if route.path.endswith(("/rotate", "/reveal")) else "write"
        act = "read" if route.method == "GET" else changes
        assert route.scope == f"{noun}:{act}", (route.method, route.path)
