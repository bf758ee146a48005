"""Webhook endpoints and their sealed signing secrets."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple, TypeAlias

import msgspec

from payd.core import endpoint as rules
from payd.core.endpoint import Endpoint, EndpointState, Secret
from payd.core.errors import NotFound
from payd.store.audit import insert_audit

Tx: TypeAlias = sqlite3.Connection

# A disabled or deleted endpoint may owe very much: a step cancels this many, the next one the next.
CANCEL_BATCH_MAX: Final = 500

_COLUMNS: Final = (
    "id, account_id, url, events, state, failing_since_ms, last_failure_at_ms, last_success_at_ms,"
    " created_at_ms"
)


class SealedSecret(NamedTuple):
    """A stored signing secret; `expires_at_ms` is None for the current one."""

    sealed: bytes
    created_at_ms: int
    expires_at_ms: int | None


def find_endpoint(tx: Tx, account_id: str) -> Endpoint | None:
    """The account's endpoint, enabled or disabled."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM endpoints WHERE account_id = ? AND state <> 'deleted'", (account_id,)
    ).fetchone()
    return None if row is None else _endpoint(row)


def get_endpoint(tx: Tx, account_id: str) -> Endpoint:
    """As `find_endpoint`.

    Raises:
        NotFound: The account has none.
    """
    endpoint = find_endpoint(tx, account_id)
    if endpoint is None:
        raise NotFound("There is no webhook endpoint; PUT /v1/webhooks/endpoint registers one.")
    return endpoint


def endpoint_of_id(tx: Tx, endpoint_id: str) -> Endpoint | None:
    """Any endpoint, a deleted one too."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM endpoints WHERE id = ?", (endpoint_id,)).fetchone()
    return None if row is None else _endpoint(row)


def secrets_of(tx: Tx, endpoint_id: str) -> list[SealedSecret]:
    """Every stored secret of an endpoint, expired ones too."""
    rows = tx.execute(
        "SELECT sealed, created_at_ms, expires_at_ms FROM endpoint_secrets WHERE endpoint_id = ?",
        (endpoint_id,),
    )
    return [SealedSecret(*row) for row in rows]


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

    Returns:
        The endpoint, and whether it is new.
    """
    before = find_endpoint(tx, account_id)
    if before is not None:
        after = msgspec.structs.replace(before, url=url, events=events)
        save_endpoint(tx, after, now_ms)
        if url != before.url:
            details = {"before": before.url, "after": url}
            _audit(tx, after, "endpoint.url", now_ms, actor, details)
        return after, False
    endpoint = Endpoint(fresh_id, account_id, url, events, EndpointState.ENABLED, None, None, None, now_ms)
    tx.execute(
        f"INSERT INTO endpoints ({_COLUMNS}, updated_at_ms) VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL, ?, ?)",
        (fresh_id, account_id, url, " ".join(events), endpoint.state.value, now_ms, now_ms),
    )
    _insert_secret(tx, fresh_id, sealed, now_ms)
    _audit(tx, endpoint, "endpoint.register", now_ms, actor, {"url": url})
    return endpoint, True


def save_endpoint(tx: Tx, endpoint: Endpoint, now_ms: int) -> None:
    """Store every field of an endpoint that may change."""
    tx.execute(
        "UPDATE endpoints SET url = ?, events = ?, state = ?, failing_since_ms = ?, last_failure_at_ms = ?,"
        " last_success_at_ms = ?, updated_at_ms = ? WHERE id = ?",
        (
            endpoint.url,
            " ".join(endpoint.events),
            endpoint.state.value,
            endpoint.failing_since_ms,
            endpoint.last_failure_at_ms,
            endpoint.last_success_at_ms,
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


def reveal_secret(tx: Tx, *, account_id: str, now_ms: int, actor: str) -> tuple[Endpoint, bytes]:
    """The endpoint and its current secret, sealed; that it was asked for is audited.

    Raises:
        NotFound: The account has no endpoint.
    """
    endpoint = get_endpoint(tx, account_id)
    _audit(tx, endpoint, "endpoint.reveal", now_ms, actor)
    (sealed,) = tx.execute(
        "SELECT sealed FROM endpoint_secrets WHERE endpoint_id = ? AND expires_at_ms IS NULL", (endpoint.id,)
    ).fetchone()
    return endpoint, sealed


def switch_endpoint(tx: Tx, *, account_id: str, enabled: bool, now_ms: int, actor: str) -> Endpoint:
    """Enable or disable the endpoint. What it is owed is cancelled when it is disabled.

    Raises:
        NotFound: The account has no endpoint.
    """
    before = get_endpoint(tx, account_id)
    off = msgspec.structs.replace(before, state=EndpointState.DISABLED)
    after = rules.enable(before) if enabled else off
    if after.state is not before.state:
        save_endpoint(tx, after, now_ms)
        _audit(tx, after, "endpoint.enable" if enabled else "endpoint.disable", now_ms, actor)
    if not enabled:
        cancel_pending(tx, after)
    return after


def delete_endpoint(tx: Tx, *, account_id: str, now_ms: int, actor: str) -> Endpoint:
    """Delete the endpoint: nothing is sent any more, the secrets are gone, the log stays.

    Raises:
        NotFound: The account has no endpoint.

    Source: SPEC.md, "Delivery rules".
    """
    endpoint = msgspec.structs.replace(get_endpoint(tx, account_id), state=EndpointState.DELETED)
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
    assert endpoint.state is not EndpointState.ENABLED
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
    """Go on cancelling what an endpoint is owed that is not enabled. Returns whether there is more."""
    endpoint = endpoint_of_id(tx, endpoint_id)
    if endpoint is None or endpoint.state is EndpointState.ENABLED:
        return False
    return cancel_pending(tx, endpoint) == CANCEL_BATCH_MAX


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


def _endpoint(row: tuple[str, str, str, str, str, int | None, int | None, int | None, int]) -> Endpoint:
    endpoint_id, account_id, url, events, state, *times = row
    return Endpoint(endpoint_id, account_id, url, tuple(events.split(" ")), EndpointState(state), *times)  # type: ignore[arg-type]
