"""Standard Webhooks signatures."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from payd.core.signature import (
    SECRET_BYTES,
    TOLERANCE_S,
    MalformedHeader,
    MalformedSecret,
    SignatureMismatch,
    SignatureRefused,
    StaleTimestamp,
    key_of,
    make_secret,
    sign,
    verify,
)

# The vector of the scheme's own libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
NOW_S = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

secrets = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES).map(make_secret)


def check(
    secret: str = SECRET,
    *,
    message_id: str = MESSAGE_ID,
    timestamp: str = str(NOW_S),
    signature: str = SIGNATURE,
    body: bytes = BODY,
    now_s: int = NOW_S,
) -> None:
    verify(secret, message_id=message_id, timestamp=timestamp, signature=signature, body=body, now_s=now_s)


def test_the_published_vector_is_signed_as_published() -> None:
    assert sign([SECRET], MESSAGE_ID, NOW_S, BODY) == SIGNATURE
    check()


@given(st.lists(secrets, min_size=1, max_size=5, unique=True), st.binary(max_size=200))
def test_each_secret_verifies_what_all_of_them_signed(all_secrets: list[str], body: bytes) -> None:
    header = sign(all_secrets, MESSAGE_ID, NOW_S, body)

    assert header.count(" ") == len(all_secrets) - 1
    for secret in all_secrets:
        check(secret, signature=header, body=body)


@given(secrets, st.text(max_size=50))
def test_an_independent_library_agrees_on_the_signature(secret: str, text: str) -> None:
    signed_at = datetime.fromtimestamp(NOW_S, UTC)

    assert sign([secret], MESSAGE_ID, NOW_S, text.encode()) == Webhook(secret).sign(
        MESSAGE_ID, signed_at, text
    )


@given(secrets, st.binary(min_size=1, max_size=60), st.data())
def test_one_flipped_bit_of_the_body_breaks_the_signature(
    secret: str, body: bytes, data: st.DataObject
) -> None:
    header = sign([secret], MESSAGE_ID, NOW_S, body)
    place = data.draw(st.integers(0, len(body) * 8 - 1))
    changed = bytearray(body)
    changed[place // 8] ^= 1 << place % 8

    with pytest.raises(SignatureMismatch):
        check(secret, signature=header, body=bytes(changed))


def test_a_signature_of_another_secret_or_message_does_not_fit() -> None:
    with pytest.raises(SignatureMismatch):
        check(make_secret(bytes(32)))
    with pytest.raises(SignatureMismatch):
        check(message_id="msg_other")


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "v1",
        "v1,",
        SIGNATURE[3:],
        SIGNATURE.replace("v1,", "v2,"),
        SIGNATURE + ",",
        SIGNATURE.lower(),
        "v1,é",
    ],
)
def test_an_entry_that_is_not_the_v1_digest_does_not_fit(signature: str) -> None:
    with pytest.raises(SignatureMismatch):
        check(signature=signature)


def test_entries_that_are_not_ours_are_passed_over() -> None:
    check(signature=f"v1a,xyz v1,AAAA {SIGNATURE} v2,abc")


@pytest.mark.parametrize("shift_s", [-TOLERANCE_S, 0, TOLERANCE_S])
def test_five_minutes_either_way_are_fresh(shift_s: int) -> None:
    check(now_s=NOW_S + shift_s)


@pytest.mark.parametrize("shift_s", [-TOLERANCE_S - 1, TOLERANCE_S + 1])
def test_more_than_five_minutes_either_way_are_stale(shift_s: int) -> None:
    with pytest.raises(StaleTimestamp, match="301 s from now"):
        check(now_s=NOW_S + shift_s)


def test_a_stale_delivery_with_a_wrong_signature_is_a_mismatch() -> None:
    with pytest.raises(SignatureMismatch):
        check(signature="v1,AAAA", now_s=NOW_S + 9999)


@pytest.mark.parametrize("timestamp", ["", "1614265330.5", " 1614265330", "-1", "１６１４", "1" * 13])
def test_a_timestamp_is_whole_seconds(timestamp: str) -> None:
    with pytest.raises(MalformedHeader, match="webhook-timestamp"):
        check(timestamp=timestamp)


def test_a_message_id_is_needed() -> None:
    with pytest.raises(MalformedHeader, match="webhook-id"):
        check(message_id="")


@given(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES))
def test_a_secret_holds_its_key(entropy: bytes) -> None:
    secret = make_secret(entropy)

    assert secret == "whsec_" + base64.b64encode(entropy).decode()
    assert key_of(secret) == entropy


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_is_made_of_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        make_secret(bytes(size))


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "MfKQ9r8G", "WHSEC_MfKQ9r8G", "whsec_a", "whsec_MfKQ!9r8G", "whsec_é"]
)
def test_what_is_not_whsec_and_base64_is_no_secret_and_is_not_repeated(secret: str) -> None:
    with pytest.raises(MalformedSecret) as caught:
        key_of(secret)
    assert isinstance(caught.value, SignatureRefused)
    assert "MfKQ" not in str(caught.value)


@pytest.mark.parametrize(("all_secrets", "message_id"), [([], MESSAGE_ID), ([SECRET], "msg.1")])
def test_signing_takes_a_secret_and_an_id_without_a_dot(all_secrets: list[str], message_id: str) -> None:
    with pytest.raises(ValueError, match="without a dot"):
        sign(all_secrets, message_id, NOW_S, BODY)
