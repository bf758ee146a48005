"""Rows that are written in bulk are as payd leaves them: it reads, lists and finds due what it should."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from payd.core.ids import is_id
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.db import Tx
from payd.store.migrate import bring_up_to_date
from payd.store.payments import PaymentFilter, due_payments, find_payment, list_payments
from payd.store.self_check import broken_places, schema_differences
from tests.bench import archive
from tests.bench.archive import YEARS_MS, fill_archive
from tests.bench.opened import LIFETIME_MS, fill_open
from tests.bench.realm import payment_id

NOW_MS = 1_790_000_000_000
ACCOUNT = "acct_1"


@contextmanager
def realm(path: Path) -> Iterator[Tx]:
    with closing(sqlite3.connect(path)) as tx:
        yield tx


def listed(tx: Tx, count: int) -> list[Payment]:
    return [payment for _, payment in list_payments(tx, PaymentFilter(account_id=ACCOUNT), None, count)]


def test_old_payments_are_copies_of_ones_that_ended_under_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "NEWEST", 10)
    monkeypatch.setattr(archive, "PATTERNS", 30)
    path = tmp_path / "test.db"
    bring_up_to_date(path, "realm")

    fill_archive(path, 100, account_id=ACCOUNT, now_ms=NOW_MS)

    with realm(path) as tx:
        assert broken_places(tx) == []
        assert schema_differences(tx, "realm") == []
        payments = listed(tx, 1000)
        rows = tx.execute(
            "SELECT id, status, reference_id, tx_id, due_at_ms FROM payments ORDER BY seq"
        ).fetchall()
        transfers = tx.execute(
            "SELECT payment_id, tx_id FROM transfers WHERE payment_id IS NOT NULL"
        ).fetchall()
    assert [payment.id for payment in payments] == [payment_id(number) for number in range(100, 0, -1)]
    assert all(is_id(payment.id, "pay_t") for payment in payments)
    oldest = payments[10:]
    assert all(payment.is_final for payment in oldest)
    assert abs(oldest[-1].created_at_ms - (NOW_MS - YEARS_MS)) < YEARS_MS / 10
    for payment, row in zip(reversed(payments), rows, strict=True):
        tx_id = payment.success.tx_id if payment.success else None
        assert row == (payment.id, payment.status.value, payment.reference_id, tx_id, None)
        assert payment.created_at_ms <= payment.updated_at_ms < payment.created_at_ms + 3_600_000
    paid = {row[0]: row[3] for row in rows if row[3] is not None}
    assert dict(transfers).items() <= paid.items()
    assert len(transfers) > len(paid) / 2


def test_open_payments_are_due_when_their_windows_close(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    bring_up_to_date(path, "realm")

    fill_open(path, 10, account_id=ACCOUNT, merchant_id="mrch_1", now_ms=NOW_MS)

    with realm(path) as tx:
        payments = listed(tx, 100)
        assert due_payments(tx, (0, ""), NOW_MS, 100) == []
        due = due_payments(tx, (0, ""), NOW_MS + LIFETIME_MS, 100)
    assert {payment.status for payment in payments} == {Status.REQUIRES_ACTION}
    assert due == [(payment.expires_at_ms, payment.id) for payment in reversed(payments)]


def test_overdue_payments_are_due_now_paid_or_not(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    bring_up_to_date(path, "realm")

    fill_open(path, 10, account_id=ACCOUNT, merchant_id="mrch_1", now_ms=NOW_MS, overdue=True)

    with realm(path) as tx:
        due = due_payments(tx, (0, ""), NOW_MS, 100)
        statuses = [payment.status for _, key in due if (payment := find_payment(tx, key)) is not None]
    assert len(due) == 10
    assert sorted(statuses) == [Status.PROCESSING] * 5 + [Status.REQUIRES_ACTION] * 5
