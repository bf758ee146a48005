"""Webhook endpoints and their sealed signing secrets."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from payd.core import endpoint as rules
from payd.core.endpoint import Endpoint, EndpointState, Secret
from payd.core.errors import EndpointDisabled, NotFound
from payd.core.signature import make_secret
from payd.store.audit import insert_audit
from payd.store.seal import Seal

Tx: TypeAlias = sqlite3.Connection
Act: TypeAlias = Literal["enable", "pause", "resume", "disable"]
Headers: TypeAlias = tuple[Callable[[str], bytes], tuple[str, ...]]

# A disabled or deleted endpoint may owe very much: a step cancels this many, the next one the next.
CANCEL_BATCH_MAX: Final = 500

_COLUMNS: Final = (
    "id",
    "account_id",
    "url",
    "events",
    "state",
    "failing_since_ms",
    "last_failure_at_ms",
    "last_success_at_ms",
    "created_at_ms",
    "headers",
    "header_names",
    "off_since_ms",
    "warnings",
)


def columns_of(table: str = "endpoints") -> str:
    """What a query names, in the order that `endpoint_of_row` takes, of this table or alias."""
    return ", ".join(f"{table}.{column}" for column in _COLUMNS)


_ENDPOINT: Final = f"SELECT {columns_of()} FROM endpoints"


class SealedSecret(NamedTuple):
    """A stored signing secret; `expires_at_ms` is None for the current one."""

    sealed: bytes
    created_at_ms: int
    expires_at_ms: int | None


def find_endpoint(tx: Tx, account_id: str) -> Endpoint | None:
    """The account's endpoint, on, paused or disabled."""
    row = tx.execute(f"{_ENDPOINT} WHERE account_id = ? AND state <> 'deleted'", (account_id,)).fetchone()
    return None if row is None else endpoint_of_row(row)


def get_endpoint(tx: Tx, account_id: str) -> Endpoint:
    """As `find_endpoint`.

    Raises:
        NotFound: The account has none.
    """
    endpoint = find_endpoint(tx, account_id)
    if endpoint is None:
        raise NotFound("There is no webhook endpoint; PUT /v1/webhooks/endpoint registers one.")
    return endpoint


def enabled_urls(tx: Tx, limit: int) -> list[str]:
    """Where webhooks of merchants go, oldest endpoint first; none of the house's own."""
    found = tx.execute(
        "SELECT url FROM endpoints WHERE state = 'enabled' AND id NOT IN (?, ?) ORDER BY rowid LIMIT ?",
        (rules.NOTIFY, rules.CANARY, limit),
    )
    return [url for (url,) in found]


def endpoint_of_id(tx: Tx, endpoint_id: str) -> Endpoint | None:
    """Any endpoint, a deleted one too."""
    row = tx.execute(f"{_ENDPOINT} WHERE id = ?", (endpoint_id,)).fetchone()
    return None if row is None else endpoint_of_row(row)


class EndpointCounts(NamedTuple):
    """How many accounts' endpoints there are in each state, and how long the longest failing has failed."""

    by_state: dict[str, int]
    failing_ms: int


def count_endpoints(tx: Tx, now_ms: int) -> EndpointCounts:
    """Of all accounts; one row is read for each endpoint, those of the house and deleted ones aside."""
    rows = tx.execute(
        "SELECT state, count(*), min(CASE WHEN state <> 'disabled' THEN failing_since_ms END) FROM endpoints"
        " WHERE state <> 'deleted' AND account_id <> id GROUP BY state"
    ).fetchall()
    since = [since_ms for _, _, since_ms in rows if since_ms is not None]
    by_state = {state.value: 0 for state in EndpointState if state is not EndpointState.DELETED}
    by_state |= {state: count for state, count, _ in rows}
    return EndpointCounts(by_state, now_ms - min(since, default=now_ms))


def secrets_of(tx: Tx, endpoint_id: str) -> list[SealedSecret]:
    """Every stored secret of an endpoint, expired ones too."""
    rows = tx.execute(
        "SELECT sealed, created_at_ms, expires_at_ms FROM endpoint_secrets WHERE endpoint_id = ?",
        (endpoint_id,),
    )
    return [SealedSecret(*row) for row in rows]


def listen_secret(seal: Seal, account_id: str) -> str:
    """What `payd listen` signs with for an account without an endpoint: the same for one seal key."""
    return make_secret(seal.derive(f"listen:{account_id}"))


def put_endpoint(
    tx: Tx,
    *,
    account_id: str,
    url: str,
    events: tuple[str, ...],
    fresh_id: str,
    sealed: bytes,
    now_ms: int,
    actor: str,
    headers: Headers | None = None,
) -> tuple[Endpoint, bool]:
    """Change the account's endpoint, or register one.

    Args:
        tx: The step's transaction.
        account_id: Whose.
        url: A checked URL; pending deliveries go there from now on.
        events: The types it wants.
        fresh_id: The id of a new endpoint.
        sealed: A new endpoint's secret, sealed for `fresh_id`; unused when there is an endpoint.
        now_ms: The realm's time.
        actor: For the audit.
        headers: Seals the headers to add for an endpoint's id, and their names; None leaves them as they are.

    Returns:
        The endpoint, and whether it is new.
    """
    before = find_endpoint(tx, account_id)
    if before is None:
        endpoint = _with_headers(
            Endpoint(fresh_id, account_id, url, events, EndpointState.ENABLED, None, None, None, now_ms),
            headers,
        )
        _insert_endpoint(tx, endpoint, sealed)
        _audit(tx, endpoint, "endpoint.register", now_ms, actor, {"url": url})
        return endpoint, True
    after = _with_headers(rules.move(before, url, events), headers)
    save_endpoint(tx, after, now_ms)
    if url != before.url:
        _audit(tx, after, "endpoint.url", now_ms, actor, {"before": before.url, "after": url})
    if events != before.events:
        _audit(tx, after, "endpoint.events", now_ms, actor, {"events": " ".join(events)})
    if after.headers != before.headers:
        _audit(tx, after, "endpoint.headers", now_ms, actor, {"names": " ".join(after.header_names)})
    return after, False


def put_house_endpoint(tx: Tx, endpoint_id: str, url: str | None, sealed: bytes, now_ms: int) -> None:
    """Point one of the house's own endpoints to where it goes now; without a URL it is off."""
    state = EndpointState.DISABLED if url is None else EndpointState.ENABLED
    before = endpoint_of_id(tx, endpoint_id)
    if before is None:
        if url is not None:
            endpoint = Endpoint(endpoint_id, endpoint_id, url, ("house",), state, None, None, None, now_ms)
            _insert_endpoint(tx, endpoint, sealed)
        return
    save_endpoint(tx, msgspec.structs.replace(before, url=url or before.url, state=state), now_ms)
    tx.execute("UPDATE endpoint_secrets SET sealed = ? WHERE endpoint_id = ?", (sealed, endpoint_id))


def save_endpoint(tx: Tx, endpoint: Endpoint, now_ms: int) -> None:
    """Store every field of an endpoint that may change."""
    tx.execute(
        "UPDATE endpoints SET url = ?, events = ?, state = ?, failing_since_ms = ?, last_failure_at_ms = ?,"
        " last_success_at_ms = ?, headers = ?, header_names = ?, off_since_ms = ?, warnings = ?,"
        " updated_at_ms = ? WHERE id = ?",
        (
            endpoint.url,
            " ".join(endpoint.events),
            endpoint.state.value,
            endpoint.failing_since_ms,
            endpoint.last_failure_at_ms,
            endpoint.last_success_at_ms,
            endpoint.headers,
            " ".join(endpoint.header_names),
            endpoint.off_since_ms,
            endpoint.warnings,
            now_ms,
            endpoint.id,
        ),
    )


def rotate_secret(
    tx: Tx, *, endpoint_id: str, account_id: str, sealed: bytes, now_ms: int, actor: str
) -> Endpoint:
    """Give the endpoint a new secret; those before it sign along for `core.endpoint.SECRET_OVERLAP_MS`.

    Raises:
        NotFound: The endpoint was deleted or replaced meanwhile.
        InvalidState: Too many secrets are valid at once.
    """
    endpoint = get_endpoint(tx, account_id)
    if endpoint.id != endpoint_id:
        raise NotFound("The webhook endpoint was replaced meanwhile; ask again.")
    rows = tx.execute(
        "SELECT seq, created_at_ms, expires_at_ms FROM endpoint_secrets WHERE endpoint_id = ?", (endpoint_id,)
    )
    # The rules need no secret, only its times: a row number stands in for the text that is sealed here.
    kept = rules.rotate([Secret(str(seq), made, ends) for seq, made, ends in rows], "", now_ms)[1:]
    marks = ",".join("?" * len(kept))
    tx.execute(
        f"DELETE FROM endpoint_secrets WHERE endpoint_id = ? AND seq NOT IN ({marks})",
        (endpoint_id, *(int(one.value) for one in kept)),
    )
    tx.executemany(
        "UPDATE endpoint_secrets SET expires_at_ms = ? WHERE seq = ?",
        [(one.expires_at_ms, int(one.value)) for one in kept],
    )
    _insert_secret(tx, endpoint_id, sealed, now_ms)
    _audit(tx, endpoint, "endpoint.rotate", now_ms, actor)
    return endpoint


def reveal_secret(tx: Tx, *, account_id: str, seal: Seal, now_ms: int, actor: str) -> tuple[Endpoint, str]:
    """The endpoint and its current secret; that it was shown is audited.

    Raises:
        NotFound: The account has no endpoint.
        SealBroken: The secret was sealed with another key: it is shown to nobody.
    """
    endpoint = get_endpoint(tx, account_id)
    (sealed,) = tx.execute(
        "SELECT sealed FROM endpoint_secrets WHERE endpoint_id = ? AND expires_at_ms IS NULL", (endpoint.id,)
    ).fetchone()
    secret = seal.open(sealed, endpoint.id).decode("ascii")
    _audit(tx, endpoint, "endpoint.reveal", now_ms, actor)
    return endpoint, secret


def switch_endpoint(tx: Tx, *, account_id: str, act: Act, now_ms: int, actor: str) -> Endpoint:
    """Enable, pause, resume or disable the endpoint. What it is owed is cancelled when it is disabled.

    Raises:
        NotFound: The account has no endpoint.
        EndpointDisabled: It is disabled, and cannot be paused or resumed.
    """
    before = get_endpoint(tx, account_id)
    if act == "resume" and before.state is EndpointState.DISABLED:
        raise EndpointDisabled("The webhook endpoint is disabled; POST /v1/webhooks/endpoint/enable first.")
    after = {
        "enable": lambda: rules.enable(before),
        "resume": lambda: rules.enable(before),
        "pause": lambda: rules.pause(before, now_ms),
        "disable": lambda: rules.disable(before, now_ms),
    }[act]()
    if after.state is not before.state:
        save_endpoint(tx, after, now_ms)
        _audit(tx, after, f"endpoint.{act}", now_ms, actor)
    if act == "disable":
        cancel_pending(tx, after)
    return after


def delete_endpoint(tx: Tx, *, account_id: str, now_ms: int, actor: str) -> Endpoint:
    """Delete the endpoint: nothing is sent any more, the secrets are gone, the log stays.

    Raises:
        NotFound: The account has no endpoint.

    Source: SPEC.md, "Delivery rules".
    """
    before = get_endpoint(tx, account_id)
    # The values of added headers may be the receiver's secrets.
    endpoint = msgspec.structs.replace(before, state=EndpointState.DELETED, headers=None)
    save_endpoint(tx, endpoint, now_ms)
    tx.execute("DELETE FROM endpoint_secrets WHERE endpoint_id = ?", (endpoint.id,))
    cancel_pending(tx, endpoint)
    _audit(tx, endpoint, "endpoint.delete", now_ms, actor)
    return endpoint


def cancel_pending(tx: Tx, endpoint: Endpoint) -> int:
    """Cancel what an endpoint that is not enabled is owed, and the jobs that would owe it more.

    Returns:
        How many deliveries, at most `CANCEL_BATCH_MAX`: call again until it is less.
    """
    assert endpoint.state in (EndpointState.DISABLED, EndpointState.DELETED)
    tx.execute(
        "UPDATE webhook_jobs SET state = 'cancelled' WHERE endpoint_id = ? AND state = 'running'",
        (endpoint.id,),
    )
    return tx.execute(
        "UPDATE deliveries SET state = 'cancelled', reason = ?, next_at_ms = NULL WHERE seq IN"
        " (SELECT seq FROM deliveries WHERE endpoint_id = ? AND state = 'pending' LIMIT ?)",
        (f"endpoint_{endpoint.state.value}", endpoint.id, CANCEL_BATCH_MAX),
    ).rowcount


def sweep_endpoint(tx: Tx, endpoint_id: str) -> bool:
    """Go on cancelling what a disabled or deleted endpoint is owed. Returns whether there is more."""
    endpoint = endpoint_of_id(tx, endpoint_id)
    if endpoint is None or endpoint.state not in (EndpointState.DISABLED, EndpointState.DELETED):
        return False
    return cancel_pending(tx, endpoint) == CANCEL_BATCH_MAX


def _insert_endpoint(tx: Tx, endpoint: Endpoint, sealed: bytes) -> None:
    tx.execute(
        "INSERT INTO endpoints (id, account_id, url, events, state, created_at_ms, updated_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            endpoint.id,
            endpoint.account_id,
            endpoint.url,
            " ".join(endpoint.events),
            endpoint.state.value,
            endpoint.created_at_ms,
            endpoint.created_at_ms,
        ),
    )
    save_endpoint(tx, endpoint, endpoint.created_at_ms)
    _insert_secret(tx, endpoint.id, sealed, endpoint.created_at_ms)


def _with_headers(endpoint: Endpoint, headers: Headers | None) -> Endpoint:
    if headers is None:
        return endpoint
    seal, names = headers
    return msgspec.structs.replace(endpoint, headers=seal(endpoint.id) if names else None, header_names=names)


def _insert_secret(tx: Tx, endpoint_id: str, sealed: bytes, now_ms: int) -> None:
    tx.execute(
        "INSERT INTO endpoint_secrets (endpoint_id, sealed, created_at_ms) VALUES (?, ?, ?)",
        (endpoint_id, sealed, now_ms),
    )


def _audit(
    tx: Tx, endpoint: Endpoint, act: str, now_ms: int, actor: str, details: dict[str, str] | None = None
) -> None:
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=endpoint.account_id,
        actor=actor,
        act=act,
        subject=endpoint.id,
        details=details,
    )


def endpoint_of_row(row: Sequence[Any]) -> Endpoint:
    """The endpoint in a row of `columns_of`."""
    fields = list(row)
    fields[3] = tuple(row[3].split(" "))
    fields[4] = EndpointState(row[4])
    fields[10] = tuple(row[10].split())
    return Endpoint(*fields)
