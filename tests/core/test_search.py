"""The search box: what each kind of text is taken for, and what it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.search import TEXT_MAX, Sought, read_search

HASH = "0x" + "aB" * 32
ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
SOLANA_ADDRESS = "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV"
SIGNATURE = "5" * 88
PAYMENT = "pay_t01kt6vyb80" + "a" * 26


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PAYMENT, Sought(PAYMENT, PAYMENT, "payment")),
        (f"  {PAYMENT}\n", Sought(PAYMENT, PAYMENT, "payment")),
        ("mrch_1", Sought("mrch_1", "mrch_1", "merchant")),
        ("evt_1", Sought("evt_1", "evt_1", "event")),
        ("msg_1", Sought("msg_1", "msg_1", "message")),
        ("dlv_1", Sought("dlv_1", "dlv_1", "delivery")),
        ("req_1", Sought("req_1", "req_1", "request")),
        ("crypto_1", Sought("crypto_1", "crypto_1", "settlement")),
        ("key_1", Sought("key_1", "key_1", "key")),
        (HASH, Sought(HASH, tx_id=HASH.lower())),
        (HASH[2:], Sought(HASH[2:], tx_id=HASH.lower())),
        (SIGNATURE, Sought(SIGNATURE, tx_id=SIGNATURE)),
        ("test:pay_t1", Sought("test:pay_t1", tx_id="test:pay_t1")),
        (ADDRESS, Sought(ADDRESS, address=ADDRESS.lower())),
        (f"eip155:8453:{ADDRESS}", Sought(f"eip155:8453:{ADDRESS}", address=ADDRESS.lower())),
        (SOLANA_ADDRESS, Sought(SOLANA_ADDRESS, address=SOLANA_ADDRESS.lower())),
        ("ORDER-1042", Sought("ORDER-1042")),
        ("Café Größe", Sought("Café Größe")),
        ("payment", Sought("payment")),
    ],
)
def test_a_text_is_taken_for_what_it_looks_like(text: str, found: Sought) -> None:
    assert read_search(text) == found


def test_a_link_to_a_payment_is_the_payment() -> None:
    link = f"https://pay.example/pay/{PAYMENT}?lang=de"
    assert read_search(link) == Sought(link, PAYMENT, "payment")


@pytest.mark.parametrize("text", ["", "  \t", "x" * (TEXT_MAX + 1)])
def test_nothing_is_not_looked_for(text: str) -> None:
    assert read_search(text) is None


@given(st.text(max_size=TEXT_MAX))
def test_any_text_is_read_and_kept(text: str) -> None:
    found = read_search(text)
    assert found is None or found.text == text.strip()
