"""What people show beside their password: an authenticator app, passkeys, recovery codes.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from payd.core.errors import InvalidParams
from payd.store.accounts import check_name
from payd.store.rows import prune_rows

Tx: TypeAlias = sqlite3.Connection

PASSKEYS_MAX: Final = 20  # of one person: a phone, a laptop, a key in the safe; lists are not paged

_PASSKEY: Final = "id, user_id, credential_id, public_key, sign_count, name, created_at_ms, used_at_ms"


class Passkey(msgspec.Struct, frozen=True):
    """One passkey of a person. Times are Unix milliseconds by the wall."""

    id: str
    user_id: str
    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str
    created_at_ms: int
    used_at_ms: int | None = None


class Factors(NamedTuple):
    """What a person has beside the password."""

    app: bool
    passkeys: int
    recovery_codes: int

    @property
    def any(self) -> bool:
        """Whether the password alone is not enough."""
        return self.app or self.passkeys > 0


def factors_of(tx: Tx, user_id: str) -> Factors:
    """What a person has, with the recovery codes that are left."""
    row = tx.execute(
        "SELECT u.totp_sealed IS NOT NULL, (SELECT count(*) FROM passkeys WHERE user_id = u.id),"
        " (SELECT count(*) FROM recovery_codes WHERE user_id = u.id AND used_at_ms IS NULL)"
        " FROM users u WHERE u.id = ?",
        (user_id,),
    ).fetchone()
    return Factors(False, 0, 0) if row is None else Factors(bool(row[0]), row[1], row[2])


def insert_passkey(tx: Tx, passkey: Passkey) -> Passkey:
    """Store a new passkey.

    Raises:
        InvalidParams: It is somebody's already, its name is unusable, or the person has too many.
    """
    check_name(passkey.name)
    if tx.execute("SELECT 1 FROM passkeys WHERE credential_id = ?", (passkey.credential_id,)).fetchone():
        raise InvalidParams("This passkey is registered already.")
    if factors_of(tx, passkey.user_id).passkeys >= PASSKEYS_MAX:
        raise InvalidParams(f"You have {PASSKEYS_MAX} passkeys. Remove one that is not in use.")
    tx.execute(
        f"INSERT INTO passkeys ({_PASSKEY}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
        msgspec.structs.astuple(passkey)[:-1],
    )
    return passkey


def find_passkey(tx: Tx, credential_id: bytes) -> Passkey | None:
    """The passkey with this credential id."""
    row = tx.execute(f"SELECT {_PASSKEY} FROM passkeys WHERE credential_id = ?", (credential_id,)).fetchone()
    return None if row is None else Passkey(*row)


def list_passkeys(tx: Tx, user_id: str) -> list[Passkey]:
    """A person's passkeys, oldest first."""
    rows = tx.execute(
        f"SELECT {_PASSKEY} FROM passkeys WHERE user_id = ? ORDER BY created_at_ms, id", (user_id,)
    )
    return [Passkey(*row) for row in rows]


def use_passkey(
    tx: Tx, passkey_id: str, sign_count: int, challenge_hash: bytes, expires_at_ms: int, now_ms: int
) -> bool:
    """Store that it answered a challenge; False if it is gone, or the challenge was answered before."""
    if tx.execute("SELECT 1 FROM challenges WHERE hash = ?", (challenge_hash,)).fetchone():
        return False
    tx.execute("INSERT INTO challenges (hash, expires_at_ms) VALUES (?, ?)", (challenge_hash, expires_at_ms))
    changed = tx.execute(
        "UPDATE passkeys SET sign_count = ?, used_at_ms = ? WHERE id = ?", (sign_count, now_ms, passkey_id)
    ).rowcount
    return changed == 1


def remove_passkey(tx: Tx, user_id: str, passkey_id: str) -> bool:
    """Remove one of a person's passkeys; False if they have none such."""
    changed = tx.execute("DELETE FROM passkeys WHERE id = ? AND user_id = ?", (passkey_id, user_id))
    return changed.rowcount == 1


def app_subject(user_id: str) -> str:
    """For whom the secret of a person's authenticator app is sealed."""
    return f"totp {user_id}"


def set_app(tx: Tx, user_id: str, sealed: bytes | None, step: int) -> None:
    """Give a person another authenticator app, or none; codes of `step` and before are not taken any more."""
    tx.execute("UPDATE users SET totp_sealed = ?, totp_step = ? WHERE id = ?", (sealed, step, user_id))


def app_step(tx: Tx, user_id: str) -> int:
    """The newest step whose code was used."""
    row = tx.execute("SELECT totp_step FROM users WHERE id = ?", (user_id,)).fetchone()
    return 0 if row is None else int(row[0])


def use_app(tx: Tx, user_id: str, step: int) -> bool:
    """Store that the code of a step was used; False if it or a newer one was before."""
    changed = tx.execute(
        "UPDATE users SET totp_step = ? WHERE id = ? AND totp_step < ?", (step, user_id, step)
    )
    return changed.rowcount == 1


def put_recovery_codes(tx: Tx, user_id: str, hashes: Sequence[bytes]) -> None:
    """Give a person these recovery codes in place of those before."""
    tx.execute("DELETE FROM recovery_codes WHERE user_id = ?", (user_id,))
    tx.executemany(
        "INSERT INTO recovery_codes (user_id, hash) VALUES (?, ?)", [(user_id, one) for one in hashes]
    )


def use_recovery_code(tx: Tx, user_id: str, code_hash: bytes, now_ms: int) -> bool:
    """Use one up; False if there is none such, or it was used before."""
    changed = tx.execute(
        "UPDATE recovery_codes SET used_at_ms = ? WHERE user_id = ? AND hash = ? AND used_at_ms IS NULL",
        (now_ms, user_id, code_hash),
    )
    return changed.rowcount == 1


def drop_factors(tx: Tx, user_id: str) -> None:
    """Take all of it away, so that the password alone is enough."""
    set_app(tx, user_id, None, app_step(tx, user_id))
    tx.execute("DELETE FROM passkeys WHERE user_id = ?", (user_id,))
    tx.execute("DELETE FROM recovery_codes WHERE user_id = ?", (user_id,))


def prune_challenges(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget challenges that were over before that, `limit` at a time; returns how many."""
    return prune_rows(tx, "challenges", "hash", "expires_at_ms", before_ms, limit)


def users_with_factor(tx: Tx, account_id: str) -> set[str]:
    """The people of an account whose password alone is not enough."""
    rows = tx.execute(
        "SELECT u.id FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.account_id = ?"
        " AND (u.totp_sealed IS NOT NULL OR EXISTS (SELECT 1 FROM passkeys p WHERE p.user_id = u.id))",
        (account_id,),
    )
    return {user_id for (user_id,) in rows}
