"""Every link of the description is followed: an answer leads where it says that it leads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from payd.core.version import VERSIONS
from payd.web.openapi.links import LINKS
from tests.contract.outside import Caller, Server, Shop, open_server

CONFIGURATION: Final = """
[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8"]
"""

RECENT: Final = {"since": int(time.time()) - 60}
INSTEAD: Final[dict[str, Any]] = {
    "WebhookEndpoint_put": {"url": "http://127.0.0.1:9/webhook"},  # where nobody listens
    "Delivery_recover": RECENT,
    "Event_replay": RECENT,
}
"""What is sent where an example is of another day, or has somebody else's host."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("linked"), CONFIGURATION) as server:
        yield server


@dataclass(frozen=True)
class Reader:
    """Who knows the API by its description alone, and has a shop that can be paid."""

    document: Any
    http: httpx.Client
    merchant_id: str

    def operation(self, name: str) -> tuple[str, str, dict[str, Any]]:
        """Its method, its path, and what is said of it."""
        [found] = [
            (method.upper(), path, one)
            for path, methods in self.document["paths"].items()
            for method, one in methods.items()
            if one["operationId"] == name
        ]
        return found

    def do(self, name: str, given: dict[str, str]) -> httpx.Response:
        """Send what the first example sends, with these parameters."""
        method, path, operation = self.operation(name)
        values = {"Merchant-Id": self.merchant_id, "Idempotency-Key": os.urandom(12).hex()} | given
        sent: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
        shared = self.document["components"]["parameters"]
        for one in operation["parameters"]:
            parameter = shared[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            if parameter["required"] or parameter["name"] in given:
                sent[parameter["in"]][parameter["name"]] = values[parameter["name"]]
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        body = content and INSTEAD.get(name, next(iter(content["examples"].values()))["value"])
        path = path.format(**sent["path"])
        return self.http.request(method, path, params=sent["query"], headers=sent["header"], json=body)

    def begin(self, name: str) -> dict[str, str]:
        """What stands in the path of an operation with links, before anything is linked."""
        _, path, operation = self.operation(name)
        if "{merchantId}" in path:
            merchant = self.do("Merchant_create", {}).json()["merchant"]
            return {"merchantId": merchant["id"]}
        if "{name}" in path:
            return {"name": operation["parameters"][0]["schema"]["enum"][0]}
        return {"id": self.http.get("/v1/events").json()["data"][0]["id"]} if "{id}" in path else {}

    def follow(self, name: str, to: str) -> httpx.Response:
        """Do one, then the other with what the answer to the first has for it."""
        begun = self.begin(name)
        answer = self.do(name, begun)
        assert answer.is_success, f"{name}: {answer.text}"
        links = self.operation(name)[2]["responses"][str(answer.status_code)]["links"]
        given = {}
        for parameter, expression in links[to].get("parameters", {}).items():
            value, pointer = answer.json(), expression.removeprefix("$response.body#/")
            if pointer == expression:
                value, pointer = begun, expression.removeprefix("$request.path.")
            for part in pointer.split("/"):
                value = value[int(part)] if isinstance(value, list) else value[part]
            given[parameter] = value
        return self.do(to, given)


@pytest.mark.alike
@pytest.mark.parametrize("version", VERSIONS)
def test_every_link_leads_to_what_is_done(running: Server, version: str) -> None:
    document = httpx.get(f"{running.url}/openapi/{version}.json").json()
    key = running.key(running.cli_json("account", "create", f"links {version}")["id"])
    headers = {"Api-Key": key, "Service-Version": version}
    with httpx.Client(base_url=running.url, headers=headers, timeout=20) as http:
        merchant = Shop("", Caller(http, {"Api-Key": key})).merchant()
        reader = Reader(document, http, merchant)
        assert reader.do("WebhookEndpoint_put", {}).is_success
        assert reader.do("Payment_create", {}).is_success
        followed = {
            f"{name} -> {to}": reader.follow(name, to) for name, links in LINKS.items() for to in links
        }
    assert len(followed) > 50
    refused = {link: answer.text for link, answer in followed.items() if not answer.is_success}
    assert refused == {}
