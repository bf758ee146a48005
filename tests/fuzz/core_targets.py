"""Parsers of the core and of the command line: ids, amounts, signatures, pictures, files."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from payd.actors import picture_child
from payd.chains.keystore import KeystoreUnusable, addresses_in, read_key
from payd.config.loader import ConfigError, load
from payd.core import caip, money
from payd.core.collect import Field, check_answers, problems
from payd.core.csv import cell, line
from payd.core.diagnosis import Received, diagnose
from payd.core.endpoint import check_events, check_url
from payd.core.header import check_headers
from payd.core.idempotency import check_key
from payd.core.ids import api_key_realm, hash_api_key, is_id, realm_of
from payd.core.password import check_password
from payd.core.period import bounds_ms
from payd.core.picture import digest_in, kind_of
from payd.core.retry import read_retry_after_s
from payd.core.search import read_search
from payd.core.signature import SignatureRefused, make_secret, verify
from payd.core.totp import clean_code, matching_step, recovery_hash
from payd.core.url import is_https_url, is_origin
from payd.core.version import DEFAULT, resolve
from tests.fuzz.target import Target, of_argument, of_header, of_text, seeds

ADDRESS: Final = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
MINT: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
ID: Final = "pay_t01jvkq0000000000000000000000000000000"
SECRET: Final = make_secret(bytes(range(32)))
FIELDS: Final = (
    Field("fullName", "text", "Name", True),
    Field("dob", "date", "Born", True),
    Field("terms", "checkbox", "Terms", False),
)
NOW_S: Final = 1_779_098_340


def _chain(text: str) -> None:
    chain = caip.parse_chain(text)
    assert str(chain) == text
    once = caip.canonical_chain(chain)
    assert caip.canonical_chain(once) == once == caip.parse_chain(str(once))


def _account(text: str) -> None:
    account = caip.parse_account(text)
    assert str(account) == text
    caip.account_problem(account)
    once = caip.canonical_account(account)
    assert caip.canonical_account(caip.parse_account(once)) == once


def _asset(text: str) -> None:
    asset = caip.parse_asset(text)
    assert str(asset) == text
    once = caip.canonical_asset(asset)
    assert caip.canonical_asset(caip.parse_asset(once)) == once


def _destination(text: str) -> None:
    asset, _, account = text.partition(" ")
    caip.destination_problem(caip.parse_asset(asset), caip.parse_account(account))


def _amount(text: str) -> None:
    unit, _, value = text.partition(" ")
    code, minor = money.parse_fiat(unit, value)
    assert money.fiat_amount(code, minor) == money.AmountWire(unit, value)


def _ids(text: str) -> None:
    realm_of(text)
    api_key_realm(text)
    digest_in(text)
    assert len(hash_api_key(text)) == 32
    assert not is_id(text, "mrch_") or text.isascii()


def _signature(text: str) -> None:
    message_id, timestamp, signature, body = (*text.split("\n", 3), "", "", "")[:4]
    raw = body.encode("utf-8", "surrogateescape")
    # What a payd tells of a delivery is more than whether it fits; it never fails.
    diagnose([SECRET], Received(message_id, timestamp, signature, raw), NOW_S)
    verify(SECRET, message_id=message_id, timestamp=timestamp, signature=signature, body=raw, now_s=NOW_S)


def _secret(text: str) -> None:
    diagnose([text], Received("msg_1", str(NOW_S), "v1,x", b"{}"), NOW_S)
    verify(text, message_id="msg_1", timestamp="1", signature="v1,x", body=b"", now_s=1)


def _webhook_headers(text: str) -> None:
    pairs = (pair.partition(":") for pair in text.split("\n"))
    checked = check_headers({name: value for name, _, value in pairs})
    assert check_headers(checked) == checked


def _url(text: str) -> None:
    is_https_url(text)
    is_origin(text)
    scheme, host, port = check_url(text, allow_http=True)
    assert host.isascii()
    shown = f"[{host}]" if ":" in host else host
    assert check_url(f"{scheme}://{shown}:{port}", allow_http=True) == (scheme, host, port)


def _days(text: str) -> None:
    first, _, last = text.partition(" ")
    bounds_ms(first, last, 60)


def _answers(text: str) -> None:
    given = [(name, value) for name, _, value in (pair.partition("=") for pair in text.split("\n"))]
    problems(FIELDS, dict(given))
    check_answers(FIELDS, given)


def _codes(text: str) -> None:
    matching_step("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", clean_code(text), NOW_S * 1000, 0)
    recovery_hash("usr_1", clean_code(text))


def _cells(text: str) -> None:
    texts = [text, text[::-1]]
    (read,) = csv.reader(io.StringIO(line(texts).decode(), newline=""))
    assert read == [cell(one) for one in texts]


def _picture(data: bytes) -> None:
    kind = kind_of(data)
    try:
        drawn = picture_child.draw(data, kind, 64, 30_000, (1_000_000, 32, 1024))
    except Exception:  # noqa: BLE001 - whatever a decoder says; the process that draws says one word for it
        return
    assert drawn[:4] == b"RIFF"


def _in_file(data: bytes) -> Path:
    """One file for all: it is in memory where there is such a place, and only its owner may read it."""
    there = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    path = there / f"payd-fuzz-{os.getpid()}"
    path.touch(0o600)
    path.write_bytes(data)
    return path


def _config(data: bytes) -> None:
    path = _in_file(data)
    try:
        load(path)
    finally:
        path.unlink()


def _keystore(data: bytes) -> None:
    path = _in_file(data)
    try:
        addresses_in(path)
        read_key(path, "a password")
    finally:
        path.unlink()


# A key derived in no time: the parser is meant here, not the password.
CRYPTO: Final[dict[str, Any]] = {
    "cipher": "aes-128-ctr",
    "cipherparams": {"iv": "6087dab2f9fdbbfaddc31a909735c1e6"},
    "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
    "kdf": "pbkdf2",
    "kdfparams": {"c": 2, "dklen": 32, "prf": "hmac-sha256", "salt": "ae" * 32},
    "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2",
}
KEYSTORE: Final[dict[str, Any]] = {
    "version": 3,
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "address": "7e5f4552091a69125d5dfcb7b8c2659029395bdf",
    "crypto": CRYPTO,
}
SCRYPT: Final = {"n": 2, "r": 1, "p": 1, "dklen": 32, "salt": "ab" * 32}

RECEIVED: Final = f"msg_1\n{NOW_S}\nv1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4= v2,x\n".encode()

CONFIG: Final = """
data_dir = "data"
[api]
listen = "127.0.0.1:8080"
[[chains]]
kind = "evm"
id = "eip155:8453"
nodes = ["https://node.example.com"]
"""

PNG: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000200000002008020000 00fc18eda3".replace(" ", "")
)

TARGETS: Final = {
    "caip2": Target(of_text(_chain), seeds("eip155:8453", "solana:mainnet"), (caip.MalformedCaip,)),
    "caip10": Target(
        of_text(_account), seeds(f"eip155:1:{ADDRESS}", f"solana:mainnet:{MINT}"), (caip.MalformedCaip,)
    ),
    "caip19": Target(
        of_text(_asset),
        seeds(f"eip155:1/erc20:{ADDRESS}", f"solana:mainnet/spl:{MINT}", "eip155:56/slip44:60"),
        (caip.MalformedCaip,),
    ),
    "destination": Target(
        of_text(_destination),
        seeds(
            f"eip155:1/erc20:{ADDRESS} eip155:1:{ADDRESS}",
            f"solana:mainnet/token:{MINT} solana:mainnet:{MINT}",
        ),
        (caip.MalformedCaip,),
    ),
    "amount": Target(of_text(_amount), seeds("iso4217/EUR 1250", "iso4217/JPY 1")),
    "ids": Target(of_header(_ids), seeds(ID, "svc_test_" + "0" * 52, "0" * 32 + ".webp"), ()),
    "idempotency key": Target(of_header(lambda text: check_key(text, True)), seeds("order-1", ' "a b"\t')),
    "version header": Target(
        of_header(lambda text: resolve(text, DEFAULT)), seeds(DEFAULT, "2026-02-19.preview")
    ),
    "retry-after": Target(
        of_header(lambda text: read_retry_after_s(503, text, NOW_S)),
        seeds("120", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 -0000", "1 Jan 70 1:1"),
        (),
    ),
    "webhook signature": Target(
        of_argument(_signature),
        seeds(
            RECEIVED + b'{"id":"evt_1"}', RECEIVED + b'{"id":"evt_1\xff"}', RECEIVED + b'{"id":' + b"[" * 5000
        ),
        (SignatureRefused,),
    ),
    "webhook secret": Target(of_argument(_secret), seeds(SECRET, "whsec_"), (SignatureRefused,)),
    "webhook headers": Target(of_text(_webhook_headers), seeds("x-shop:1\nauthorization:Bearer a b")),
    "event types": Target(
        of_text(lambda text: check_events(text.split(","))), seeds("payment.succeeded,x", "")
    ),
    "url": Target(
        of_text(_url),
        seeds("https://bücher.example:8443/a?b=c#d", "http://[::1]:80/", "https://a.b", "http://localhost"),
    ),
    "password": Target(
        of_text(lambda text: check_password(text, "a.person@example.com")), seeds("correct horse 12")
    ),
    "days": Target(of_text(_days), seeds("2026-05-18 2026-05-19", "1970-01-01 ", "2026-W01-1 ")),
    "collected answers": Target(of_text(_answers), seeds("fullName=Ada\ndob=1990-02-29\nterms=yes")),
    "one-time code": Target(of_text(_codes), seeds("123 456", "ABCD-EFGH"), ()),
    "search": Target(
        of_text(read_search),
        seeds(ID, f"https://shop.example/pay/{ID}", "0x" + "7a" * 32, f"eip155:1:{ADDRESS}", MINT),
        (),
    ),
    "csv cell": Target(of_text(_cells), seeds("=1+1", 'a "b", c', "x\r\ny", "＝1"), ()),
    "picture": Target(
        _picture,
        (
            PNG,
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\1",
            b"RIFF\x24\0\0\0WEBPVP8L",
            b"\0\0\0\x1cftypavif\0\0\0\0avif",
            b"<svg >",
        ),
    ),
    "payd.toml": Target(
        _config,
        seeds(CONFIG, "a = " + "[" * 5000, "a = " + "9" * 5000, "a = 9999-99-99", b"\xff"),
        (ConfigError,),
    ),
    "keystore": Target(
        _keystore,
        seeds(
            KEYSTORE | {"crypto": CRYPTO | {"kdf": "scrypt", "kdfparams": SCRYPT | {"r": 0}}},
            KEYSTORE
            | {"crypto": CRYPTO | {"kdfparams": {"c": 1, "dklen": 10**12, "prf": "hmac-sha256", "salt": ""}}},
            KEYSTORE,
            KEYSTORE | {"crypto": CRYPTO | {"kdf": "scrypt", "kdfparams": SCRYPT}},
            b'{"x":' + b"[" * 5000,
            b'{"version":3,"address":"\xff"',
        ),
        (KeystoreUnusable,),
    ),
}
