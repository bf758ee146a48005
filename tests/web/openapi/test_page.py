"""The page: everything that is in the document, nothing from elsewhere, nothing that runs."""

from __future__ import annotations

import html
import re

import pytest

from payd.core.version import VERSIONS
from payd.web.errors import STATUS, doc_url
from payd.web.openapi.document import document
from payd.web.openapi.page import groups_of, page_bytes
from payd.web.openapi.refusals import EXAMPLES
from payd.web.openapi.table import OPERATIONS

BASE_URL = "https://pay.example"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_operation_webhook_error_and_shape_is_on_the_page(version: str) -> None:
    made, page = document(version, BASE_URL), page_bytes(version, BASE_URL).decode()
    ids = set(re.findall(r'id="([^"]+)"', page))
    assert {operation.id for operation in OPERATIONS.values()} <= ids
    assert {item["post"]["operationId"] for item in made["webhooks"].values()} <= ids
    assert {f"shape-{name}" for name in made["components"]["schemas"]} <= ids
    assert {doc_url("", error.code).removeprefix("/docs#") for error in STATUS} <= ids
    assert {code.removeprefix("problem_") for code in made["components"]["examples"]} <= EXAMPLES.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_link_within_the_page_leads_somewhere(version: str) -> None:
    page = page_bytes(version, BASE_URL).decode()
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_nothing_on_it_runs_or_comes_from_elsewhere() -> None:
    page = page_bytes(VERSIONS[0], BASE_URL).decode()
    assert not re.search(r"<script|<style|<iframe| on\w+=| style=|@import", page)
    loaded = re.findall(r'<(?:link|img|source)[^>]+(?:href|src)="([^"]+)"', page)
    assert all(one.startswith(("data:", "/static/docs.css?v=")) for one in loaded)
    assert len(loaded) == 2


def test_a_page_below_a_path_stays_below_it() -> None:
    page = page_bytes(VERSIONS[0], "https://pay.example/pay").decode()
    assert not re.search(r'href="/(?!pay/)', page)


def test_a_command_is_the_request_that_the_example_shows() -> None:
    groups = {group.name: group for group in groups_of(document(VERSIONS[0], BASE_URL))}
    (create,) = (one for one in groups["Payments"].operations if one.id == "Payment_create")
    assert create.command.startswith("curl")
    for part in (
        '-H "Api-Key: $KEY"',
        '-H "Merchant-Id: …"',
        "https://pay.example/v1/payments",
        '"ORDER-1042"',
    ):
        assert part in create.command
    assert "Idempotency-Key" not in create.command, "it is not required"


def test_the_page_is_small() -> None:
    assert len(page_bytes(VERSIONS[0], BASE_URL)) < 600_000
    assert html.unescape("&lt;") == "<"
