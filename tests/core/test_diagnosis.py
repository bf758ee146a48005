"""Why a delivery does not verify: each change on its way has its own name, and nothing else is accepted."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.diagnosis import Diagnosis, Kind, Received, diagnose, lateness, signer_of
from payd.core.endpoint import EVENT_TYPES, Secret
from payd.core.event import sample_event
from payd.core.signature import SECRET_PREFIX, TOLERANCE_S, digest, make_secret, sign

NOW_S = 1_780_000_000
SECRET = make_secret(b"s" * 32)
OTHER = make_secret(b"o" * 32)
MESSAGE_ID = "msg_1"


def an_event(event_type: str = "payment.succeeded") -> bytes:
    return sample_event(
        event_type, event_id="evt_1", payment_id="pay_t1", merchant_id="mrch_1", now_ms=NOW_S * 1000
    )


BODY = an_event()
UNICODE = b'{"id":"evt_1","name":"Caf\xc3\xa9 / \xe2\x82\xac","n":[1,2]}'


def found(
    *,
    secret: str = SECRET,
    sent: bytes = BODY,
    body: bytes | None = None,
    message_id: str = MESSAGE_ID,
    timestamp: str = str(NOW_S),
    signature: str | None = None,
    now_s: int = NOW_S,
) -> Diagnosis:
    """What is said of a delivery that was signed with `SECRET` as `MESSAGE_ID` at `NOW_S`."""
    signed = sign([OTHER, SECRET], MESSAGE_ID, NOW_S, sent) if signature is None else signature
    return diagnose([secret], Received(message_id, timestamp, signed, sent if body is None else body), now_s)


def test_an_authentic_delivery_is_found_to_be_one() -> None:
    assert found().kind is Kind.AUTHENTIC
    assert found(secret=OTHER).kind is Kind.AUTHENTIC


def test_one_of_several_secrets_is_enough_and_one_is_needed() -> None:
    received = Received(MESSAGE_ID, str(NOW_S), sign([SECRET], MESSAGE_ID, NOW_S, BODY), BODY)
    assert diagnose([OTHER, SECRET], received, NOW_S).kind is Kind.AUTHENTIC
    assert diagnose([OTHER], received, NOW_S).kind is Kind.WRONG_SECRET
    with pytest.raises(ValueError, match="a secret"):
        diagnose([], received, NOW_S)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("hunter2", "must begin with whsec_"),
        ("whsec_!", "base64"),
        ("", "must begin"),
        (f"{SECRET}\n", "white space around"),
        (f'"{SECRET}"', "quotes"),
        ('"hunter2"', "must begin with whsec_"),
    ],
)
def test_a_malformed_secret_is_named_and_not_repeated(secret: str, words: str) -> None:
    said = found(secret=secret)
    assert (said.kind, words in said.words) == (Kind.MALFORMED_SECRET, True)
    assert "hunter2" not in said.words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"message_id": ""}, "webhook-id header is empty"),
        ({"timestamp": "yesterday"}, "whole Unix seconds"),
        ({"timestamp": f"{NOW_S}.5"}, "whole Unix seconds"),
        ({"timestamp": f"{NOW_S}123"}, "milliseconds"),
        ({"signature": ""}, "signature header is empty"),
        ({"signature": "  "}, "signature header is empty"),
        (
            {"signature": "v1,AAAA"},
            "is cut: after `v1,` there must be 44 characters of base64, and there are 4",
        ),
        ({"signature": "v1,"}, "is cut"),
        ({"signature": "v1," + "A" * 88}, "too long"),
        ({"signature": "v1a,abc v2,def"}, "has only v1a and v2"),
        ({"signature": "sha256=abcdef"}, "must be `v1,` and a digest"),
    ],
)
def test_a_header_of_another_shape_is_named(changes: dict[str, str], words: str) -> None:
    said = found(**changes)  # type: ignore[arg-type]
    assert (said.kind, words in said.words) == (Kind.MALFORMED_HEADER, True), said


def test_a_cut_signature_is_told_from_a_wrong_one() -> None:
    signature = sign([SECRET], MESSAGE_ID, NOW_S, BODY)
    assert "there are 40" in found(signature=signature[:-4]).words
    assert found(signature="v1," + "A" * 43 + "=").kind is Kind.WRONG_SECRET


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda header: header.replace("v1,", ""),
        lambda header: header.replace(" ", ","),
        lambda header: header.replace(" ", ", "),
        lambda header: header.replace("v1,", "v1="),
        lambda header: header.replace("=", ""),
        lambda header: header.replace("+", "-").replace("/", "_").replace("=", ""),
        lambda header: f'"{header}"',
        lambda header: header.replace("v1,", "v2,"),
    ],
)
def test_a_rewritten_signature_header_is_told_from_a_wrong_one(rewrite: object) -> None:
    assert callable(rewrite)
    signed = {at: sign([SECRET, OTHER], MESSAGE_ID, at, BODY) for at in range(NOW_S, NOW_S + 100)}
    # One whose digest has both of the characters that the alphabet for URLs writes otherwise.
    at, header = next((at, header) for at, header in signed.items() if {"+", "/"} <= set(header.split()[0]))
    said = found(signature=rewrite(header), timestamp=str(at), now_s=at)
    assert said.kind is Kind.REWRITTEN_HEADER


@pytest.mark.parametrize(
    ("shift_s", "words"),
    [
        (TOLERANCE_S + 1, "is 5 min 1 s old and 5 minutes are allowed. It is an old or replayed delivery"),
        (90_061, "1 d 1 h old"),
        (86_400 + 59, "1 d old"),
        (-TOLERANCE_S - 1, "from 5 min 1 s in the future and 5 minutes are allowed. This machine's clock"),
        (-7200, "2 h in the future"),
    ],
)
def test_a_time_that_is_off_is_told_by_how_much_and_which_way(shift_s: int, words: str) -> None:
    said = found(now_s=NOW_S + shift_s)
    assert said.kind is Kind.STALE_TIMESTAMP
    assert words in said.words
    assert "Secret and body are right" in said.words
    received = Received(MESSAGE_ID, str(NOW_S), sign([SECRET], MESSAGE_ID, NOW_S, BODY), BODY)
    assert diagnose([SECRET, OTHER], received, NOW_S + shift_s) == said, "whichever secret comes last"


@given(st.integers(-TOLERANCE_S, TOLERANCE_S))
def test_within_five_minutes_nothing_is_late(shift_s: int) -> None:
    assert lateness(str(NOW_S), NOW_S + shift_s) is None
    assert found(now_s=NOW_S + shift_s).kind is Kind.AUTHENTIC


def test_the_events_id_instead_of_the_messages_is_noticed() -> None:
    assert "begins with msg_" in found(message_id="evt_1").words
    assert found(message_id="evt_1").kind is Kind.WRONG_ID
    assert found(message_id=" msg_1\n").kind is Kind.WRONG_ID


def test_a_signature_over_the_events_id_is_noticed() -> None:
    said = found(signature=sign([SECRET], "evt_1", NOW_S, BODY))
    assert (said.kind, "over the event's id" in said.words) == (Kind.WRONG_ID, True)


@pytest.mark.parametrize("sent", [BODY, UNICODE], ids=["event", "unicode"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: b"\xef\xbb\xbf" + body, "byte order mark"),
        (lambda body: body + b"\n", "line end"),
        (lambda body: body + b"\r\n", "line end"),
        (lambda body: b"  " + body + b" \n", "white space"),
        (lambda body: base64.b64encode(body), "base64"),
        (lambda body: base64.b64encode(body) + b"\n", "base64"),
        (lambda body: msgspec.json.encode(body.decode()), "JSON string"),
        (lambda body: json.dumps(json.loads(body)).encode(), "parsed and written again"),
        (lambda body: json.dumps(json.loads(body), indent=2).encode(), "parsed and written again"),
        (lambda body: json.dumps(json.loads(body), indent="\t").replace("\n", "\r\n").encode(), "parsed and"),
        (lambda body: msgspec.json.encode(msgspec.json.decode(body)).replace(b"/", rb"\/"), "parsed and"),
    ],
)
def test_a_body_that_was_changed_is_told_how(sent: bytes, change: object, words: str) -> None:
    assert callable(change)
    said = found(sent=sent, body=change(sent))
    assert said.kind is Kind.CHANGED_BODY
    assert words in said.words
    assert "The secret is right, but" in said.words


def test_a_body_that_was_decoded_as_latin_1_is_told_so() -> None:
    said = found(sent=UNICODE, body=UNICODE.decode("latin-1").encode())
    assert (said.kind, "Latin-1" in said.words) == (Kind.CHANGED_BODY, True)


def test_line_ends_that_were_changed_are_told_so() -> None:
    said = found(sent=b"a\nb", body=b"a\r\nb")
    assert (said.kind, "line ends" in said.words) == (Kind.CHANGED_BODY, True)


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_the_order_of_an_events_keys_is_restored(event_type: str) -> None:
    sent = an_event(event_type)
    said = found(sent=sent, body=json.dumps(json.loads(sent), sort_keys=True).encode())
    assert (said.kind, "another order" in said.words) == (Kind.CHANGED_BODY, True)


def test_every_golden_event_can_be_put_back_into_its_order() -> None:
    golden = sorted((Path(__file__).parent / "golden").rglob("*.json"))
    assert golden, "the events are there"
    for path in golden:
        sent = msgspec.json.encode(msgspec.json.decode(path.read_bytes()))
        said = found(sent=sent, body=json.dumps(json.loads(sent), sort_keys=True).encode())
        assert said.kind is Kind.CHANGED_BODY, path.name


def test_where_the_order_of_keys_is_not_known_it_is_said_that_it_cannot_be_undone() -> None:
    said = found(sent=UNICODE, body=json.dumps(json.loads(UNICODE), sort_keys=True).encode())
    assert said.kind is Kind.WRONG_SECRET
    assert "cannot be undone here" in said.words


def test_an_empty_body_and_a_part_of_one_are_named() -> None:
    assert (found(body=b"").kind, "read before" in found(body=b"").words) == (Kind.CHANGED_BODY, True)
    part = msgspec.json.encode(msgspec.json.decode(BODY)["data"])
    assert "only the `data`" in found(body=part).words


def test_a_secret_that_was_used_as_text_is_noticed() -> None:
    for key in (SECRET, SECRET.removeprefix(SECRET_PREFIX)):
        signature = f"v1,{digest(key.encode(), MESSAGE_ID, str(NOW_S), BODY)}"
        said = found(signature=signature)
        assert (said.kind, "text of the secret" in said.words) == (Kind.RAW_SECRET, True)
        assert key not in said.words


def test_another_secret_is_what_remains() -> None:
    said = found(secret=make_secret(b"x" * 32))
    assert said.kind is Kind.WRONG_SECRET
    assert "another endpoint or mode" in said.words
    assert "compact JSON" not in said.words
    short = SECRET_PREFIX + base64.b64encode(b"x" * 24).decode()
    assert "hold 32 bytes, this one 24" in found(secret=short).words


def test_a_changed_body_that_is_late_too_is_told_both() -> None:
    said = found(body=BODY + b"\n", now_s=NOW_S + 3600)
    assert said.kind is Kind.CHANGED_BODY
    assert said.words.endswith("or a clock that is ahead here.")
    assert "Moreover, the delivery is 1 h old" in said.words


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"\xff\xfe", b"null", b"1e400", b'"\\ud800"', b"9" * 400, b'{"id":5}', b"A" * 44]
)
def test_no_body_is_too_strange(body: bytes) -> None:
    assert found(body=body).kind is Kind.WRONG_SECRET


@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=120), st.binary(max_size=80))
def test_what_was_not_signed_never_is_authentic(
    message_id: str, timestamp: str, signature: str, body: bytes
) -> None:
    said = diagnose([SECRET, OTHER], Received(message_id, timestamp, signature, body), NOW_S)
    assert said.kind is not Kind.AUTHENTIC
    for secret in (SECRET, OTHER):
        assert secret.removeprefix(SECRET_PREFIX) not in said.words


def test_the_secret_that_signed_is_found_the_current_one_first() -> None:
    current = Secret(make_secret(b"c" * 32), 3)
    before = Secret(make_secret(b"b" * 32), 2, 100)
    oldest = Secret(make_secret(b"a" * 32), 1, 50)
    secrets = [oldest, before, current]

    def signed(*by: Secret) -> Received:
        header = sign([one.value for one in by], MESSAGE_ID, NOW_S, BODY)
        return Received(MESSAGE_ID, str(NOW_S), header, BODY)

    assert signer_of(secrets, signed(oldest, before, current)) is current
    assert signer_of(secrets, signed(oldest, before)) is before
    assert signer_of(secrets, signed(oldest)) is oldest
    assert signer_of(secrets, signed(Secret(SECRET, 4))) is None
    assert signer_of([], signed(current)) is None
