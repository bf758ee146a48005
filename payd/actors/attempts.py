"""One attempt: sign frozen bytes with every valid secret, POST them, and say how it ended.

Source: SPEC.md, "Signature"; SPEC.md, "Delivery rules".
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from payd.clock import Clock
from payd.core.endpoint import Endpoint, Secret, valid_secrets
from payd.core.retry import read_retry_after_s
from payd.core.signature import sign
from payd.entropy import Entropy
from payd.net.addresses import Network, may_call
from payd.net.dial import dial_from
from payd.net.http import Client, Reply, Target, tls_context
from payd.store.attempts import AttemptEnd
from payd.store.db import Database
from payd.store.endpoints import secrets_of
from payd.store.seal import Seal

# Opened secrets and parsed URLs kept in memory; an endpoint has a handful of the one and one of the other.
KEPT_MAX: Final = 4096


class WebhookRules(msgspec.Struct, frozen=True):
    """What a realm's endpoints may be.

    Attributes:
        allow_http: Whether plain http is allowed.
        allow_networks: Networks that are open though they are not public.
        ca_file: Authorities beside the system's.
        bind: Source addresses, at most one of each family; empty: the system chooses.
    """

    allow_http: bool = False
    allow_networks: tuple[Network, ...] = ()
    ca_file: Path | None = None
    bind: tuple[str, ...] = ()

    def may_call(self, address: str) -> bool:
        """Whether a delivery may go to this address."""
        return may_call(address, self.allow_networks)


def webhook_client(rules: WebhookRules) -> Client:
    """The client that a realm's deliveries are sent with. Close it with `aclose`."""
    return Client(may_call=rules.may_call, tls=tls_context(rules.ca_file), dial=dial_from(rules.bind))


class Poster:
    """Makes attempts. Keeps nothing but what it has opened and parsed before."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        http: Client,
        seal: Seal,
        entropy: Entropy,
        rules: WebhookRules,
        user_agent: str,
        jitter: bool,
    ) -> None:
        self._db = db
        self._clock = clock
        self._http = http
        self._seal = seal
        self._entropy = entropy
        self._rules = rules
        self._user_agent = user_agent
        self._jitter = jitter
        self._opened: dict[bytes, str] = {}
        self._targets: dict[str, Target] = {}

    async def post(self, endpoint: Endpoint, message_id: str, body: bytes, trigger: str) -> AttemptEnd:
        """One attempt. A refusal or a dead network is an end like any other.

        Args:
            endpoint: Where to, as stored now.
            message_id: The `webhook-id`, the same in every attempt.
            body: The frozen bytes.
            trigger: auto, manual, replay or test.

        Raises:
            SealBroken: The endpoint's secret was sealed with another key.
        """
        started_ms = self._clock.now_ms()
        timestamp_s = self._clock.real_ms() // 1000
        target = self._target(endpoint.url)
        if target.scheme == "http" and not self._rules.allow_http:
            return AttemptEnd(trigger, started_ms, started_ms, None, "blocked_address", 0, None, b"")
        headers = (
            ("content-type", "application/json"),
            ("user-agent", self._user_agent),
            ("webhook-id", message_id),
            ("webhook-timestamp", str(timestamp_s)),
            (
                "webhook-signature",
                sign(self._secrets(endpoint.id, started_ms), message_id, timestamp_s, body),
            ),
        )
        reply = await self._http.send("POST", target, headers, body)
        return AttemptEnd(
            trigger=trigger,
            at_ms=started_ms,
            ended_at_ms=self._clock.now_ms(),
            status=reply.status,
            error_class=verdict(reply),
            duration_ms=reply.duration_ms,
            remote_ip=reply.remote_ip,
            body=reply.body,
            retry_after_s=self._retry_after_s(reply),
            jitter=int.from_bytes(self._entropy(4), "big") / 2**32 if self._jitter else 0.0,
        )

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

    def _secrets(self, endpoint_id: str, now_ms: int) -> list[str]:
        rows = self._db.point(secrets_of, endpoint_id)
        # Only what is valid is opened: the times alone decide that.
        valid = valid_secrets(
            (Secret(row.sealed.hex(), row.created_at_ms, row.expires_at_ms) for row in rows), now_ms
        )
        return [self.open_secret(bytes.fromhex(one.value), endpoint_id) for one in valid]

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
