"""Who did what, in the audit: what matters by whomever; else what a person does, as keys are in the log.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from payd.store.audit import insert_audit
from payd.store.db import Tx
from payd.web.call import Call

PERSON: Final = "usr_"


def audit(tx: Tx, call: Call, act: str, subject: str, details: Mapping[str, Any] | None = None) -> None:
    """Record what the caller does, in the transaction of the act: what is refused was not done."""
    insert_audit(
        tx, at_ms=call.realm.clock.now_ms(), account_id=call.account_id, actor=call.actor, act=act,
        subject=subject, details=details,
    )  # fmt: skip


def act_of(call: Call, act: str, subject: str, **details: str | None) -> Callable[[Tx], None] | None:
    """What is to be written in the act's own transaction; None where no person acts.

    Args:
        call: Who acts, and for which account.
        act: Such as `payment.cancel`.
        subject: The id of what is touched.
        details: Whatever helps later; never a secret.
    """
    if not call.actor.startswith(PERSON):
        return None
    at_ms = call.realm.clock.now_ms()
    said = {name: value for name, value in details.items() if value is not None}

    def write(tx: Tx) -> None:
        insert_audit(
            tx,
            at_ms=at_ms,
            account_id=call.account_id,
            actor=call.actor,
            act=act,
            subject=subject,
            details=said,
        )

    return write
