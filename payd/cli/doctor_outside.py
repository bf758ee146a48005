"""What `payd doctor` finds on the way to payd from outside, and on the way from payd to its webhooks' hosts.

It asks from this machine; every question has a deadline, and no webhook is sent.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import trio

from payd.actors.poster import WebhookRules
from payd.cli.finding import Finding, Level
from payd.config import Config
from payd.core.advice import advice, words_for
from payd.core.errors import InvalidParams
from payd.net.http import Client, Greeting, Reply, Target
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin
from payd.web.command import Mode

DEADLINE_S: Final = 8.0
ALL_HOSTS_S: Final = 30.0  # a person waits
AT_ONCE_MAX: Final = 32  # threads for names, and sockets
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
# What renews certificates does it with a third of their time left; with a sixth left it did not.
LATE: Final = 6

_PUBLIC_TODO: Final = {
    "dns_error": "Have its name lead to this machine, or correct base_url.",
    "connection_refused": "Start the proxy, and have it listen on this port.",
    "tls_error": "Give the proxy a certificate for this name, with its chain, and have it renewed in time.",
}
_UNREACHED_TODO: Final = "Look at the firewall, the proxy, and where the name leads."


class _Alive(msgspec.Struct):
    """What `GET /livez` answers."""

    status: str


async def examine_public_url(config: Config, client: Client, now_ms: int) -> list[Finding]:
    """Whether base_url leads here: its name, the certificate and how long it holds, and who answers.

    Nothing is said of a house that is reached on its own machine alone.

    Args:
        config: Whose `base_url`.
        client: May call every address.
        now_ms: Unix milliseconds.
    """
    try:
        target = Target.of(f"{config.public_url()}/livez")
    except InvalidParams:
        return []  # of `listen`, with port 0 or a host that is none: serve has the words for it
    if _is_here(target.host):
        return []
    # Without chains there is no money: what buyers cannot reach is a shop that is not open yet.
    bad: Level = "error" if config.chains else "warning"
    greeting = await client.greet(target, deadline_s=DEADLINE_S)
    if greeting.error_class is not None:
        words = f"{target.authority} cannot be reached from this machine: {_said(greeting)}"
        todo = _PUBLIC_TODO.get(greeting.error_class, _UNREACHED_TODO)
        return [Finding(bad, "public address", words, todo)]
    found = list(_examine_certificate("public address", target, greeting, now_ms))
    reply = await client.send("GET", target, (), deadline_s=DEADLINE_S)
    return [*found, _examine_answer(config, reply, target, bad)]


async def origins_of(config: Config, mode: Mode) -> list[str]:
    """Scheme, host and port of each endpoint that the running server sends to; none where none runs."""
    try:
        reply = await call_admin(config.data_dir / SOCKET_NAME, "webhook.origins", {"mode": mode})
    except (NoServer, NoAnswer):
        return []  # which is a finding of the server's own
    # A server without that mode, or of an earlier version, has no such answer.
    return [] if reply.error is not None else msgspec.convert(reply.result, list[str])


async def examine_origins(
    origins: Sequence[str], mode: Mode, rules: WebhookRules, client: Client, now_ms: int
) -> list[Finding]:
    """Whether webhooks get as far as each host: its name, addresses that may be called, and TLS.

    Nothing is said of test mode on this machine, where a shop runs while somebody works on it.

    Args:
        origins: Scheme, host and port of each.
        mode: Whose endpoints.
        rules: What these may be.
        client: Such as deliveries of that mode are sent with.
        now_ms: Unix milliseconds.
    """
    targets = [target for target in map(Target.of, origins) if mode == "live" or not _is_here(target.host)]
    bad: Level = "error" if mode == "live" else "warning"
    found: dict[Target, list[Finding]] = {}
    asking = trio.CapacityLimiter(AT_ONCE_MAX)

    async def examine(target: Target) -> None:
        async with asking:
            found[target] = await _examine_host(target, bad, rules, client, now_ms)

    with trio.move_on_after(ALL_HOSTS_S):
        async with trio.open_nursery() as nursery:
            for target in targets:
                nursery.start_soon(examine, target)
    findings = [one for target in targets for one in found.get(target, ())]
    if left := len(targets) - len(found):
        words = f"no time was left to look at {left} of {len(targets)} hosts of {mode} mode"
        findings.append(Finding("warning", "webhooks", words, "Run this again; is the network slow?"))
    return findings


async def _examine_host(
    target: Target, bad: Level, rules: WebhookRules, client: Client, now_ms: int
) -> list[Finding]:
    subject = f"webhooks to {target.authority}"
    if target.scheme == "http" and not rules.allow_http:
        words = "its URL is plain http, which is not allowed in this mode"
        return [Finding(bad, subject, words, "Give the endpoint an https:// URL.")]
    greeting = await client.greet(target, deadline_s=DEADLINE_S)
    if greeting.error_class is not None:
        words = f"the host cannot be reached: {_said(greeting)}"
        return [Finding(bad, subject, words, advice(None, greeting.error_class) or "")]
    reached = Finding("ok", subject, f"the host is reached at {greeting.remote_ip}")
    return [reached, *_examine_certificate(subject, target, greeting, now_ms)]


def _examine_certificate(subject: str, target: Target, greeting: Greeting, now_ms: int) -> Iterator[Finding]:
    """How long a certificate still holds; one that ran out makes no connection."""
    if greeting.certificate is None:
        return
    begins_s, ends_s = greeting.certificate
    left_s = ends_s - now_ms // 1000
    words = f"the certificate of {target.authority} holds for {_span(left_s)}"
    if left_s < (ends_s - begins_s) / LATE:
        yield Finding("warning", subject, words, "Renew it, and see why that was not done before.")
    else:
        yield Finding("ok", subject, words)


def _span(span_s: int) -> str:
    days = span_s // DAY_S
    return f"{days} days" if days > 1 else f"{span_s // HOUR_S} hours"


def _examine_answer(config: Config, reply: Reply, target: Target, bad: Level) -> Finding:
    """Whether it is a payd that answers."""
    subject = "public address"
    if reply.status is None:
        words = f"{target.authority} gives no answer: {words_for(reply.error_class or '')}"
        return Finding(bad, subject, words, _UNREACHED_TODO)
    if reply.status in (502, 503, 504):
        words = f"something answers at {target.authority} with {reply.status}, and payd does not"
        return Finding(bad, subject, words, f"Start payd, and have the proxy lead to {config.listen}.")
    if reply.status != 200 or not _is_payd(reply):
        words = f"what answers at {target.authority} is no payd: {reply.status} to GET {target.path}"
        todo = f"Have the proxy lead all paths of this name to {config.listen}, or correct base_url."
        return Finding(bad, subject, words, todo)
    return Finding("ok", subject, f"a payd answers at {target.authority}, {reply.remote_ip}")


def _is_payd(reply: Reply) -> bool:
    """Whether an answer to `GET /livez` has payd's marks."""
    try:
        msgspec.json.decode(reply.body, type=_Alive)
    except msgspec.DecodeError:
        return False
    return (reply.header("request-id") or "").startswith("req_")


def _said(greeting: Greeting) -> str:
    words = words_for(greeting.error_class or "")
    return f"{words} ({greeting.detail})" if greeting.detail else words


def _is_here(host: str) -> bool:
    """Whether a name or address is of this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
