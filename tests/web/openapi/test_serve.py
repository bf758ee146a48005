"""The document and its page over HTTP."""

from __future__ import annotations

import pytest

from payd.core.version import DEFAULT, VERSIONS
from tests.shop import Shop


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_has_its_document_and_its_page(shop: Shop, version: str) -> None:
    found = await shop.call("GET", f"/openapi/{version}.json", key=None)
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert found.body["openapi"].startswith("3.1.")
    assert found.body["info"]["version"] == version
    assert found.body["servers"][0]["url"] == shop.house.base_url
    page = await shop.call("GET", f"/docs/{version}", key=None)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f"<title>API {version}".encode() in page.raw


async def test_the_versions_that_are_listed_are_those_that_are_described(shop: Shop) -> None:
    listed = (await shop.call("GET", "/versions", key=None)).body
    assert tuple(listed["stable"] + listed["preview"]) == VERSIONS


async def test_the_page_is_that_of_the_stable_version_unless_it_is_named(shop: Shop) -> None:
    assert (await shop.call("GET", "/docs")).raw == (await shop.call("GET", f"/docs/{DEFAULT}")).raw


async def test_the_page_runs_nothing_and_is_in_nobodys_frame(shop: Shop) -> None:
    headers = (await shop.call("GET", "/docs")).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/docs", f"/openapi/{DEFAULT}.json"])
async def test_who_has_it_hears_that_it_is_the_same(shop: Shop, path: str) -> None:
    first = await shop.call("GET", path)
    again = await shop.call("GET", path, if_none_match=first.headers["etag"])
    assert (again.status, again.raw) == (304, b"")
    assert (await shop.call("GET", path, if_none_match='"other"')).status == 200


@pytest.mark.parametrize("path", ["/openapi/2020-01-01.json", "/openapi/x.json", "/docs/2020-01-01"])
async def test_there_is_no_other_version(shop: Shop, path: str) -> None:
    found = await shop.call("GET", path)
    assert (found.status, found.code) == (404, "not_found")
    assert all(version in found.body["message"] for version in VERSIONS)
