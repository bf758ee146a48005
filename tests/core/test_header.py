"""Headers that a merchant adds: what may be one, and what is payd's own."""

from __future__ import annotations

import pytest

from payd.core.errors import ParamsValidation
from payd.core.header import HEADERS_MAX, NAME_MAX, TOTAL_MAX, VALUE_MAX, check_headers


def test_names_are_sent_in_lower_case_and_values_as_they_are() -> None:
    given = {"X-Tenant": "Shop 1", "Authorization": "Bearer a.b-c_d", "x-empty.but!fine": "\x21"}
    assert check_headers(given) == {
        "x-tenant": "Shop 1",
        "authorization": "Bearer a.b-c_d",
        "x-empty.but!fine": "!",
    }


def test_as_many_and_as_long_as_allowed() -> None:
    given = {f"x-{number:02}".ljust(NAME_MAX, "n"): "v" * 300 for number in range(HEADERS_MAX)}
    assert check_headers(given) == given
    long = {"x-a": "v" * VALUE_MAX, "x-b": "v" * (TOTAL_MAX - VALUE_MAX - 6)}
    assert check_headers(long) == long
    with pytest.raises(ParamsValidation, match="8192 bytes together"):
        check_headers({**long, "x-b": long["x-b"] + "v"})
    with pytest.raises(ParamsValidation, match="at most 20"):
        check_headers({**given, "x-more": "v"})


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Content-Type",
        "content-encoding",
        "accept-encoding",
        "connection",
        "keep-alive",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "cookie",
        "set-cookie",
        "User-Agent",
        "date",
        "via",
        "forwarded",
        "x-forwarded-for",
        "proxy-authorization",
        "sec-fetch-mode",
        "access-control-request-method",
        "webhook-id",
        "Webhook-Signature",
        "webhook-anything",
    ],
)
def test_what_frames_routes_or_signs_a_request_is_not_the_merchants(name: str) -> None:
    with pytest.raises(ParamsValidation, match="set by payd"):
        check_headers({name: "v"})


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ü", "a\r\nb", "x" * (NAME_MAX + 1)])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ParamsValidation, match="no header name"):
        check_headers({name: "v"})


@pytest.mark.parametrize(
    "value", ["", " ZZ", "ZZ ", "ZZ\r\nb: c", "ZZ\nb", "ZZ\0", "ZZü", "Z" * (VALUE_MAX + 1)]
)
def test_a_value_that_could_end_its_line_or_the_head_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(ParamsValidation, match="must have a value") as refused:
        check_headers({"x-a": value})
    assert [issue.field for issue in refused.value.issues] == ["headers"]
    assert "Z" not in refused.value.message


def test_a_name_is_there_once_however_it_is_written() -> None:
    with pytest.raises(ParamsValidation, match="twice"):
        check_headers({"X-A": "1", "x-a": "2"})
