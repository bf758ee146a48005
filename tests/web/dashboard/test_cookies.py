"""Cookies: their names, what protects them, and what comes back."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.entropy import system_entropy
from payd.web.call import Request
from payd.web.dashboard.cookies import (
    FLASH_MAX,
    Cookies,
    form_token,
    is_form_token,
    is_token,
    new_token,
    pack_flash,
    read_cookie,
    token_hash,
    unpack_flash,
    zone_offset_min,
    zone_place,
)


def test_over_https_no_other_host_can_set_them() -> None:
    name, value = Cookies.at("https://pay.example/below").session("t")
    assert name == "Set-Cookie"
    assert value == "__Host-payd-session=t; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure"


def test_over_http_each_port_has_its_own() -> None:
    cookies = Cookies.at("http://127.0.0.1:8420")
    assert cookies.session("t")[1] == "payd-session-8420=t; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax"
    assert Cookies.at("http://localhost").name("door") == "payd-door-80"
    assert cookies.read({"cookie": "payd-session-8421=b; payd-session-8420=a"}, "session") == "a"


def test_one_is_taken_back_by_an_end_that_is_now() -> None:
    assert "=; Path=/; Max-Age=0;" in Cookies.at("https://pay.example").drop("session")[1]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(
            ("a=1", "1"),
            ("b=2; a=1", "1"),
            ("b=2, a=1", ""),
            ("a=1=2", "1=2"),
            ("ba=1", ""),
            ("a", ""),
            ("", ""),
        ),
        ("b=2;\ta=1", "1"),
        # By any host, as browsers do not take it for the same name.
        *((f"{blank}a=2; a=1", "1") for blank in "\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"),
    ],
)
def test_a_cookie_is_read_from_among_others(header: str, value: str) -> None:
    assert read_cookie({"cookie": header}, "a") == value


def test_cookies_in_headers_of_their_own_are_read_all() -> None:
    heads = [(b"cookie", b"b=2"), (b"cookie", b"a=1"), (b"accept", b"x"), (b"accept", b"y")]
    request = Request.from_head("GET", "/", b"", heads)
    assert [read_cookie(request.headers, name) for name in ("a", "b")] == ["1", "2"]
    assert request.headers["accept"] == "x, y"


def test_a_token_is_known_by_its_shape_and_stored_by_its_hash() -> None:
    tokens = {new_token(system_entropy, 0) for _ in range(50)}
    assert len(tokens) == 50
    assert all(is_token(one) for one in tokens)
    assert len({token_hash(one) for one in tokens}) == 50
    assert not any(is_token(one) for one in ("", "x" * 35, "X" * 36, "x" * 36 + "\n"))


def test_a_forms_token_is_its_subjects_alone() -> None:
    found = {form_token(key, subject) for key in (b"1", b"2") for subject in ("a", "b")}
    assert len(found) == 4
    assert form_token(b"1", "a") in found


@given(st.text(max_size=FLASH_MAX // 4))
def test_a_sentence_survives_its_cookie(text: str) -> None:
    packed = pack_flash(text)
    assert packed.replace("-", "").replace("_", "").isalnum() or not text
    assert unpack_flash(packed) == text


@given(st.text(max_size=50))
def test_whatever_a_browser_brings_is_no_error(text: str) -> None:
    assert isinstance(unpack_flash(text), str)
    assert -14 * 60 <= zone_offset_min({"cookie": f"payd-zone={text}"}) <= 14 * 60
    assert zone_place({"cookie": f"payd-place={text}"}) is None or text.strip()


def test_the_zone_is_what_the_page_measured() -> None:
    assert zone_offset_min({"cookie": "payd-zone=-210"}) == -210
    assert zone_offset_min({"cookie": "payd-zone=9999"}) == 0
    assert zone_offset_min({}) == 0


def test_the_place_is_one_that_this_machine_knows() -> None:
    assert zone_place({"cookie": "payd-place=America/Argentina/Ushuaia"}) == ZoneInfo(
        "America/Argentina/Ushuaia"
    )
    for name in (
        "",
        "Europe",
        "Europe/Atlantis",
        "../../etc/passwd",
        "/etc/passwd",
        "tzdata.zi",
        "undefined",
    ):
        assert zone_place({"cookie": f"payd-place={name}"}) is None


def test_a_forms_token_is_compared_whole_and_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    own = form_token(b"1", "a")
    for said in ("", own[:-1], own + "0", own.upper(), "é", "\udcff"):
        assert not is_form_token(said, own)
    assert is_form_token(own, own)
    monkeypatch.setattr("payd.web.dashboard.cookies.hmac.compare_digest", lambda _said, _own: True)
    assert is_form_token("x", own), "nothing else compares it"
