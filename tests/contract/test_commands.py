"""The command line against a running server.

Source: DESIGN.md, "12. Operations"
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.contract.outside import ID_REST, Caller, Receiver, Server, Shop, environment_of, ok

OPEN = "[webhooks.test]\nallow_http = true\nallow_networks = ['127.0.0.0/8']\n"


def test_an_account_a_key_and_an_app_are_made_as_json(server: Server, http: httpx.Client, way: str) -> None:
    name = f"clerk at the {way}"
    account = server.cli_json("account", "create", name)
    assert re.fullmatch(f"acct_{ID_REST}", account["id"])
    assert account["name"] == name
    key = server.cli_json("key", "create", "--mode", "test", "--account", name)
    assert key["apiKey"].startswith("svc_test_")
    ok(Caller(http, {"Api-Key": key["apiKey"]}).get("/v1/merchants"))
    app = server.cli_json("app", "create", "--mode", "test", "--account", account["id"])
    assert re.fullmatch(f"app_t{ID_REST}", app["appId"])


def test_a_key_is_shown_once(server: Server, shop: Shop) -> None:
    listed = server.cli("key", "list", "--account", shop.account_id, "--json")
    assert listed.returncode == 0
    assert shop.api.headers["Api-Key"] not in listed.stdout
    assert shop.api.headers["Api-Key"][-4:] in listed.stdout


def test_a_webhook_is_set_as_json(server: Server, receiver: Receiver) -> None:
    server.cli_json("account", "create", "hooker")
    arguments = ("--account", "hooker", "--mode", "test")
    made = server.cli_json("webhook", "set", *arguments, "--url", receiver.door().url)
    assert made["secret"].startswith("whsec_")
    assert len(made["events"]) == 7
    shown = server.cli_json("webhook", "show", *arguments)
    assert "secret" not in shown
    assert shown["url"] == made["url"]
    assert made["secret"] in server.cli("webhook", "reveal", *arguments).stdout


def test_a_live_key_needs_a_chain(server: Server, shop: Shop) -> None:
    done = server.cli("key", "create", "--mode", "live", "--account", shop.account_id)
    assert done.returncode == 1
    assert "chain" in done.stderr
    assert "svc_" not in done.stdout


def test_wrong_usage_is_2(server: Server) -> None:
    assert server.cli("key", "create", "--mode", "sandbox").returncode == 2
    assert server.cli("nothing").returncode == 2


def test_an_unknown_key_or_a_wrong_unit_names_its_line(server: Server, tmp_path: Path) -> None:
    for text, line in (("[test]\nconfirm_after = 3\n", 2), ('[payments]\n\nlifetime_s = "15m"\n', 3)):
        broken = tmp_path / "payd.toml"
        broken.write_text(text)
        done = server.cli("check-config", "--config", str(broken))
        assert done.returncode == 2
        assert re.search(rf"\b{line}\b", done.stderr)


def test_every_command_of_the_pages_is_there(server: Server) -> None:
    promised = "serve demo init account key app merchant webhook check-config version"
    listed = re.findall(r"^  ([a-z-]+)  ", server.cli("--help").stdout, re.MULTILINE)
    assert set(promised.split()) - set(listed) == set()


def test_a_delivery_is_verified_by_hand(server: Server, tmp_path: Path) -> None:
    body, now = tmp_path / "body", int(time.time())
    secret = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
    body.write_bytes(b'{"id":"evt_1"}')
    digest = hmac.digest(b"k" * 32, f"msg_1.{now}.".encode() + body.read_bytes(), "sha256")
    good = f"v1,{base64.b64encode(digest).decode()}"
    for signature, status in ((good, 0), (f"v1,{'A' * 43}=", 1)):
        arguments = {"secret": secret, "id": "msg_1", "timestamp": str(now), "signature": signature}
        words = [word for name, value in arguments.items() for word in (f"--{name}", value)]
        assert server.cli("webhook", "verify", *words, "--body", str(body)).returncode == status


def test_the_version_is_shown(server: Server) -> None:
    assert re.search(r"\d+\.\d+", server.cli("version").stdout)


def test_a_data_directory_has_one_server(server: Server) -> None:
    done = server.cli("serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 3


def test_the_demo_does_the_whole_job(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, OPEN)
    done = subprocess.run(
        [sys.executable, "-m", "payd", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for word in ("payment.created", "payment.processing", "payment.succeeded", "payment.settled"):
        assert word in done.stdout


def test_the_log_names_requests_and_never_a_secret(server: Server, shop: Shop) -> None:
    log = (Path(server.environment["PAYD_CONFIG"]).parent / "log").read_text()
    lines = [line for line in log.splitlines() if line.startswith("{")]
    assert lines
    for line in lines:
        json.loads(line)
    assert shop.api.headers["Api-Key"] not in log
    assert "whsec_" not in log
