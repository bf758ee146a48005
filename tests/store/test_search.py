"""The search box over the rows: a thing is found by all that it is known by, and by its own account only."""

from __future__ import annotations

import pytest

from payd.core.search import read_search
from payd.store.api_log import Logged, insert_logged
from payd.store.db import Database, Tx
from payd.store.merchants import Merchant, delete_merchant, insert_merchant
from payd.store.search import HITS_MAX, Found, find_anything
from payd.store.settlements import Settlement, insert_settlement
from payd.store.transfers import Transfer
from tests.inserts import insert_transfer
from tests.ledger import BUYER, CHAIN, START_MS, USDC, sell
from tests.store.test_deliveries import register

SHOP = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
SENDER = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65"
PAID = "0x" + "11" * 32
TOLD = "0x" + "22" * 32
ASTRAY = "0x" + "33" * 32
BACK = "0x" + "44" * 32
SENT = "0x" + "55" * 32
SOLANA_TX = "5" * 88


async def furnish(db: Database) -> None:
    """One account with something of everything."""
    await register(db, "acct_1", "ep_1")
    await db.write(_furnish)


def _furnish(tx: Tx) -> None:
    insert_merchant(tx, Merchant("mrch_1", "acct_1", "Café Größe", "a@b.example", None, "active", 1000))
    insert_settlement(tx, Settlement("crypto_1", "mrch_1", USDC, USDC, f"{CHAIN}:{SHOP}", 1000))
    sell(tx, "succeeded", number=1, reference_id="ORDER-1", tx_id=PAID)
    sell(tx, number=2, reference_id="ORDER-2")
    tx.execute("INSERT INTO hints VALUES ('pay_t2', '', ?, 5)", (TOLD,))
    tx.execute("INSERT INTO refunds VALUES ('pay_t1', ?, NULL, 9)", (BACK,))
    tx.execute(
        "INSERT INTO submissions"
        " (payment_id, chain, buyer, tx_id, raw, valid_until_height, state, created_at_ms)"
        " VALUES ('pay_t2', 'solana:x', 'b', ?, x'', 1, 'open', 5)",
        (SOLANA_TX,),
    )
    for seq, payment, sent in ((7, "pay_t2", SENT), (8, "pay_t1", "0x" + "77" * 32)):
        tx.execute(
            "INSERT INTO relay_jobs"
            " (seq, payment_id, chain, buyer, target, data, valid_until_s, state, created_at_ms)"
            " VALUES (?, ?, ?, 'b', 't', x'', 1, 'sent', 5)",
            (seq, payment, CHAIN),
        )
        tx.execute(
            "INSERT INTO relay_transactions (seq, job_seq, chain, sender, nonce, gas, state, created_at_ms)"
            " VALUES (?, ?, ?, 's', ?, 1, 'open', 5)",
            (seq + 10, seq, CHAIN, seq),
        )
        tx.execute("INSERT INTO relay_attempts VALUES (?, ?, x'', '1', '1', 5, 6)", (sent, seq + 10))
    insert_transfer(
        tx,
        Transfer(
            "acct_1", None, CHAIN, ASTRAY, 0, USDC, "5", f"{CHAIN}:{SENDER.lower()}", f"{CHAIN}:{SHOP}",
            "unmatched", START_MS,
        ),
    )  # fmt: skip
    # What nobody looks for: more of the account's own, and another account's.
    for number, account in ((1, "acct_1"), (2, "acct_1"), (3, "acct_2")):
        tx.execute(
            "INSERT INTO api_keys VALUES (?, ?, ?, 'svc_test_', 'abcd', 'backend', '', NULL, 1, NULL)",
            (f"key_{number}", account, bytes([number])),
        )
        request = f"req_{number}"
        insert_logged(tx, [Logged(1, account, "key_1", request, "GET", "/v1/payments", "", 400, 3, b"{}")])
        if number > 1:
            merchant = f"mrch_{number}"
            insert_merchant(tx, Merchant(merchant, account, "Bar", "a@b.example", None, "active", 1000))
            insert_settlement(
                tx, Settlement(f"crypto_{number}", merchant, USDC, USDC, f"{CHAIN}:0x{'66' * 20}", 1000)
            )


def search(db: Database, text: str, account: str = "acct_1") -> Found:
    sought = read_search(text)
    assert sought is not None
    return db.point(find_anything, account, sought)


EVERYTHING = [
    ("pay_t1", [("payment", "pay_t1", "id")]),
    ("https://pay.example/pay/pay_t2", [("payment", "pay_t2", "id")]),
    ("mrch_1", [("merchant", "mrch_1", "id")]),
    ("evt_t1v2", [("event", "evt_t1v2", "id")]),
    ("msg_t1v0", [("delivery", "dlv_t1v0", "id")]),
    ("dlv_t1v0", [("delivery", "dlv_t1v0", "id")]),
    ("crypto_1", [("settlement", "crypto_1", "id")]),
    ("key_1", [("key", "key_1", "id")]),
    ("req_1", [("request", "req_1", "id")]),
    (PAID, [("payment", "pay_t1", "transaction")]),
    (PAID[2:].upper(), [("payment", "pay_t1", "transaction")]),
    (TOLD, [("payment", "pay_t2", "transaction")]),
    (SENT, [("payment", "pay_t2", "transaction")]),
    (SOLANA_TX, [("payment", "pay_t2", "transaction")]),
    (BACK, [("payment", "pay_t1", "refund")]),
    (ASTRAY, [("transfer", ASTRAY, "transaction")]),
    (BUYER, [("payment", "pay_t1", "buyer")]),
    (BUYER.rpartition(":")[2].upper().replace("0X", "0x"), [("payment", "pay_t1", "buyer")]),
    (SENDER, [("transfer", ASTRAY, "sender")]),
    (f"{CHAIN}:{SHOP}", [("settlement", "crypto_1", "destination")]),
    ("ORDER-1", [("payment", "pay_t1", "reference")]),
    ("ORDER-", [("payment", "pay_t2", "reference"), ("payment", "pay_t1", "reference")]),
    ("größe", [("merchant", "mrch_1", "name")]),
]


@pytest.mark.parametrize(("text", "hits"), EVERYTHING)
async def test_a_thing_is_found_by_what_it_is_known_by(
    realm_db: Database, text: str, hits: list[tuple[str, str, str]]
) -> None:
    await furnish(realm_db)
    found = search(realm_db, text)

    assert [(hit.kind, hit.id, hit.why) for hit in found.hits] == hits
    assert found.jump == (found.hits[0] if len(hits) == 1 else None)


@pytest.mark.parametrize("text", [text for text, _ in EVERYTHING])
async def test_another_accounts_things_are_never_found(realm_db: Database, text: str) -> None:
    await furnish(realm_db)

    assert search(realm_db, text, "acct_2") == Found((), None)


async def test_a_reference_may_look_like_anything(realm_db: Database) -> None:
    for reference in ("pay_tours", PAID, SHOP, "evt_1"):
        await realm_db.write(sell, reference_id=reference)

    for reference in ("pay_tours", PAID, SHOP, "evt_1"):
        (hit,) = search(realm_db, reference).hits
        assert (hit.label, hit.why) == (reference, "reference")


async def test_a_payment_and_its_transfer_are_one_place_to_go(realm_db: Database) -> None:
    await furnish(realm_db)
    transfer = Transfer("acct_1", "pay_t1", CHAIN, PAID, 0, USDC, "5", BUYER, f"{CHAIN}:{SHOP}", "matched", 1)
    await realm_db.write(insert_transfer, transfer)
    found = search(realm_db, PAID)

    assert [hit.kind for hit in found.hits] == ["payment", "transfer"]
    assert found.jump is not None
    assert found.jump.id == "pay_t1"


async def test_each_kind_brings_a_handful(realm_db: Database) -> None:
    """The newest, of two that were made at the same moment the later one."""
    made = []
    for number in range(HITS_MAX + 5):
        payment = await realm_db.write(
            sell, "succeeded", reference_id="ORDER", at_ms=START_MS - number // 2 * 1000
        )
        made.append((payment.created_at_ms, number, payment.id))
    newest = [payment_id for _, _, payment_id in sorted(made, reverse=True)][:HITS_MAX]

    assert [hit.id for hit in search(realm_db, "ORDER").hits] == newest
    assert [hit.id for hit in search(realm_db, BUYER).hits] == newest


async def test_a_deleted_merchants_destination_is_not_found(realm_db: Database) -> None:
    await furnish(realm_db)
    await realm_db.write(delete_merchant, "acct_1", "mrch_1", 1)

    assert search(realm_db, f"{CHAIN}:{SHOP}").hits == ()
