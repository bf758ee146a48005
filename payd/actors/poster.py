"""The sending of an attempt: sign frozen bytes with every valid secret, POST them, and say how it ended.

Source: SPEC.md, "Signature"; SPEC.md, "Delivery rules".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from payd.actors.webhook_stats import WebhookStats
from payd.clock import Clock
from payd.core.endpoint import Endpoint, Secret, valid_secrets
from payd.core.errors import SealBroken
from payd.core.fault import ACCEPTED, FORGED, STALE_BY_S, WORDS, FaultKind
from payd.core.retry import read_date_s, read_retry_after_s
from payd.core.signature import SECRET_BYTES, make_secret, sign
from payd.entropy import Entropy
from payd.net.addresses import Network, may_call
from payd.net.dial import dial_from
from payd.net.http import Client, Reply, Target, tls_context
from payd.net.proxy import Proxy
from payd.store.attempts import HEADERS_BYTES_MAX, AttemptEnd, Trigger
from payd.store.endpoints import SealedSecret
from payd.store.seal import Seal

# Opened secrets and parsed URLs kept in memory; an endpoint has a handful of the one and one of the other.
KEPT_MAX: Final = 4096
# Notices are rare, and a canary is to prove the whole way: no connection is kept for them.
ONCE: Final = (("connection", "close"),)
# A clock does not drift faster than this needs to know.
COMPARE_EVERY_S: Final = 60.0


class WebhookRules(msgspec.Struct, frozen=True):
    """What a realm's endpoints may be, and where requests to them come from.

    Attributes:
        allow_http: Whether plain http is allowed.
        allow_networks: Networks that are open though they are not public.
        ca_file: Authorities beside the system's.
        bind: Source addresses, at most one of each family; empty: the system chooses.
        proxy: Through which every request goes.
    """

    allow_http: bool = False
    allow_networks: tuple[Network, ...] = ()
    ca_file: Path | None = None
    bind: tuple[str, ...] = ()
    proxy: Proxy | None = None

    def may_call(self, address: str) -> bool:
        """Whether a delivery may go to this address."""
        return may_call(address, self.allow_networks)


def webhook_client(rules: WebhookRules) -> Client:
    """The client that a realm's deliveries are sent with. Close it with `aclose`."""
    return Client(
        may_call=rules.may_call,
        tls=tls_context(rules.ca_file),
        dial=dial_from(rules.bind),
        proxy=rules.proxy,
    )


def house_client() -> Client:
    """The client for the house's own endpoints, whose addresses are the operator's word; close it, too."""
    return Client(may_call=lambda address: True)


class Poster:
    """Makes the requests of one realm. Keeps nothing but what it has opened and parsed before.

    Args:
        clock: The realm's clock.
        seal: Opens the endpoints' secrets.
        entropy: For jitter.
        rules: What endpoints may be.
        user_agent: The header's value.
        http: Such as `webhook_client` makes.
        house_http: Such as `house_client` makes.
        jitter: Whether retries and starts are spread; without it the schedule is exact.

    Attributes:
        http: See above.
        house_http: See above.
        rules: See above.
        stats: What was done since the start.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        seal: Seal,
        entropy: Entropy,
        rules: WebhookRules,
        user_agent: str,
        http: Client,
        house_http: Client,
        jitter: bool,
    ) -> None:
        self.http = http
        self.house_http = house_http
        self.rules = rules
        self.stats = WebhookStats()
        self._clock = clock
        self._seal = seal
        self._entropy = entropy
        self._user_agent = user_agent
        self._jitter = jitter
        self._opened: dict[bytes, str] = {}
        self._targets: dict[str, Target] = {}
        self._compared_s: dict[str, float] = {}

    async def post(
        self,
        endpoint: Endpoint,
        secrets: Sequence[SealedSecret],
        message_id: str,
        body: bytes,
        trigger: Trigger,
        fault: FaultKind | None = None,
    ) -> AttemptEnd:
        """One attempt. A refusal or a dead network is an end like any other.

        A forgery that a receiver takes is a failure: what it takes of anybody, it was not told by us.

        Args:
            endpoint: Where to, as stored now.
            secrets: All of the endpoint's, as stored now, run out or not.
            message_id: The `webhook-id`, the same in every attempt.
            body: The frozen bytes.
            trigger: auto, manual, replay or test.
            fault: What is done to it on purpose.

        Raises:
            SealBroken: The endpoint's current secret was sealed with another key.
        """
        started_ms = self._clock.now_ms()
        target = self._target(endpoint.url)
        if target.scheme == "http" and not (self.rules.allow_http or endpoint.is_house):
            words = "Plain http is not allowed in this mode."
            return AttemptEnd(trigger, started_ms, started_ms, None, "blocked_address", 0, None, b"", words)
        # Only what is valid is opened: the times alone decide that.
        opened = [one.value for one in self.open_all(valid_secrets(secrets, started_ms), endpoint.id)]
        headers = (
            ("content-type", "application/json"),
            ("user-agent", self._user_agent),
            ("webhook-id", message_id),
            *self._signature(opened, message_id, body, fault),
            *(ONCE if endpoint.is_house else self._added(endpoint)),
        )
        http = self.house_http if endpoint.is_house else self.http
        started_s = trio.current_time()
        reply = await http.send("POST", target, headers, body)
        error_class = verdict(reply)
        if error_class is None and fault in FORGED:
            error_class = ACCEPTED
        self._compare_clocks(endpoint, reply)
        return AttemptEnd(
            trigger=trigger,
            at_ms=started_ms,
            ended_at_ms=self._clock.now_ms(),
            status=reply.status,
            error_class=error_class,
            duration_ms=reply.duration_ms,
            remote_ip=reply.remote_ip,
            body=reply.body,
            error=_said(fault, "" if error_class is None else reply.detail),
            headers=_header_lines(reply),
            is_whole=reply.is_whole or reply.status is None,
            dns_ms=reply.timing.dns_ms,
            connect_ms=reply.timing.connect_ms,
            tls_ms=reply.timing.tls_ms,
            total_ms=round((trio.current_time() - started_s) * 1000),
            retry_after_s=None if error_class is None else self._retry_after_s(reply),
            jitter=0.0 if error_class is None else self.draw_jitter(),
            fault=fault,
        )

    def _signature(
        self, secrets: Sequence[str], message_id: str, body: bytes, fault: FaultKind | None
    ) -> tuple[tuple[str, str], ...]:
        """The headers that say when and by whom; forged where that is wanted."""
        timestamp_s = self._clock.real_ms() // 1000
        match fault:
            case "stale_timestamp":
                timestamp_s -= STALE_BY_S
            case "wrong_secret":
                secrets = [make_secret(self._entropy(SECRET_BYTES))]
            case "bad_signature":
                body += b" "
        signature = sign(secrets, message_id, timestamp_s, body)
        return ("webhook-timestamp", str(timestamp_s)), ("webhook-signature", signature)

    def open_all(self, secrets: Iterable[SealedSecret], endpoint_id: str) -> list[Secret]:
        """An endpoint's secrets, in the same order, but for those rotated out that cannot be opened.

        After a restore without the seal key a secret is rotated because it cannot.

        Raises:
            SealBroken: The current one was sealed with another key.
        """
        opened: list[Secret] = []
        for one in secrets:
            try:
                value = self.open_secret(one.sealed, endpoint_id)
            except SealBroken:
                if one.expires_at_ms is None:
                    raise
            else:
                opened.append(Secret(value, one.created_at_ms, one.expires_at_ms))
        return opened

    def open_secret(self, sealed: bytes, endpoint_id: str) -> str:
        """The `whsec_…` in a stored secret.

        Raises:
            SealBroken: It was sealed with another key.
        """
        secret = self._opened.get(sealed)
        if secret is None:
            if len(self._opened) >= KEPT_MAX:
                self._opened.clear()
            secret = self._opened[sealed] = self._seal.open(sealed, endpoint_id).decode("ascii")
        return secret

    def draw_jitter(self) -> float:
        """How much of a largest jitter to add, from 0 to 1; always 0 without jitter."""
        return int.from_bytes(self._entropy(4), "big") / 2**32 if self._jitter else 0.0

    def _added(self, endpoint: Endpoint) -> Iterable[tuple[str, str]]:
        """The headers that the merchant added."""
        if endpoint.headers is None:
            return ()
        headers: dict[str, str] = msgspec.json.decode(self.open_secret(endpoint.headers, endpoint.id))
        return headers.items()

    def _compare_clocks(self, endpoint: Endpoint, reply: Reply) -> None:
        """Once a minute for each endpoint: what its `Date` says against our clock."""
        now_s, key = self._clock.real_ms() / 1000, endpoint.id
        if reply.status is None or now_s - self._compared_s.get(key, 0) < COMPARE_EVERY_S:
            return
        if len(self._compared_s) >= KEPT_MAX:
            self._compared_s.clear()
        self._compared_s[key] = now_s
        said_s = read_date_s(reply.header("date"))
        if said_s is not None:
            self.stats.clock_skew(key, now_s - said_s)

    def _target(self, url: str) -> Target:
        target = self._targets.get(url)
        if target is None:
            if len(self._targets) >= KEPT_MAX:
                self._targets.clear()
            target = self._targets[url] = Target.of(url)
        return target

    def _retry_after_s(self, reply: Reply) -> int | None:
        if reply.status is None:
            return None
        return read_retry_after_s(reply.status, reply.header("retry-after"), self._clock.real_ms() // 1000)


def verdict(reply: Reply) -> str | None:
    """None for a success, else the class of the failure. Only a 2xx is one; redirects are not followed."""
    if reply.status is None or 200 <= reply.status <= 299:
        return reply.error_class
    return "redirect" if 300 <= reply.status <= 399 else "http_status"


def _said(fault: FaultKind | None, detail: str) -> str:
    """What happened, with what was done on purpose before it."""
    return detail if fault is None else " ".join(filter(None, (WORDS[fault], detail)))


def _header_lines(reply: Reply) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in reply.headers)
    return lines if len(lines) <= HEADERS_BYTES_MAX else lines[:HEADERS_BYTES_MAX].rpartition(b"\r\n")[0]
