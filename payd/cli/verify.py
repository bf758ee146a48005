"""`payd webhook verify`: check a delivery as its receiver should, and say why it does not fit."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import click

from payd.cli.failure import Refused, told
from payd.cli.options import Operator, config_options, load_config, realm_options
from payd.cli.show import json_option, moment, show_json
from payd.cli.teaching import teach
from payd.clock import system_wall_ms
from payd.core.diagnosis import Kind, Received, diagnose

# As much as payd would ever send.
BODY_BYTES_MAX: Final = 1 << 20
# Events are far smaller, and a command to the server has 64 KiB.
ASK_BYTES_MAX: Final = 32 * 1024

EPILOG: Final = teach(
    """
payd webhook verify --secret "$SECRET" --id "$ID" --timestamp "$TIMESTAMP" \\
  --signature "$SIGNATURE" --body delivery.json
""",
    notes="With a delivery's headers in shell variables and its raw body in a file.",
    codes="it is not authentic; the message says why",
)


@click.command("verify", epilog=EPILOG)
@click.option("--secret", required=True, envvar="PAYD_WEBHOOK_SECRET", show_envvar=True, help="whsec_…")
@click.option("--id", "message_id", required=True, help="The webhook-id header.")
@click.option("--timestamp", required=True, help="The webhook-timestamp header.")
@click.option("--signature", required=True, help="The webhook-signature header.")
@click.option(
    "--body", required=True, type=click.File("rb"), metavar="FILE", help="The raw bytes; - reads them here."
)
@click.option("--at", metavar="TIME", help="When it was received: RFC 3339 or Unix seconds. Without: now.")
@click.option("--offline", is_flag=True, help="Do not ask the server or data directory that is here.")
@json_option
@realm_options
@config_options
def verify(
    secret: str,
    message_id: str,
    timestamp: str,
    signature: str,
    body: BinaryIO,
    at: str | None,
    offline: bool,
    as_json: bool,
    mode: str,
    account: str | None,
    config_file: str | None,
    data_dir: str | None,
) -> None:
    """Check a delivery as its receiver should, and say why it fails.

    The signature must fit the raw bytes, and the time be right. If not, the cause is looked for: a changed
    body, a clock, another secret. Where payd's data directory is, payd is asked which secret signed it, and
    when that was rotated: also when the delivery is authentic and has several signatures, as it has while an
    old secret signs along. Secrets are never printed.
    """
    received = Received(message_id, timestamp, signature, body.read(BODY_BYTES_MAX))
    found = diagnose([secret], received, _seconds(at))
    authentic = found.kind is Kind.AUTHENTIC
    kind, words, note = found.kind.value, found.words, None
    if found.kind is Kind.STALE_TIMESTAMP and at is None:
        words += " With --at, a recorded delivery is checked as of when it came."
    if not offline and _knows_more(found.kind, received):
        scope = {"mode": mode} if account is None else {"mode": mode, "account": account}
        known = _ask(
            lambda: Operator(load_config(config_file, data_dir), as_json, scope, config_file, data_dir),
            received,
            secret,
        )
        if known is not None and authentic:
            note = _farewell(*known)
        elif known is not None:
            kind, words = _explanation(*known)
    if as_json:
        show_json({"authentic": authentic, "kind": kind, "reason": note if authentic else words})
    if not authentic:
        raise Refused(words)
    if not as_json:
        click.echo("Authentic: the signature fits and the time is right.")
    if note is not None and not as_json:
        click.echo(note)


def _seconds(at: str | None) -> int:
    """Unix seconds of what was typed, or now."""
    if at is None:
        return system_wall_ms() // 1000
    if at.isascii() and at.isdecimal():
        return int(at)
    from payd.web.query import parse_instant_ms

    return parse_instant_ms(at, "--at") // 1000


def _knows_more(kind: Kind, received: Received) -> bool:
    """Whether a server may know what the delivery itself does not say."""
    if len(received.body) > ASK_BYTES_MAX:
        return False
    # Several signatures: an old secret signs along, and it may be this one.
    several = received.signature.count("v1,") > 1
    return kind is Kind.WRONG_SECRET or (kind is Kind.AUTHENTIC and several)


def _ask(
    operator: Callable[[], Operator], received: Received, secret: str
) -> tuple[dict[str, Any], Callable[[str], str]] | None:
    """What the server knows of a delivery, and how its commands are typed; None where there is none."""
    try:
        with told():
            asking = operator()
            explained = asking.ask(
                "webhook.explain",
                id=received.message_id,
                timestamp=received.timestamp,
                signature=received.signature,
                bodyB64=base64.b64encode(received.body).decode("ascii"),
                secretSha256=hashlib.sha256(secret.encode()).hexdigest(),
            )
    except (click.ClickException, UnicodeError):
        return None
    return explained, asking.pasted


def _farewell(explained: dict[str, Any], pasted: Callable[[str], str]) -> str | None:
    """What to know of a secret that fits, but not for much longer."""
    given = explained["given"]
    if given is None or given["standing"] != "previous":
        return None
    return (
        f"But your secret was rotated out on {_when(given['rotatedAt'])} and stops signing on"
        f" {_when(given['expiresAt'])}. `{pasted('webhook reveal')}` shows the current one."
    )


def _explanation(explained: dict[str, Any], pasted: Callable[[str], str]) -> tuple[str, str]:
    """Kind and words for what the server answered."""
    reveal = pasted("webhook reveal")
    given, match = explained["given"], explained["match"]
    if explained["bodyChanged"]:
        words = (
            f"payd sent this event with other bytes (delivery {explained['deliveryId']}): the body was"
            " changed after it was sent, most often parsed and written again. Verify the raw bytes, as they"
            " came."
        )
        if given is None:
            words += f" And the secret is not this endpoint's: `{reveal}` shows it."
        return Kind.CHANGED_BODY.value, words
    if explained["byListener"]:
        return "listener_secret", _listener_words(explained["hasEndpoint"], pasted)
    if given is not None and given["standing"] == "expired":
        words = (
            f"Your secret was rotated out on {_when(given['rotatedAt'])} and stopped signing on"
            f" {_when(given['expiresAt'])}. `{reveal}` shows the current one."
        )
        return "expired_secret", words
    if match == "current":
        words = (
            "This is signed with the endpoint's current secret, which is not the one you gave: it was made on"
            f" {_when(explained['createdAt'])}. `{reveal}` shows it."
        )
        return "other_secret", words
    if match is not None:
        until = _when(explained["expiresAt"])
        stop = "Keep both until it stops signing, on" if match == "previous" else "It stopped signing on"
        words = (
            "This is signed with a secret of the endpoint that was rotated out on"
            f" {_when(explained['rotatedAt'])}, not with the one you gave. {stop} {until}."
        )
        return "rotated_secret", words
    if given is not None:
        words = (
            "The secret is this endpoint's, but it did not sign this body with this id and timestamp. Take"
            " the three headers and the body of one and the same request."
        )
        return "mixed_delivery", words
    words = (
        "This server never sent that, with any secret that it has. Is it another account's or mode's"
        " (--account, --mode), another server's, or of an endpoint that was deleted?"
    )
    return "never_sent", words


def _listener_words(has_endpoint: bool, pasted: Callable[[str], str]) -> str:
    """How to get at the secret of a listener that had no endpoint's."""
    signed = "This is signed with `payd listen`'s own secret"
    if has_endpoint:
        return f"{signed}: it began before there was an endpoint. Start it again, and the endpoint's signs."
    return (
        f"{signed}, as there is no endpoint whose secret it could use."
        f" `{pasted('listen --print-secret')}` shows it."
    )


def _when(instant: str | None) -> str:
    return f"{moment(instant) or 'an unknown day'} UTC"
