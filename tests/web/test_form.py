"""Forms: who may have sent one, and what it says."""

from __future__ import annotations

import pytest

from payd.core.errors import Forbidden, InvalidParams, UnsupportedMediaType
from payd.web.call import Request
from payd.web.form import FORM_TYPE, UPLOAD_TYPE, check_same_origin, read_form, read_upload

BASE_URL = "https://pay.example/below"


def sent(headers: dict[str, str], body: bytes = b"") -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("POST", "/d/test/", headers={"host": "pay.example"} | named, body=body)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://pay.example"},
        {"origin": "https://pay.example", "sec_fetch_site": "same-origin"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"host": "127.0.0.1:8420", "origin": "http://127.0.0.1:8420"},
    ],
)
def test_our_own_form_is_let_through(headers: dict[str, str]) -> None:
    check_same_origin(sent(headers), BASE_URL)
    with pytest.raises(Forbidden):
        check_same_origin(sent(headers | {"origin": "https://evil.example"}), BASE_URL)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "null"},
        {"origin": "https://pay.example.evil.example"},
        {"origin": "https://pay.example", "sec_fetch_site": "cross-site"},
        {"origin": "https://pay.example", "sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"origin": ""},
    ],
)
def test_another_sites_form_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Forbidden, match="another site"):
        check_same_origin(sent(headers), BASE_URL)


def test_a_form_says_all_its_fields_and_blank_ones_too() -> None:
    body = b"a=1&a=2&b=&c=%C3%A9+%26"
    assert read_form(sent({"content_type": FORM_TYPE}, body)) == {"a": ["1", "2"], "b": [""], "c": ["é &"]}


def test_what_is_no_form_is_refused() -> None:
    with pytest.raises(UnsupportedMediaType):
        read_form(sent({"content_type": "application/json"}, b"{}"))
    with pytest.raises(InvalidParams):
        read_form(sent({"content_type": FORM_TYPE}, b"a=\xff"))
    with pytest.raises(InvalidParams):
        read_form(sent({"content_type": FORM_TYPE}, b"a=1&b=2&c=3"), 2)


def upload(*parts: bytes, end: bytes = b"--edge--\r\n") -> Request:
    body = b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + end
    return sent({"content-type": f"{UPLOAD_TYPE}; boundary=edge"}, body)


NAME = b'Content-Disposition: form-data; name="name"\r\n\r\nAda & Co'
FILE = b'Content-Disposition: form-data; name="f"; filename="a.png"\r\n\r\n\x00\r\n--edgy\xff'


def test_a_form_with_a_file_is_read_byte_for_byte() -> None:
    assert read_upload(upload(NAME, FILE)) == ({"name": ["Ada & Co"]}, b"\x00\r\n--edgy\xff")
    assert read_upload(upload(NAME)) == ({"name": ["Ada & Co"]}, b"")
    assert read_upload(sent({"content-type": FORM_TYPE}, b"a=1")) == ({"a": ["1"]}, b"")


@pytest.mark.parametrize(
    "request_",
    [
        upload(NAME, end=b""),
        upload(b"\r\nno disposition"),
        upload(b'Content-Disposition: form-data; name="name"\r\n\r\n\xff'),
        upload(*[NAME] * 30),
        sent({"content-type": UPLOAD_TYPE}, b"--edge--"),
    ],
)
def test_a_form_with_a_file_that_cannot_be_read_is_refused(request_: Request) -> None:
    with pytest.raises(InvalidParams):
        read_upload(request_)
