"""The description under tools that others wrote: linters, clients made of it, and Schemathesis.

They have a server of their own: Schemathesis moves the clock and deletes what it finds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from payd.core.version import DEFAULT, VERSIONS
from payd.web.openapi.table import OPERATIONS
from tests.contract.outside import Caller, Door, Receiver, Server, Shop, open_server
from tests.packages import CACHE, from_npm

CONFIGURATION: Final = """
[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8"]

[rate_limits]
per_key = 0
per_ip = 0
failed_auth = 0
"""
LINTERS: Final = {"@stoplight/spectral-cli": "6.16.3", "@redocly/cli": "2.77.0"}
TYPES: Final = {"openapi-typescript": "7.13.0", "openapi-fetch": "0.17.0", "typescript": "5.9.3"}

COMPILER: Final = {
    "strict": True,
    "noUncheckedIndexedAccess": True,
    "target": "es2022",
    "module": "preserve",
    "lib": ["es2022", "dom"],
    "types": [],
}

SPECTRAL: Final = 'extends: ["spectral:oas"]\n'

# A refusal is right for what fits its schema and cannot be: a payment that is over, a time that has passed, a
# cursor that nobody was handed. `checks.py` sees to it that a body which fits is never told that it does not.
SCHEMATHESIS: Final = """
hooks = "checks"

[parameters]
"query.maxPollMs" = 0

[phases.stateful]
generation = { mode = "positive", max-examples = 20 }
inference = { algorithms = [] }

[generation]
codec = "ascii"

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 410, 415, 422, "5xx"]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 428, 429, "5xx"]
"""
TOOL_S_MAX: Final = 240.0
HERE: Final = Path(__file__).parent / "openapi"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("described"), CONFIGURATION) as running:
        yield running


@pytest.fixture(scope="module")
def documents(described: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The served documents, as files, by version."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / ".spectral.yaml").write_text(SPECTRAL)
    for version in VERSIONS:
        served = httpx.get(f"{described.url}/openapi/{version}.json").raise_for_status()
        (folder / f"{version}.json").write_bytes(served.content)
    return {version: folder / f"{version}.json" for version in VERSIONS}


@pytest.fixture(scope="module")
def linters() -> Path:
    return from_npm(CACHE / "openapi-linters", LINTERS, "--ignore-scripts") / "node_modules" / ".bin"


def run(*command: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A tool, to its end."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=dict(os.environ) | more,
        capture_output=True,
        text=True,
        timeout=TOOL_S_MAX,
        check=False,
    )


def key_of(described: Server, name: str) -> str:
    """A key of a new account."""
    return described.key(described.cli_json("account", "create", name)["id"])


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_openapi_3_1(documents: dict[str, Path], version: str) -> None:
    document = json.loads(documents[version].read_text())
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    document["paths"]["/v1/payments"]["post"]["responses"] = {}
    assert list(OpenAPIV31SpecValidator(document).iter_errors())


@pytest.mark.alike
@pytest.mark.parametrize("version", VERSIONS)
def test_spectral_finds_nothing(documents: dict[str, Path], linters: Path, version: str) -> None:
    document = documents[version]
    done = run(
        linters / "spectral",
        "lint",
        "--fail-severity=hint",
        document,
        "-r",
        ".spectral.yaml",
        cwd=document.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No results with a severity of" in done.stdout


def test_redocly_finds_nothing(documents: dict[str, Path], linters: Path) -> None:
    folder = documents[DEFAULT].parent
    done = run(linters / "redocly", "lint", *documents.values(), "--max-problems=1000", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Your API descriptions are valid" in done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower().replace("deprecation warning", "")


def check_flow(told: Any, described: Server, documents: dict[str, Path], door: Door) -> None:
    """What a client says that it did, and what its webhook was sent, which is what the document says."""
    assert told["settlement"].startswith("eip155:8453/erc20:")
    assert told["secret"].startswith("whsec_")
    assert told["url"].startswith(f"{described.url}/pay/pay_t")
    assert (told["status"], told["amount"]) == ("succeeded", "USDC")
    assert (told["cancelled"], told["refused"]) == ("cancelled_by_merchant", "invalid_state")
    assert told["listed"] == [["ORDER-2", "cancelled"], ["ORDER-1", "succeeded"]]
    document = json.loads(documents[DEFAULT].read_text())
    for delivery in door.wait_for(told["url"].rpartition("/")[2], "payment.created", "payment.settled"):
        webhook = document["webhooks"][delivery.event["type"]]["post"]
        schema = webhook["requestBody"]["content"]["application/json"]["schema"]
        jsonschema_rs.validate({"components": document["components"], **schema}, delivery.event)
        for header in webhook["parameters"]:
            jsonschema_rs.validate(header["schema"], delivery.headers[header["name"]])


def test_a_generated_python_client_drives_the_main_flow(
    described: Server, documents: dict[str, Path], receiver: Receiver, tmp_path: Path
) -> None:
    made = run(
        Path(sys.executable).with_name("openapi-python-client"),
        *(
            "generate",
            "--meta",
            "none",
            "--path",
            documents[DEFAULT],
            "--output-path",
            tmp_path / "generated",
        ),
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "will not be generated" not in made.stdout + made.stderr

    door = receiver.door()
    key = key_of(described, "python client")
    done = run(sys.executable, HERE / "main_flow.py", tmp_path, described.url, key, door.url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    check_flow(json.loads(done.stdout), described, documents, door)


def test_generated_typescript_types_drive_the_main_flow(
    described: Server, documents: dict[str, Path], receiver: Receiver, tmp_path: Path
) -> None:
    packages = from_npm(CACHE / "openapi-types", TYPES, "--ignore-scripts") / "node_modules"
    (tmp_path / "node_modules").symlink_to(packages)
    tools, folder = packages / ".bin", tmp_path
    script = folder / "main_flow.ts"
    made = run(tools / "openapi-typescript", documents[DEFAULT], "-o", "api.ts", cwd=folder)
    assert made.returncode == 0, made.stdout + made.stderr
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    (folder / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": COMPILER, "files": ["main_flow.ts"]})
    )
    text = (HERE / "main_flow.ts").read_text()

    script.write_text(text.replace('to: "succeeded"', 'to: "sold"'))
    wrong = run(tools / "tsc", cwd=folder)
    assert wrong.returncode != 0
    assert '"sold"' in wrong.stdout

    script.write_text(text)
    built = run(tools / "tsc", cwd=folder)
    assert built.returncode == 0, built.stdout

    door = receiver.door()
    done = run("node", "main_flow.js", described.url, key_of(described, "typed client"), door.url, cwd=folder)
    assert done.returncode == 0, done.stderr
    check_flow(json.loads(done.stdout), described, documents, door)


@pytest.mark.alike
@pytest.mark.parametrize("version", VERSIONS)
def test_schemathesis_finds_nothing(
    described: Server, documents: dict[str, Path], tmp_path: Path, version: str
) -> None:
    key = key_of(described, f"schemathesis {version}")
    with httpx.Client(base_url=described.url, timeout=20) as http:
        merchant_id = shop_of(http, key)
    (tmp_path / "schemathesis.toml").write_text(SCHEMATHESIS)
    done = run(
        *(Path(sys.executable).with_name("schemathesis"), "--config-file", "schemathesis.toml", "run"),
        *(documents[version], "--url", described.url, "--no-color", "--checks", "all", "--seed", "1"),
        *(
            "--phases",
            "examples,coverage,fuzzing,stateful",
            "--max-examples",
            "2",
            "--suppress-health-check",
            "all",
        ),
        *("--header", f"Api-Key: {key}", "--header", f"Merchant-Id: {merchant_id}"),
        *("--header", f"Service-Version: {version}"),
        cwd=tmp_path,
        PYTHONPATH=str(HERE),
    )
    assert done.returncode == 0, done.stdout[-10_000:]
    assert f"Tested: {len(OPERATIONS)}\n" in done.stdout
    assert "✅ Stateful" in done.stdout


def shop_of(http: httpx.Client, key: str) -> str:
    """A merchant that can be paid."""
    return Shop("", Caller(http, {"Api-Key": key})).merchant()
