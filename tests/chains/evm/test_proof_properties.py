"""What holds of every transaction, however it was made up: no transfer and no payment counts twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from payd.chains.evm.answers import Transaction, decode_receipt
from payd.chains.evm.binding import tagged_transfer, tags_in, transfer_call
from payd.chains.evm.proof import candidate_bindings, paid_by
from tests.chains.evm.json import (
    BUYER,
    OTHER_SHOP,
    OTHER_TOKEN,
    SHOP,
    THIRD,
    TOKEN,
    WALLET,
    check_read_or_refused,
    json_values,
    log_json,
    receipt_json,
    transfer_log,
    used_log,
)
from tests.chains.evm.paid import (
    CHAIN,
    JUNK,
    KNOWN,
    NONCES,
    TAGS,
    WATCHED,
    bound,
    paid,
    receipt,
    sent,
)

payers = st.sampled_from([BUYER, WALLET, THIRD])
recipients = st.sampled_from([SHOP, OTHER_SHOP, THIRD])
tokens = st.sampled_from([TOKEN, OTHER_TOKEN, THIRD])
values = st.integers(0, 3)
tags = st.sampled_from([*TAGS, JUNK])
logs_of_anything = st.lists(
    st.one_of(
        st.builds(transfer_log, payers, recipients, values, tokens, removed=st.booleans()),
        st.builds(used_log, payers, st.sampled_from([*NONCES, JUNK]), tokens),
        st.just(log_json(TOKEN, [], b"")),
    ),
    max_size=8,
)
calldata = st.lists(
    st.one_of(
        st.builds(tagged_transfer, recipients, values, tags),
        st.builds(transfer_call, recipients, values),
        st.sampled_from([*TAGS, b"", b"\xa9\x05\x9c"]),
        st.binary(max_size=40),
    ),
    max_size=5,
).map(b"".join)
transactions = st.builds(
    sent, calldata, sender=payers, to=st.sampled_from([TOKEN, SHOP, WALLET]), value=st.integers(0, 2)
)
known_bindings = st.frozensets(st.sampled_from(sorted(KNOWN)))


@given(transactions, logs_of_anything, known_bindings)
def test_each_binding_is_on_one_transfer_at_most_and_was_looked_up(
    given_transaction: Transaction, logs: list[dict[str, Any]], known: frozenset[tuple[bytes, str]]
) -> None:
    found = paid(given_transaction, *logs, known=known)
    bindings = [one.binding for one in found if one.binding is not None]
    assert len(set(bindings)) == len(bindings) <= len(found)
    assert all((one.binding, one.asset) in known for one in found if one.binding is not None)
    looked_up = candidate_bindings(CHAIN, given_transaction, receipt(*logs), WATCHED)
    assert set(bindings) <= set(looked_up)
    assert len(set(looked_up)) == len(looked_up)
    assert len({(one.tx_id, one.log_index) for one in found}) == len(found)


@given(transactions, logs_of_anything, known_bindings, st.data())
def test_taking_a_log_away_never_adds_a_transfer(
    given_transaction: Transaction,
    logs: list[dict[str, Any]],
    known: frozenset[tuple[bytes, str]],
    data: st.DataObject,
) -> None:
    gone = data.draw(st.integers(0, max(0, len(logs) - 1)))
    fewer = [log for place, log in enumerate(logs) if place != gone]

    def moved(these: list[dict[str, Any]]) -> Counter[tuple[str, str, str, int]]:
        found = paid(given_transaction, *these, known=known)
        return Counter((one.asset, one.sender, one.recipient, one.value) for one in found)

    assert moved(fewer) <= moved(logs)


@given(transactions, logs_of_anything)
def test_without_a_known_binding_nothing_is_bound(
    given_transaction: Transaction, logs: list[dict[str, Any]]
) -> None:
    assert not any(bound(*paid(given_transaction, *logs, known=frozenset())))


@given(
    calldata,
    st.lists(
        st.builds(transfer_log, st.sampled_from([BUYER, WALLET]), recipients, values, tokens), max_size=6
    ),
)
def test_a_stranger_who_sends_the_transaction_claims_no_sum_more_often_than_it_was_paid(
    data: bytes, logs: list[dict[str, Any]]
) -> None:
    found = paid(sent(data, sender=THIRD, to=THIRD), *logs)
    sums = Counter((one.recipient, one.value) for one in found)
    for one in found:
        if one.binding is None:
            continue
        claims = [tag for tag in TAGS if tag in tags_in(data, one.recipient.rpartition(":")[2], one.value)]
        assert len(claims) <= sums[one.recipient, one.value]


@given(json_values, st.sampled_from(["logs", "status", "blockHash", "transactionHash"]))
@example([{"address": TOKEN}], "logs")
def test_junk_from_a_node_is_refused_as_such(junk: object, field: str) -> None:
    def read(answer: object) -> None:
        mined = decode_receipt(answer)
        if mined is not None:
            paid_by(CHAIN, sent(b""), mined, WATCHED, KNOWN)

    check_read_or_refused(read, receipt_json(transfer_log(BUYER, SHOP, 500), **{field: junk}))


@given(st.binary(max_size=300))
def test_any_calldata_is_read(data: bytes) -> None:
    found = paid(sent(data, value=5, to=SHOP), transfer_log(BUYER, SHOP, 500))
    assert [one.log_index for one in found] == [-1, 0]
