"""`payd webhook verify` says whether a delivery is authentic, and if not why; a server knows even more."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from payd.cli.failure import Unreachable
from payd.cli.verify import ASK_BYTES_MAX
from payd.clock import system_wall_ms
from payd.core.event import sample_event
from payd.core.signature import make_secret, sign
from tests.terminal import Terminal

URL = "http://127.0.0.1:9/hook"
SECRET = make_secret(b"s" * 32)
OTHER = make_secret(b"o" * 32)
BODY = sample_event(
    "payment.succeeded", event_id="evt_1", payment_id="pay_t1", merchant_id="mrch_1", now_ms=1_780_000_000_000
)
DAY = "2026-11-20T10:00:00.000Z"
NEXT_DAY = "2026-11-21T10:00:00.000Z"


def verify_options(body: Path, *, signed_with: str = SECRET, **changes: str) -> list[str]:
    now_s = str(system_wall_ms() // 1000)
    given = {"id": "msg_1", "timestamp": now_s, "secret": SECRET, "body": str(body)}
    given["signature"] = sign([signed_with], "msg_1", int(now_s), BODY)
    return [part for name, value in {**given, **changes}.items() for part in (f"--{name}", value)]


@pytest.fixture
def body(tmp_path: Path) -> Path:
    path = tmp_path / "body"
    path.write_bytes(BODY)
    return path


def explained(**known: Any) -> dict[str, Any]:
    """What a server answers that knows nothing, but for this."""
    names = ("match", "createdAt", "rotatedAt", "expiresAt", "given", "deliveryId", "deliveryState")
    flags = {"bodyChanged": False, "byListener": False, "hasEndpoint": True}
    return {**dict.fromkeys(names), **flags, **known}


def test_an_authentic_delivery_verifies(payd: Terminal, body: Path) -> None:
    assert "Authentic" in payd("webhook", "verify", *verify_options(body)).output
    found = payd.json("webhook", "verify", *verify_options(body))
    assert found == {"authentic": True, "kind": "authentic", "reason": None}


def test_the_body_may_come_in_on_standard_input(payd: Terminal) -> None:
    assert "Authentic" in payd("webhook", "verify", *verify_options(Path("-")), input=BODY).output


def test_the_secret_may_come_from_a_variable(
    payd: Terminal, body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = verify_options(body)
    at = options.index("--secret")
    monkeypatch.setenv("PAYD_WEBHOOK_SECRET", SECRET)
    assert "Authentic" in payd("webhook", "verify", *options[:at], *options[at + 2 :]).output
    monkeypatch.setenv("PAYD_WEBHOOK_SECRET", OTHER)
    assert "No v1 signature fits" in payd.error("webhook", "verify", *options[:at], *options[at + 2 :])


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"secret": OTHER}, "wrong_secret", "No v1 signature fits"),
        ({"secret": "hunter2"}, "malformed_secret", "must begin with whsec_"),
        ({"id": "msg_2"}, "wrong_secret", "No v1 signature fits"),
        ({"id": "evt_1"}, "wrong_id", "begins with msg_"),
        ({"timestamp": "yesterday"}, "malformed_header", "whole Unix seconds"),
        ({"signature": "v1,AAAA"}, "malformed_header", "is cut"),
        ({"at": "2001-01-01T00:00:00Z"}, "stale_timestamp", "in the future"),
        ({"at": "9999999999"}, "stale_timestamp", "old"),
    ],
)
def test_what_is_not_authentic_says_why(
    payd: Terminal, body: Path, changes: dict[str, str], kind: str, words: str
) -> None:
    options = [
        *verify_options(body),
        *(part for name, value in changes.items() for part in (f"--{name}", value)),
    ]
    said = payd.error("webhook", "verify", *options)
    assert words in said
    assert "hunter2" not in said
    found = msgspec.json.decode(payd("webhook", "verify", *options, "--json", code=1).stdout)
    assert (found["authentic"], found["kind"], words in found["reason"]) == (False, kind, True)


def test_a_body_that_was_written_again_is_told_so(payd: Terminal, body: Path) -> None:
    body.write_text(json.dumps(json.loads(BODY), indent=2))
    said = payd.error("webhook", "verify", *verify_options(body))
    assert "The secret is right, but the body was parsed and written again" in said
    assert "raw bytes" in said


def test_an_old_delivery_is_checked_as_of_when_it_came(payd: Terminal, body: Path) -> None:
    body.write_bytes(b'{"test": 2432232314}')
    recorded = {
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "timestamp": "1614265330",
        "signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    options = verify_options(body, **recorded)
    said = payd.error("webhook", "verify", *options)
    assert "Secret and body are right" in said
    assert "With --at" in said
    for at in ("1614265330", "2021-02-25T15:04:00Z"):
        assert "Authentic" in payd("webhook", "verify", *options, "--at", at).output
    assert "--at" in payd.error("webhook", "verify", *options, "--at", "yesterday")


def test_a_secret_that_was_rotated_is_known_beside_the_data_directory(begun: Terminal, body: Path) -> None:
    first = begun.json("webhook", "set", "--url", URL)["secret"]
    second = begun.json("webhook", "rotate")["secret"]

    said = begun.error("webhook", "verify", *verify_options(body, signed_with=second, secret=OTHER))
    assert "signed with the endpoint's current secret, which is not the one you gave" in said
    assert "payd webhook reveal --mode test" in said

    said = begun.error("webhook", "verify", *verify_options(body, signed_with=first, secret=second))
    assert "was rotated out on" in said
    assert "Keep both until it stops signing" in said

    said = begun.error("webhook", "verify", *verify_options(body, signed_with=OTHER))
    assert "This server never sent that" in said
    said = begun.error("webhook", "verify", *verify_options(body, signed_with=OTHER, secret=second))
    assert "one and the same request" in said

    options = verify_options(body, signed_with=second, secret=OTHER)
    assert "No v1 signature fits" in begun.error("webhook", "verify", *options, "--offline")
    assert "whsec_" not in begun.error("webhook", "verify", *options)


@pytest.mark.parametrize(
    ("known", "kind", "words"),
    [
        (
            {
                "match": "current",
                "createdAt": DAY,
                "given": {"standing": "expired", "rotatedAt": DAY, "expiresAt": NEXT_DAY},
            },
            "expired_secret",
            "rotated out on 2026-11-20 10:00:00 UTC and stopped signing on 2026-11-21 10:00:00 UTC",
        ),
        ({"match": "current", "createdAt": DAY}, "other_secret", "it was made on 2026-11-20 10:00:00 UTC"),
        (
            {"match": "previous", "createdAt": DAY, "rotatedAt": DAY, "expiresAt": NEXT_DAY},
            "rotated_secret",
            "Keep both until it stops signing, on 2026-11-21 10:00:00 UTC",
        ),
        (
            {"match": "expired", "createdAt": DAY, "rotatedAt": DAY, "expiresAt": NEXT_DAY},
            "rotated_secret",
            "It stopped signing on 2026-11-21 10:00:00 UTC",
        ),
        (
            {"match": "current", "createdAt": DAY, "bodyChanged": True, "deliveryId": "dlv_7"},
            "changed_body",
            "with other bytes (delivery dlv_7)",
        ),
        ({"byListener": True}, "listener_secret", "began before there was an endpoint. Start it again"),
        (
            {"byListener": True, "hasEndpoint": False},
            "listener_secret",
            "payd listen --print-secret --mode test --account shop` shows it",
        ),
        ({"given": {"standing": "current"}}, "mixed_delivery", "one and the same request"),
        ({}, "never_sent", "--account, --mode"),
    ],
)
def test_what_the_server_knows_is_put_into_words(
    payd: Terminal, answers: dict[str, Any], body: Path, known: dict[str, Any], kind: str, words: str
) -> None:
    answers["webhook.explain"] = explained(**known)
    options = verify_options(body, secret=OTHER)
    result = payd("webhook", "verify", *options, "--json", "--account", "shop", code=1)
    assert words in result.stderr
    assert msgspec.json.decode(result.stdout)["kind"] == kind
    [(_, asked)] = answers["asked"]
    assert (asked["mode"], asked["account"], asked["id"]) == ("test", "shop", "msg_1")
    assert b64decode(asked["bodyB64"]) == BODY
    assert asked["secretSha256"] == hashlib.sha256(OTHER.encode()).hexdigest()
    assert OTHER not in str(asked), "the secret itself stays here"


def test_a_listeners_own_secret_is_recognised_without_an_endpoint(begun: Terminal, body: Path) -> None:
    secret = begun("listen", "--print-secret").stdout.split()[-1]
    assert (
        "Authentic"
        in begun("webhook", "verify", *verify_options(body, secret=secret, signed_with=secret)).output
    )
    said = begun.error("webhook", "verify", *verify_options(body, signed_with=secret))
    assert "signed with `payd listen`'s own secret, as there is no endpoint" in said
    assert secret not in said


def test_a_secret_that_signs_along_is_told_when_it_stops(begun: Terminal, body: Path) -> None:
    first = begun.json("webhook", "set", "--url", URL)["secret"]
    rotated = begun.json("webhook", "rotate")
    now_s = str(system_wall_ms() // 1000)
    both = sign([rotated["secret"], first], "msg_1", int(now_s), BODY)
    given = verify_options(body, secret=first, signature=both, timestamp=now_s)
    until = rotated["oldSecretsUntil"][:19].replace("T", " ")

    said = begun("webhook", "verify", *given).output
    assert said.startswith("Authentic: the signature fits and the time is right.\n")
    assert f"and stops signing on {until} UTC." in said
    assert "payd webhook reveal --mode test` shows the current one" in said
    found = begun.json("webhook", "verify", *given)
    assert (found["authentic"], found["kind"], until in found["reason"]) == (True, "authentic", True)

    assert "stops" not in begun("webhook", "verify", *given, "--offline").output
    fresh = verify_options(body, secret=rotated["secret"], signature=both, timestamp=now_s)
    assert "stops" not in begun("webhook", "verify", *fresh).output


def test_the_server_is_asked_only_when_nothing_else_explains_it(
    payd: Terminal, answers: dict[str, Any], body: Path
) -> None:
    payd("webhook", "verify", *verify_options(body))
    payd("webhook", "verify", *verify_options(body, id="evt_1"), code=1)
    payd("webhook", "verify", *verify_options(body, secret=OTHER), "--offline", code=1)
    body.write_bytes(BODY + b" " * ASK_BYTES_MAX)
    payd("webhook", "verify", *verify_options(body, secret=OTHER), code=1)
    assert answers["asked"] == []


def test_a_server_that_is_not_there_or_refuses_is_not_mentioned(
    payd: Terminal, answers: dict[str, Any], body: Path
) -> None:
    def busy(_args: dict[str, Any]) -> Any:
        raise Unreachable("somebody holds it")

    answers["webhook.explain"] = busy
    said = payd.error("webhook", "verify", *verify_options(body, secret=OTHER))
    assert "No v1 signature fits" in said
    assert "somebody" not in said
    Path("payd.toml").write_text("nonsense")
    assert "No v1 signature fits" in payd.error("webhook", "verify", *verify_options(body, secret=OTHER))
