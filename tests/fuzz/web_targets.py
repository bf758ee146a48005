"""Parsers of the doors: bodies of every kind, queries, headers, cookies, forms, and frames of websockets."""

from __future__ import annotations

import contextlib
import socket
import types
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final, cast, get_args

import msgspec
import trio

from payd.core.errors import Forbidden, InvalidParams
from payd.core.option import Result
from payd.web import query
from payd.web.accept import prefers_html, weights
from payd.web.accounts import AccountsIn, accounts_in
from payd.web.asgi import request_of
from payd.web.call import Call, Request, decode_json
from payd.web.checkout.collect import _prefill
from payd.web.client import TrustedProxies, client_ip, rate_key
from payd.web.commands import COMMANDS, run_command
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.dashboard.cookies import (
    is_form_token,
    is_token,
    read_cookie,
    token_hash,
    unpack_flash,
    zone_offset_min,
    zone_place,
)
from payd.web.dashboard.joining import check_email
from payd.web.dashboard.passkeys import _credential_id, check_new
from payd.web.dashboard.payment_create import minor_units
from payd.web.deliveries import StartJob
from payd.web.explain import _names
from payd.web.faults import InjectIn
from payd.web.feed_cursor import read_feed_cursor
from payd.web.form import FORM_TYPE, read_form, read_upload
from payd.web.gateway import ConfirmIn, FetchIn, unwrap_payment_id
from payd.web.merchants import CreateMerchant, PatchMerchant
from payd.web.payments import RecordRefund
from payd.web.scenarios import RunScenario
from payd.web.schema import CreatePayment
from payd.web.settlement_changes import PutSettlement
from payd.web.settlements import CreateSettlements
from payd.web.simulation import ClockIn, SimulateIn, parse_duration_s
from payd.web.sockets import _is_key, is_feed, wants_upgrade
from payd.web.solana_pay import AccountIn
from payd.web.stream_socket import StreamSocket
from payd.web.transfers import MatchIn
from payd.web.webhooks import PutEndpoint, SendTest
from tests.fuzz.core_targets import ADDRESS, FIELDS, ID, MINT
from tests.fuzz.target import Run, Target, finish, of_header, of_text, seeds

# As it is once somebody used a passkey: it is brought late.
import_module("webauthn")

BASE: Final = "https://pay.example.com"
BOUNDARY: Final = b"b"
ACCOUNT: Final = f"eip155:8453:{ADDRESS}"
TX: Final = "0x" + "7a" * 32

BODIES: Final[dict[Any, object]] = {
    CreatePayment: {
        "referenceId": "ORDER-1",
        "amount": {"unit": "iso4217/EUR", "value": "1250"},
        "checkout": {"successUrl": "https://a.example/", "errorUrl": "https://a.example/"},
        "expiresAt": 1_779_100_000,
    },
    CreateMerchant: {
        "merchantName": "Café",
        "merchantEmail": "a@example.com",
        "iconUrl": "https://a.example/i.png",
        "collect": [{"id": "email", "type": "text", "name": "E-mail", "required": True}],
        "checkoutOrigins": ["https://a.example"],
    },
    PatchMerchant: {"merchantName": "B", "status": "active", "iconUrl": None, "collect": []},
    CreateSettlements: {"settlements": [{"asset": f"eip155:1/erc20:{ADDRESS}", "destination": ACCOUNT}]},
    PutSettlement: {"destination": ACCOUNT, "expected": ACCOUNT},
    RecordRefund: {"paymentId": ID, "txId": TX, "note": "broken"},
    MatchIn: {"txId": TX, "chain": "eip155:8453"},
    StartJob: {"since": "2026-05-18T09:59:00Z", "preview": True},
    RunScenario: {"referenceId": "ORDER-1", "amount": {"unit": "iso4217/EUR", "value": "1999"}},
    SimulateIn: {"to": "succeeded", "reason": "because"},
    ClockIn: {"advance": "28h"},
    PutEndpoint: {"url": "https://a.example/hook", "events": ["payment.succeeded"], "headers": {"x": "1"}},
    InjectIn: {"fault": "duplicate", "for": "10m", "events": ["payment.succeeded"]},
    SendTest: {"type": "payment.succeeded"},
    AccountIn: {"account": MINT},
    AccountsIn: {"accounts": [ACCOUNT], "refresh": ["x"]},
    list[str]: [ACCOUNT, f"solana:mainnet:{MINT}"],
    FetchIn: {
        "optionId": "opt_1",
        "data": {"data": "e30"},
        "collectedData": {"fields": [{"id": "dob", "value": "1990-01-01"}]},
    },
    ConfirmIn: {"optionId": "opt_1", "results": [{"type": "walletRpc", "data": [TX, {"a": [1]}]}]},
    dict[str, Any]: {"a": [1, 2.5, None, {"b": "c"}]},
}
"""Every shape in which the API reads a body, with one that fits."""


def _body(kind: Any) -> Run:
    def run(data: bytes) -> None:
        read = decode_json(Request("POST", "/", body=data), kind)
        # The fingerprint of a request is taken over this.
        again = msgspec.json.encode(read)
        assert msgspec.json.encode(msgspec.json.decode(again, type=kind)) == again

    return run


def _call(text: bytes, body: bytes = b"") -> Call:
    request = Request.from_head("GET", "/", text, [])
    request.body = body
    return Call(request, {}, "req_1", cast(Any, None), None, cast(Any, None), "v")


def _query(data: bytes) -> None:
    """Each reader has its own parameter, so that none hides the others' errors."""
    call = _call(data)
    read: list[Any] = [
        lambda: query.one(call, "one"),
        lambda: query.limit_in(call, 100, 20),
        lambda: query.choice(call, "choice", ("a", "b")),
        lambda: query.flag(call, "flag"),
        lambda: query.many(call, "many", ("a", "b")),
        lambda: query.instant_ms(call, "since"),
        lambda: query.poll_ms(call),
    ]
    for one in read:
        try:
            one()
        except InvalidParams:
            continue


def _cursor(text: str) -> None:
    for shape in ((int,), (str,), (int, str)):
        try:
            values = decode_cursor(text, cast(Any, shape))
        except InvalidParams:
            continue
        assert decode_cursor(encode_cursor(*values), cast(Any, shape)) == values
    try:
        place = read_feed_cursor(text)
    except InvalidParams:
        return
    assert read_feed_cursor(str(place)) == place


def _forwarded(text: str) -> None:
    trusted = TrustedProxies(["10.0.0.0/8", "fd00::/8"])
    for peer in ("10.0.0.1", "fd00::1", text[:60]):
        rate_key(client_ip(peer, text, trusted))
        trusted.slot_key(text[:60])


def _cookies(text: str) -> None:
    headers = {"cookie": text}
    zone_offset_min(headers)
    zone_place(headers)
    value = read_cookie(headers, "payd")
    is_token(value)
    token_hash(value)
    unpack_flash(value)
    is_form_token(value, "own")


def _upgrade(data: bytes) -> None:
    """A head as hypercorn hands it over: a path, a query, and headers in lines."""
    target, *lines = data.split(b"\n")
    path, _, text = target.partition(b"?")
    headers = [(name, value) for name, _, value in (one.partition(b":") for one in lines)]
    scope = {
        "path": path.decode("latin-1"),
        "query_string": text,
        "headers": headers,
        "client": ("10.0.0.1", 1),
    }
    request = request_of(scope, TrustedProxies(["10.0.0.0/8"]))
    is_feed(request.path)
    wants_upgrade(request)
    _is_key(request.headers.get("sec-websocket-key", ""))


@cache
def _nobody() -> trio.SocketStream:
    """A connection to nobody."""
    return trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket()))


def _frames(data: bytes) -> None:
    """What a client sends over a websocket, in two pieces."""
    ours = StreamSocket(_nobody(), b"key", b"")
    at = data[0] if data else 0
    for piece in (data[1 : 1 + at], data[1 + at :]):
        if ours._close_code is None and not ours._gone:
            ours._take(piece)


def _form(data: bytes) -> None:
    read_form(Request("POST", "/", headers={"content-type": FORM_TYPE}, body=data))


def _upload(data: bytes) -> None:
    """The type in the first line, the body behind it."""
    kind, _, body = data.partition(b"\n")
    form, _ = read_upload(Request("POST", "/", headers={"content-type": kind.decode("latin-1")}, body=body))
    assert all(isinstance(name, str) for name in form)


_VISIT: Final = cast(
    Any,
    SimpleNamespace(
        house=SimpleNamespace(base_url=BASE, entropy=bytes),
        open_from_form=lambda *_: b"challenge",
        user=SimpleNamespace(id="usr_1"),
        now_ms=0,
    ),
)


def _passkey(text: str) -> None:
    with contextlib.suppress(Forbidden):
        _credential_id(text)
    finish(check_new(_VISIT, text, "", "mine"))


def _command(data: bytes) -> None:
    """The name of a command and its arguments; only those that are refused get no further."""
    name, _, args = data.partition(b" ")
    command = COMMANDS.get(name.decode("utf-8", "replace"))
    if command is None or not _fits(command.args, args):
        finish(run_command(cast(Any, None), name.decode("utf-8", "replace"), msgspec.Raw(args)))


def _fits(kind: Any, args: bytes) -> bool:
    try:
        msgspec.json.decode(args, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def name_of(kind: Any) -> str:
    """The name of a body's type, as handlers write it."""
    return str(kind) if get_args(kind) or isinstance(kind, types.GenericAlias) else str(kind.__name__)


PASSKEY: Final = {
    "id": "AAAA",
    "rawId": "AAAA",
    "type": "public-key",
    "authenticatorAttachment": "platform",
    "response": {
        "clientDataJSON": "eyJ0eXBlIjoid2ViYXV0aG4uY3JlYXRlIiwiY2hhbGxlbmdlIjoiWTJoaGJHeGxibWRsIiwi"
        "b3JpZ2luIjoiaHR0cHM6Ly9wYXkuZXhhbXBsZS5jb20ifQ",
        "attestationObject": "o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YVgl" + "A" * 43 + "BFAAAAAA",
        "transports": ["internal"],
    },
    "clientExtensionResults": {},
}

MULTIPART: Final = (
    b'multipart/form-data; boundary=b\n--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    b'--b\r\nContent-Disposition: form-data; name="logo"; filename="l.png"\r\nContent-Type: image/png\r\n\r\n'
    b"\x89PNG\r\n--b--\r\n"
)

TARGETS: Final = {
    **{f"body {name_of(kind)}": Target(_body(kind), seeds(fits)) for kind, fits in BODIES.items()},
    "body results": Target(_body(list[Result]), seeds([{"type": "walletRpc", "data": [TX]}])),
    "accounts": Target(
        lambda data: accounts_in(_call(b"", data)), seeds([ACCOUNT], {"accounts": [f"solana:mainnet:{MINT}"]})
    ),
    "query": Target(
        _query,
        seeds(
            "one=1&limit=50&choice=a&flag=true&many=a,b&many=a&since=2026-05-18T09:59:00+02:00&maxPollMs=100",
            "since=9999-12-31T23:59:59-23:59",
            "since=0001-01-01T00:00:00+23:59",
        ),
        (),
    ),
    "cursor": Target(
        of_text(_cursor),
        seeds(encode_cursor(5), encode_cursor(5, 1), encode_cursor("a"), encode_cursor(2**63 - 1, "b")),
        (),
    ),
    "clock duration": Target(of_text(parse_duration_s), seeds("300s", "15m", "28h", "5d")),
    "accept": Target(
        of_header(lambda text: (prefers_html(text), weights(text))),
        seeds("text/html;q=0.5, a/b;q=nan;q=inf"),
        (),
    ),
    "x-forwarded-for": Target(
        of_header(_forwarded),
        seeds("1.2.3.4:5, [2001:db8::1]:6, ::ffff:1.2.3.4, fe80::1%eth0", "10.0.0.1"),
        (),
    ),
    "cookie": Target(
        of_header(_cookies),
        seeds("payd=VGhl; payd-zone=-120; payd-place=Asia/Tokyo", "payd-zone=" + "9" * 5000),
        (),
    ),
    "upgrade": Target(
        _upgrade,
        seeds(
            f"/v1/payments/{ID}/feed?x=1\nconnection:Upgrade\nupgrade:websocket\n"
            "sec-websocket-key:dGhlIHNhbXBsZSBub25jZQ==\nx-forwarded-for:1.2.3.4"
        ),
        (),
    ),
    "websocket frames": Target(
        _frames,
        (
            b"\x06\x8a\x80\1\2\3\4",
            b"\x03\x89\x81\1\2\3\4\5\x88\x82\0\0\0\0\x03\xe8",
            b"\x09\x81\xfe\xff\xff\0\0\0\0",
        ),
        (),
    ),
    "form": Target(_form, seeds("a=1&b=%C3%A9&a=", "x=%ff")),
    "multipart": Target(
        _upload,
        (
            MULTIPART,
            MULTIPART.replace(b"boundary=b", b"boundary*=utf-8''%C3%A9"),
            MULTIPART.replace(b' name="a"', b""),
        ),
    ),
    "passkey": Target(of_text(_passkey), seeds(PASSKEY, '{"id":"A","x":' + "[" * 5000)),
    "amount typed": Target(of_text(lambda text: minor_units(text, "EUR")), seeds("12.50", "1,5")),
    "email typed": Target(of_text(check_email), seeds("a@example.com", "a@localhost")),
    "payment in a path": Target(
        of_text(lambda text: unwrap_payment_id(text, BASE)),
        seeds(ID, f"{BASE}/pay/{ID}", f"https%3A%2F%2Fpay.example.com/?pid={ID}"),
    ),
    "prefill": Target(
        of_text(lambda text: _prefill(text, FIELDS)), seeds("eyJmdWxsTmFtZSI6IkFkYSJ9", "W1tbW1tb" * 1000), ()
    ),
    "webhook explained": Target(
        _names, seeds({"id": "evt_1", "data": {"payment_id": ID}}, b'{"id":"\xff"}', b"[" * 5000), ()
    ),
    "command": Target(
        _command, seeds('key.create {"mode":"test"}', "x {}", 'webhook.explain {"bodyB64":"\xff"}')
    ),
}
