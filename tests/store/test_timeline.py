"""The timeline over whole lives of payments: nothing that any row or the webhook log says is missing."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio

from payd.core.endpoint import EVENT_TYPES
from payd.core.event import iso_ms
from payd.core.payment import Payment
from payd.core.timeline import (
    Acted,
    Answered,
    Built,
    DeliveryOwed,
    DeliveryTried,
    Entry,
    EventKept,
    Moved,
    Offered,
    Parked,
    Refunded,
    Relayed,
    TransferSeen,
    WalletTold,
)
from payd.store.audit import insert_audit
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.db import Database, Tx
from payd.store.refunds import insert_refund
from payd.store.timeline import ROWS_MAX, Timeline, read_timeline
from payd.store.transfers import Transfer, match_transfers
from tests.ledger import BUYER, CHAIN, START_MS, USDC, run_sql, sell
from tests.receiver import Does
from tests.shop import APPROVES, SIGNATURE, Shop
from tests.web.asking import ANSWERS, ask_for
from tests.web.hooked import Hooked, open_hooked


def story(shop: Shop, payment_id: str) -> Timeline:
    found = shop.realm.db.point(read_timeline, shop.account_id, payment_id)
    assert found is not None
    return found


def of_kind(timeline: Timeline, kind: type[Entry]) -> list[Any]:
    return [entry for entry in timeline.entries if isinstance(entry, kind)]


async def check_against_the_log(hooked: Hooked, payment_id: str) -> Timeline:
    """What the API tells of a payment's events, deliveries and attempts is in its timeline, and no more."""
    shop = hooked.shop
    timeline = story(shop, payment_id)
    events = (await shop.call("GET", "/v1/events?limit=100")).body["data"]
    mine = {one["id"]: one for one in events if one["paymentId"] == payment_id}
    kept = of_kind(timeline, EventKept)
    assert {one.event_id for one in kept} == mine.keys()
    assert all(iso_ms(one.at_ms) == mine[one.event_id]["createdAt"] for one in kept)
    moves = of_kind(timeline, Moved)
    assert [(one.version, one.event_type) for one in moves] == [(one.version, one.event_type) for one in kept]

    owed = of_kind(timeline, DeliveryOwed)
    listed = await hooked.deliveries(f"?paymentId={payment_id}&limit=100")
    assert {one.delivery_id: one.state for one in owed} == {one["id"]: one["state"] for one in listed}
    tried = of_kind(timeline, DeliveryTried)
    for one in listed:
        shown = (await shop.call("GET", f"/v1/webhooks/deliveries/{one['id']}")).body["attemptLog"]
        assert [
            (iso_ms(entry.at_ms), entry.n, entry.trigger, entry.status, entry.error_class, entry.duration_ms)
            for entry in tried
            if entry.delivery_id == one["id"]
        ] == [
            (at["at"], at["n"], at["trigger"], at["status"], at["errorClass"], at["durationMs"])
            for at in shown
        ]
    assert {entry.delivery_id for entry in tried} <= {one["id"] for one in listed}
    times = [(entry.at_ms, entry.rank) for entry in timeline.entries]
    assert times == sorted(times)
    assert timeline.is_whole
    return timeline


async def test_a_paid_payment_tells_its_whole_life(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        shop = hooked.shop
        await hooked.register()
        await ask_for(shop)
        payment_id = await shop.pay()
        await trio.sleep(1)
        option = (await shop.options(payment_id))[0]["id"]
        body = {"optionId": option, "results": [{"type": "walletRpc", "data": [SIGNATURE]}]}
        confirmed = await shop.call(
            "POST", f"/v1/gateway/payment/{payment_id}/confirm", {**body, "collectedData": ANSWERS}
        )
        assert confirmed.status == 200, confirmed.body
        await trio.sleep(5)
        await hooked.drained()
        refunded = await shop.call(
            "POST", "/v1/refunds", {"paymentId": payment_id, "note": "broken"}, merchant_id=shop.merchant_id
        )
        assert refunded.status == 200, refunded.body

        timeline = await check_against_the_log(hooked, payment_id)

        assert [one.event_type for one in of_kind(timeline, Moved)] == [
            "payment.created",
            "payment.processing",
            "payment.succeeded",
            "payment.settled",
        ]
        (offered,) = of_kind(timeline, Offered)
        assert offered.accounts == (APPROVES,)
        assert offered.quotes[0].option_id == option
        assert len(of_kind(timeline, Answered)) == 1
        (seen,) = of_kind(timeline, TransferSeen)
        assert (seen.kind, seen.confirmations, seen.tx_id) == ("matched", None, f"test:{payment_id}")
        assert seen.on_chain
        (refund,) = of_kind(timeline, Refunded)
        assert refund.note == "broken"
        assert len(of_kind(timeline, DeliveryTried)) == 4
        assert isinstance(timeline.entries[0], Moved)


ACTS = (
    "options",
    "confirm",
    "processing",
    "succeeded",
    "failed",
    "expired",
    "cancelled",
    "settled",
    "wait",
    "resend",
)


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_missing_whatever_happens(tmp_path: Path, seed: int) -> None:
    random = Random(seed)

    def script(_: object) -> Does:
        return Does(status=random.choice([200, 200, 500, 404]))

    async with open_hooked(tmp_path, script) as hooked:
        shop = hooked.shop
        await hooked.register()
        payments = [await shop.pay(f"ORDER-{n}") for n in range(3)]
        for _ in range(25):
            await act(hooked, random, random.choice(payments), random.choice(ACTS))
        for payment_id in payments:
            timeline = await check_against_the_log(hooked, payment_id)
            assert {one.event_type for one in of_kind(timeline, EventKept)} <= set(EVENT_TYPES)
            assert of_kind(timeline, DeliveryTried)


async def act(hooked: Hooked, random: Random, payment_id: str, what: str) -> None:
    """One thing that can happen; what is refused has not happened."""
    shop = hooked.shop
    if what == "options":
        await shop.call("POST", f"/v1/gateway/payment/{payment_id}/options", [APPROVES])
    elif what == "confirm":
        found = await shop.call("POST", f"/v1/gateway/payment/{payment_id}/options", [APPROVES])
        if found.status == 200 and found.body["options"]:
            await shop.confirm(payment_id, found.body["options"][0]["id"], SIGNATURE)
    elif what == "wait":
        await hooked.advance(random.choice([1, 400, 7200]))
    elif what == "resend":
        listed = await hooked.deliveries(f"?paymentId={payment_id}")
        await shop.call("POST", f"/v1/webhooks/deliveries/{random.choice(listed)['id']}/resend")
    else:
        await shop.call("POST", f"/v1/test/payments/{payment_id}/simulate", {"to": what})
    await hooked.drained()


TX_ID = "0x" + "1" * 64


def happen(tx: Tx, sold: Payment) -> None:
    """What chains, wallets, the relayer and people do to a payment, as the rows that they leave."""
    seen = Transfer(
        "acct_1",
        sold.id,
        CHAIN,
        TX_ID,
        0,
        USDC,
        "5",
        BUYER,
        f"{CHAIN}:0x1",
        "matched",
        START_MS + 9,
        100,
        "0xb",
    )
    match_transfers(tx, [seen])
    match_transfers(tx, [msgspec.structs.replace(seen, tx_id="0xgone", block_hash=None, kind="late")])
    move_cursor(tx, CHAIN, "head", None, Cursor(102, "0xh", 5))
    move_cursor(tx, CHAIN, "closed", None, Cursor(101, "0xg", 5))
    move_cursor(tx, "eip155:1", "head", None, Cursor(500, "0xo", 5))
    tx.execute("INSERT INTO hints VALUES (?, 'opt_1', ?, ?)", (sold.id, TX_ID, START_MS + 2))
    tx.execute(
        "INSERT INTO builds"
        " (message_hash, payment_id, chain, buyer, valid_until_height, created_at_ms, state)"
        " VALUES (x'00', ?, 'solana:x', 'solana:x:b', 1, ?, 'out')",
        (sold.id, START_MS + 1),
    )
    tx.execute(
        "INSERT INTO relay_jobs (seq, payment_id, chain, buyer, target, data, valid_until_s, state,"
        " reason, created_at_ms) VALUES (7, ?, ?, 'b', 't', x'', 1, 'dead', 'too dear', ?)",
        (sold.id, CHAIN, START_MS + 3),
    )
    tx.execute(
        "INSERT INTO relay_transactions (seq, job_seq, chain, sender, nonce, gas, state, created_at_ms)"
        " VALUES (8, 7, ?, 's', 0, 1, 'lost', 5)",
        (CHAIN,),
    )
    tx.execute("INSERT INTO relay_attempts VALUES ('0xr', 8, x'', '1', '1', 5, ?)", (START_MS + 4,))
    tx.execute("INSERT INTO relay_attempts VALUES ('0xunsent', 8, x'', '1', '1', 5, NULL)")
    tx.execute(
        "INSERT INTO submissions (payment_id, chain, buyer, TX_ID, raw, valid_until_height, state,"
        " created_at_ms, sent_at_ms) VALUES (?, 'solana:x', 'b', 'sig', x'', 1, 'landed', ?, ?)",
        (sold.id, START_MS + 5, START_MS + 6),
    )
    insert_audit(
        tx,
        at_ms=START_MS + 8,
        account_id="acct_1",
        actor="key_1",
        act="transfer.assign",
        subject=sold.id,
        details={"txId": TX_ID},
    )
    tx.execute("UPDATE payments SET parked_at_ms = ? WHERE id = ?", (START_MS + 9999, sold.id))


async def test_what_chains_and_people_did_is_told_with_confirmations(realm_db: Database) -> None:
    sold = await realm_db.write(sell, "processing")
    await realm_db.write(happen, sold)
    found = realm_db.point(read_timeline, "acct_1", sold.id)
    assert found is not None

    assert of_kind(found, Built)[0].account == "solana:x:b"
    assert of_kind(found, WalletTold)[0].tx_id == TX_ID
    assert [(one.stage, one.tx_id, one.words) for one in of_kind(found, Relayed)] == [
        ("owed", None, "dead: too dear"),
        ("sent", "0xr", "lost"),
        ("owed", "sig", "landed"),
        ("sent", "sig", "landed"),
    ]
    assert [(one.confirmations, one.on_chain) for one in of_kind(found, TransferSeen)] == [
        (3, True),
        (None, False),
    ]
    assert of_kind(found, Acted)[0].details == {"txId": TX_ID}
    assert isinstance(found.entries[-1], Parked)
    assert realm_db.point(read_timeline, "acct_2", sold.id) is None
    assert realm_db.point(read_timeline, "acct_1", "pay_tnone") is None


async def test_what_happened_to_one_payment_is_told_of_no_other(realm_db: Database) -> None:
    sold, quiet = [await realm_db.write(sell, state) for state in ("processing", "requires_action")]
    await realm_db.write(happen, sold)
    await realm_db.write(insert_refund, sold.id, "0xback", None, START_MS)

    def offer(tx: Tx) -> None:
        for name, payment in (("opt_1", sold), ("opt_2", quiet)):
            tx.execute("INSERT INTO options VALUES (?, ?, ?, ?, 'a', 'a')", (name, payment.id, USDC, USDC))
        tx.execute(
            "INSERT INTO quotes (option_id, payment_id, amount, destination, actions, valid_from_ms,"
            " valid_until_ms) VALUES ('opt_1', ?, '5', 'd', x'', ?, ?)",
            (sold.id, START_MS, START_MS + 9),
        )
        tx.execute(
            "INSERT INTO collected (payment_id, holder, sealed, collected_at_ms) VALUES (?, 'h', x'', 5)",
            (sold.id,),
        )
        tx.execute(
            "INSERT INTO relay_jobs (seq, payment_id, chain, buyer, target, data, valid_until_s, state,"
            " created_at_ms) VALUES (9, ?, ?, 'b', 't', x'', 1, 'queued', ?)",
            (quiet.id, CHAIN, START_MS),
        )
        tx.execute(
            "INSERT INTO relay_transactions (seq, job_seq, chain, sender, nonce, gas, state, created_at_ms)"
            " VALUES (10, 9, ?, 's', 1, 1, 'open', 5)",
            (CHAIN,),
        )

    await realm_db.write(offer)
    found = realm_db.point(read_timeline, "acct_1", quiet.id)
    assert found is not None
    names = sorted(type(entry).__name__ for entry in found.entries)
    assert names == ["EventKept", "Moved", "Relayed"]
    assert [one.words for one in of_kind(found, Relayed)] == ["queued"]


async def test_versions_are_told_when_their_events_are_forgotten(realm_db: Database) -> None:
    sold = await realm_db.write(sell, "settled")
    await realm_db.write(run_sql, "DELETE FROM events")
    found = realm_db.point(read_timeline, "acct_1", sold.id)
    assert found is not None

    assert [one.version for one in of_kind(found, Moved)] == [0, 1, 2, 3]
    assert of_kind(found, EventKept) == []


async def test_of_very_many_the_newest_are_told_and_that_some_are_missing(realm_db: Database) -> None:
    sold = await realm_db.write(sell)
    rows = [(sold.id, str(number), f"0x{number:x}", START_MS + number) for number in range(ROWS_MAX + 1)]

    def tell(tx: Tx) -> None:
        tx.executemany("INSERT INTO hints VALUES (?, ?, ?, ?)", rows)

    await realm_db.write(tell)
    found = realm_db.point(read_timeline, "acct_1", sold.id)
    assert found is not None

    told = of_kind(found, WalletTold)
    assert (len(told), told[0].at_ms, found.is_whole) == (ROWS_MAX, START_MS + 1, False)
