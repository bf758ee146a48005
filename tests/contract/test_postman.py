"""A Postman collection is made of the description as the README says, and its requests work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from payd.core.version import VERSIONS
from payd.web.openapi.table import OPERATIONS
from tests.contract.outside import Caller, Server, Shop, open_server
from tests.packages import CACHE, from_npm
from tests.test_readme import README

PACKAGES: Final = {"openapi-to-postmanv2": "6.3.3", "newman": "6.2.2"}
TOOL_S_MAX: Final = 120.0

KEEP_ID: Final = "pm.collectionVariables.set('paymentId', pm.response.json().paymentId)"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("postman"), "") as server:
        yield server


@pytest.fixture(scope="module")
def programs() -> Path:
    return from_npm(CACHE / "postman", PACKAGES, "--ignore-scripts") / "node_modules" / ".bin"


def run(cwd: Path, *command: str | Path) -> str:
    """What a tool says, which has to end well."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=os.environ, capture_output=True, text=True, timeout=TOOL_S_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def requests_of(folder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every request in a collection, or in a folder of one."""
    for item in folder["item"]:
        if "item" in item:
            yield from requests_of(item)
        else:
            yield item


@pytest.mark.alike
@pytest.mark.parametrize("version", VERSIONS)
def test_a_collection_makes_a_payment_and_reads_its_status(
    running: Server, programs: Path, tmp_path: Path, version: str
) -> None:
    (tmp_path / "payd.json").write_bytes(httpx.get(f"{running.url}/openapi/{version}.json").content)
    [arguments] = re.findall(r"^npx openapi-to-postmanv2 (.+)$", README.read_text(), re.M)
    assert "Conversion successful" in run(tmp_path, programs / "openapi2postmanv2", *shlex.split(arguments))
    collection = json.loads((tmp_path / "postman.json").read_text())
    requests = {
        f"{one['request']['method']} /{'/'.join(one['request']['url']['path'])}": one
        for one in requests_of(collection)
    }
    assert len(requests) == len(OPERATIONS)

    # What a person fills in: the merchant, and the payment that was made.
    key = running.key(running.cli_json("account", "create", f"postman {version}")["id"])
    with httpx.Client(base_url=running.url, timeout=20) as http:
        merchant_id = Shop("", Caller(http, {"Api-Key": key})).merchant()
    create, read = requests["POST /v1/payments"], requests["GET /v1/payments/:id/status"]
    for one in (create, read):
        [header] = [each for each in one["request"]["header"] if each["key"] == "Merchant-Id"]
        header["value"] = merchant_id
    create["event"] = [{"listen": "test", "script": {"exec": [KEEP_ID]}}]
    [payment_id] = read["request"]["url"]["variable"]
    payment_id["value"] = "{{paymentId}}"
    (tmp_path / "mine.json").write_text(json.dumps(collection | {"item": [create, read]}))

    told = ("--reporters", "json", "--reporter-json-export", "told.json")
    variables = ("--env-var", f"baseUrl={running.url}", "--env-var", f"apiKey={key}")
    run(tmp_path, programs / "newman", "run", "mine.json", *variables, *told)
    made, status = (
        one["response"] for one in json.loads((tmp_path / "told.json").read_text())["run"]["executions"]
    )
    assert (made["code"], status["code"]) == (201, 200)
    for answer in (made, status):
        assert {"key": "service-version", "value": version} in answer["header"]
    assert json.loads(bytes(status["stream"]["data"]))["status"] == "requires_action"
