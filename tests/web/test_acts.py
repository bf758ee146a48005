"""Who acts through a page is in the audit, with the act or not at all."""

from __future__ import annotations

from payd.store.db import Tx
from payd.web.acts import act_of
from payd.web.auth import Caller
from payd.web.call import Call, Request
from tests.shop import Shop


def call_of(shop: Shop, actor: str) -> Call:
    caller = Caller(shop.realm, shop.account_id, actor, frozenset(), None)
    return Call(Request("POST", "/"), {}, "req_1", shop.house, caller, shop.realm, "")


def audit(tx: Tx) -> list[tuple[str, ...]]:
    return tx.execute(
        "SELECT account_id, actor, act, subject, details FROM audit WHERE act = 'x.y'"
    ).fetchall()


async def test_a_person_is_named(shop: Shop) -> None:
    write = act_of(call_of(shop, "usr_1"), "x.y", "pay_1", to="failed", nothing=None)
    assert write is not None
    await shop.realm.db.write(write)
    assert shop.realm.db.point(audit) == [(shop.account_id, "usr_1", "x.y", "pay_1", '{"to": "failed"}')]


async def test_a_key_is_not(shop: Shop) -> None:
    assert act_of(call_of(shop, "key_1"), "x.y", "pay_1") is None
