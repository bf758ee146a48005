"""Quotes, actions and results."""

from __future__ import annotations

import base64
from itertools import permutations

import base58
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.option import (
    ACTIONS_MAX,
    QUOTE_GRACE_MS,
    Action,
    Build,
    Quote,
    Result,
    WalletRpc,
    alignment,
    hash_results,
    told_transactions,
)

SEND = WalletRpc("eip155:1", "eth_sendTransaction", [{"to": "0x00"}])
QUOTE = Quote(
    "opt_1", "pay_ta", "eip155:1/slip44:60", "eip155:1:0xab", 100, "eip155:1:0x5e", (SEND,), 1000, 2000
)
TX_HASH = "0x" + "aB" * 32


def result(*data: object) -> Result:
    return Result("walletRpc", list(data))


def square(size_min: int = 1) -> st.SearchStrategy[list[list[bool]]]:
    def rows(size: int) -> st.SearchStrategy[list[list[bool]]]:
        row = st.lists(st.booleans(), min_size=size, max_size=size)
        return st.lists(row, min_size=size, max_size=size)

    return st.integers(size_min, ACTIONS_MAX).flatmap(rows)


# Quotes


@pytest.mark.parametrize(
    ("block_at_ms", "covered"),
    [(879_999, False), (880_000, True), (1_000_000, True), (1_722_000, True), (1_722_001, False)],
)
def test_a_transfer_counts_two_minutes_before_and_after_its_quote(block_at_ms: int, covered: bool) -> None:
    quote = msgspec.structs.replace(QUOTE, valid_from_ms=1_000_000, valid_until_ms=1_602_000)
    assert QUOTE_GRACE_MS == 120_000
    assert quote.covers_transfer_at(block_at_ms) is covered


def test_quotes_say_the_same_when_a_wallet_signs_the_same_however_long_they_hold() -> None:
    replace = msgspec.structs.replace
    assert QUOTE.says_the_same(
        replace(QUOTE, valid_from_ms=1500, valid_until_ms=9000, account="eip155:1:0xAB")
    )
    assert not QUOTE.says_the_same(replace(QUOTE, amount=101))
    assert not QUOTE.says_the_same(replace(QUOTE, destination="eip155:1:0x5f"))
    assert not QUOTE.says_the_same(replace(QUOTE, actions=(SEND, SEND)))


def test_a_quote_with_a_build_action_is_not_resolved() -> None:
    assert QUOTE.resolved
    assert not msgspec.structs.replace(QUOTE, actions=(SEND, Build("x"))).resolved


def test_actions_survive_being_stored() -> None:
    actions: tuple[Action, ...] = (SEND, Build("x"))
    stored = msgspec.json.encode(actions)

    assert b'"type":"walletRpc"' in stored
    assert b'"type":"build"' in stored
    assert msgspec.json.decode(stored, type=tuple[Action, ...]) == actions


# Alignment


def test_a_result_that_verifies_in_its_place_is_aligned() -> None:
    assert alignment([[True]]) == "aligned"


def test_a_result_that_verifies_nowhere_is_refused() -> None:
    assert alignment([[False]]) == "refused"


def test_two_swapped_results_are_misaligned() -> None:
    assert alignment([[False, True], [True, False]]) == "misaligned"


def test_results_turned_round_by_one_are_misaligned() -> None:
    assert alignment([[False, True, False], [False, False, True], [True, False, False]]) == "misaligned"


def test_one_good_result_beside_one_that_verifies_nowhere_is_refused() -> None:
    assert alignment([[True, False], [False, False]]) == "refused"


def test_one_result_that_would_have_to_serve_twice_is_refused() -> None:
    assert alignment([[True, False], [True, False]]) == "refused"


@pytest.mark.parametrize("fits", [[], [[]], [[True, True]], [[True], [True]], [[True, True], [True]]])
def test_another_number_of_results_is_misaligned(fits: list[list[bool]]) -> None:
    assert alignment(fits) == "misaligned"


@given(square())
def test_results_are_aligned_exactly_when_each_verifies_in_its_own_place(fits: list[list[bool]]) -> None:
    in_place = all(fits[place][place] for place in range(len(fits)))

    assert (alignment(fits) == "aligned") is in_place


@given(st.integers(2, ACTIONS_MAX).flatmap(lambda size: st.permutations(range(size))))
def test_good_results_in_any_other_order_are_misaligned(order: list[int]) -> None:
    fits = [[order[result] == place for result in range(len(order))] for place in range(len(order))]

    assert alignment(fits) == ("aligned" if order == sorted(order) else "misaligned")


@given(square())
def test_results_are_refused_exactly_when_no_order_of_them_verifies(fits: list[list[bool]]) -> None:
    orders = permutations(range(len(fits)))
    some_order = any(all(fits[place][order[place]] for place in range(len(fits))) for order in orders)

    assert (alignment(fits) == "refused") is not some_order


@given(square(), st.integers(0, ACTIONS_MAX - 1))
def test_a_result_that_verifies_for_no_action_is_never_misaligned(
    fits: list[list[bool]], column: int
) -> None:
    """A stranger's junk in a list of the right length cannot kill a payment."""
    for row in fits:
        row[column % len(fits)] = False

    assert alignment(fits) == "refused"


# What identifies a confirm


def test_the_same_results_for_the_same_option_have_the_same_hash() -> None:
    assert hash_results("opt_1", [result({"a": 1, "b": 2})]) == hash_results(
        "opt_1", [result({"b": 2, "a": 1})]
    )
    assert len(hash_results("opt_1", [])) == 32


def test_another_option_another_result_or_another_order_has_another_hash() -> None:
    first, second = result("0x01"), result("0x02")
    hashes = {
        hash_results("opt_1", [first, second]),
        hash_results("opt_2", [first, second]),
        hash_results("opt_1", [second, first]),
        hash_results("opt_1", [first]),
        hash_results("opt_1", [result("0x01", "0x02")]),
    }

    assert len(hashes) == 5


# Told hashes


def test_told_transactions_are_found_among_results_in_order_and_in_lower_case() -> None:
    other = "0X" + "11" * 32

    assert told_transactions([result("0x" + "22" * 65, TX_HASH), result(other)]) == (
        TX_HASH.lower(),
        other.lower(),
    )


@pytest.mark.parametrize(
    "data",
    [
        7,
        None,
        [TX_HASH],
        "0x",
        TX_HASH[:-1],
        TX_HASH + "0",
        "0x" + "zz" * 32,
        "ab" * 33,
        "0x" + "é" * 64,
        "0x" + "ab" * 24 + " \n" * 8,
        TX_HASH + "\n",
    ],
)
def test_nothing_else_is_taken_for_a_hash(data: object) -> None:
    assert told_transactions([result(data)]) == ()


@given(st.lists(st.builds(Result, st.just("walletRpc"), st.lists(st.text() | st.none() | st.integers()))))
def test_whatever_a_wallet_tells_is_looked_through_without_harm(results: list[Result]) -> None:
    for told in told_transactions(results):
        assert (
            len(bytes.fromhex(told[2:])) == 32 if told.startswith("0x") else len(base58.b58decode(told)) == 64
        )


def signed(*signatures: bytes, message: bytes = b"message") -> str:
    """A Solana transaction as a wallet hands it back, as far as it is looked at."""
    return base64.b64encode(bytes([len(signatures)]) + b"".join(signatures) + message).decode()


def test_a_signed_transaction_is_known_by_its_first_signature() -> None:
    ours, buyers = b"\1" * 64, b"\2" * 64

    longest = bytes(1232 - 1 - 64)
    for text in (
        signed(ours),
        signed(ours, buyers),
        signed(ours, message=b"m"),
        signed(ours, message=longest),
    ):
        assert told_transactions([result(text)]) == (base58.b58encode(ours).decode(),)


@pytest.mark.parametrize(
    "data",
    [
        signed(bytes(64), b"\2" * 64),
        signed(b"\1" * 64, message=b""),
        signed(),
        signed(*[b"\1" * 64] * 13),
        signed(b"\1" * 64, message=b"m" * 1200),
        signed(b"\1" * 64)[:-3] + "!!!",
        signed(b"\1" * 64) + "\n",
        "",
    ],
)
def test_what_the_fee_payer_has_not_signed_or_is_no_transaction_has_no_id(data: str) -> None:
    assert told_transactions([result(data)]) == ()
