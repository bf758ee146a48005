"""Webhook endpoints: what they want, when they are given up, their secrets and URLs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.endpoint import (
    ALL,
    DISABLE_AFTER_MS,
    EVENT_TYPES,
    SECRET_OVERLAP_MS,
    SECRETS_MAX,
    Endpoint,
    EndpointState,
    Secret,
    after_attempt,
    check_events,
    check_url,
    disable,
    disables_at_ms,
    enable,
    old_secrets_until_ms,
    pause,
    rotate,
    valid_secrets,
)
from payd.core.errors import EndpointDisabled, InvalidParams, InvalidState, ParamsValidation
from payd.core.event import iso_ms
from payd.core.payment import TRANSITIONS

HOUR_MS = 3_600_000
START_MS = 1_780_000_000_000


def an_endpoint(**fields: Any) -> Endpoint:
    endpoint = Endpoint(
        id="ep_1",
        account_id="acct_1",
        url="https://shop.example/hooks",
        events=ALL,
        state=EndpointState.ENABLED,
        failing_since_ms=None,
        last_failure_at_ms=None,
        last_success_at_ms=None,
        created_at_ms=START_MS,
    )
    return msgspec.structs.replace(endpoint, **fields)


def after(hours_of_failures: list[float], endpoint: Endpoint | None = None) -> Endpoint:
    endpoint = endpoint or an_endpoint()
    for hours in hours_of_failures:
        endpoint = after_attempt(endpoint, ok=False, now_ms=START_MS + round(hours * HOUR_MS))
    return endpoint


def test_there_are_seven_event_types_and_all_is_the_default() -> None:
    assert len(set(EVENT_TYPES)) == 7
    assert check_events(None) == EVENT_TYPES
    assert {event_type for _, event_type in TRANSITIONS.values()} == set(EVENT_TYPES)


@given(st.lists(st.sampled_from(EVENT_TYPES), min_size=1, unique=True))
def test_an_endpoint_gets_the_types_it_asks_for_and_no_others(events: list[str]) -> None:
    endpoint = an_endpoint(events=check_events(events))

    assert endpoint.events == tuple(events)


@pytest.mark.parametrize(
    "events",
    [
        [],
        ["payment.unknown"],
        ["*"],
        [""],
        ["Payment.created"],
        ["payment.created", "payment.created"],
        ["payment.created", "x"],
    ],
)
def test_an_empty_unknown_or_doubled_list_of_types_is_refused(events: list[str]) -> None:
    with pytest.raises(ParamsValidation) as caught:
        check_events(events)
    assert [issue.field for issue in caught.value.issues] == ["events"]


def test_the_first_failure_starts_the_clock_and_the_next_ones_leave_it() -> None:
    endpoint = after([1, 2, 20])

    assert endpoint.failing_since_ms == START_MS + HOUR_MS
    assert endpoint.last_failure_at_ms == START_MS + 20 * HOUR_MS


def test_a_success_clears_the_clock() -> None:
    endpoint = after_attempt(after([1, 2]), ok=True, now_ms=START_MS + 3 * HOUR_MS)

    assert endpoint.failing_since_ms is None
    assert endpoint.last_success_at_ms == START_MS + 3 * HOUR_MS
    assert after([4], endpoint).failing_since_ms == START_MS + 4 * HOUR_MS


def test_more_than_a_day_without_a_failure_starts_the_clock_over() -> None:
    assert after([1, 25]).failing_since_ms == START_MS + HOUR_MS
    assert after([1, 25.001]).failing_since_ms == START_MS + round(25.001 * HOUR_MS)


def test_a_wall_clock_that_was_far_ahead_and_was_set_back_starts_the_clock_over() -> None:
    ahead = after([30 * 24])

    assert after([0, 24, 48, 72, 96, 119.99], ahead).state is EndpointState.ENABLED
    assert after([0, 24, 48, 72, 96, 120], ahead).state is EndpointState.DISABLED
    assert after([1], after([2])).failing_since_ms == START_MS + 2 * HOUR_MS, "an attempt that ended earlier"


def test_five_days_of_failures_disable_the_endpoint() -> None:
    days = [hours * 12.0 for hours in range(10)]

    assert after([*days, 119.99]).state is EndpointState.ENABLED
    assert after([*days, 120]).state is EndpointState.DISABLED


def test_two_failures_five_days_apart_disable_nothing() -> None:
    assert after([0, 120, 240, 360]).state is EndpointState.ENABLED


def longest_run_ms(history: list[tuple[bool, int]]) -> int:
    """The longest time from a failure to a later one with no success and no day of silence between them."""
    longest = 0
    run: list[int] = []
    for ok, at_ms in history:
        if ok or (run and at_ms - run[-1] > 24 * HOUR_MS):
            run = []
        if not ok:
            run.append(at_ms)
            longest = max(longest, run[-1] - run[0])
    return longest


steps = st.tuples(
    st.integers(0, 15).map(lambda n: n == 15), st.integers(1, 25).map(lambda hours: hours * HOUR_MS)
)


@given(st.lists(steps, min_size=5, max_size=60))
def test_an_endpoint_is_disabled_exactly_by_five_days_of_failures_without_success_or_silence(
    history: list[tuple[bool, int]],
) -> None:
    endpoint, now_ms = an_endpoint(), START_MS
    past: list[tuple[bool, int]] = []
    for ok, later_ms in history:
        now_ms += later_ms
        past.append((ok, now_ms))
        endpoint = after_attempt(endpoint, ok, now_ms)

        assert (endpoint.state is EndpointState.DISABLED) == (longest_run_ms(past) >= DISABLE_AFTER_MS)


def test_a_late_success_does_not_switch_a_disabled_endpoint_on() -> None:
    endpoint = after_attempt(an_endpoint(state=EndpointState.DISABLED), ok=True, now_ms=START_MS)

    assert endpoint.state is EndpointState.DISABLED


def test_failures_do_not_bring_a_deleted_endpoint_back_as_disabled() -> None:
    deleted = an_endpoint(
        state=EndpointState.DELETED, failing_since_ms=START_MS, last_failure_at_ms=START_MS + 119 * HOUR_MS
    )

    assert after([121], deleted).state is EndpointState.DELETED
    assert enable(deleted).state is EndpointState.DELETED


def test_an_attempt_that_was_under_way_when_its_endpoint_was_paused_does_not_disable_it() -> None:
    paused = pause(after([hours * 12.0 for hours in range(10)]), START_MS + 119 * HOUR_MS)

    failing = after([120], paused)

    assert failing.state is EndpointState.PAUSED
    assert failing.off_since_ms == START_MS + 119 * HOUR_MS
    assert after([121], enable(failing)).state is EndpointState.DISABLED, "its five days went on"


def test_an_endpoint_that_is_enabled_again_has_five_fresh_days() -> None:
    disabled = after([hours * 12.0 for hours in range(11)])
    assert disabled.state is EndpointState.DISABLED

    again = after([121], enable(disabled))

    assert again.state is EndpointState.ENABLED
    assert again.failing_since_ms == START_MS + 121 * HOUR_MS


def test_a_rotated_secret_signs_for_another_24_hours() -> None:
    secrets = rotate([Secret("whsec_old", START_MS)], "whsec_new", START_MS + HOUR_MS)
    until_ms = START_MS + HOUR_MS + SECRET_OVERLAP_MS

    assert [one.value for one in valid_secrets(secrets, until_ms - 1)] == ["whsec_new", "whsec_old"]
    assert [one.value for one in valid_secrets(secrets, until_ms)] == ["whsec_new"]


def test_rotating_twice_in_a_day_keeps_both_old_secrets_and_lengthens_neither() -> None:
    once = rotate([Secret("a", START_MS)], "b", START_MS + HOUR_MS)
    twice = rotate(once, "c", START_MS + 2 * HOUR_MS)

    assert [one.value for one in valid_secrets(twice, START_MS + 3 * HOUR_MS)] == ["c", "b", "a"]
    assert {one.value: one.expires_at_ms for one in twice} == {
        "c": None,
        "b": START_MS + 26 * HOUR_MS,
        "a": START_MS + 25 * HOUR_MS,
    }


def test_a_sixth_secret_is_refused_until_one_has_run_out() -> None:
    secrets: tuple[Secret, ...] = (Secret("0", START_MS),)
    for n in range(1, SECRETS_MAX):
        secrets = rotate(secrets, str(n), START_MS + n)

    with pytest.raises(InvalidState, match="5 secrets still sign") as refused:
        rotate(secrets, "5", START_MS + 9)
    free_at = iso_ms(START_MS + 1 + SECRET_OVERLAP_MS)
    assert free_at in refused.value.message
    assert refused.value.details == {"validSecrets": 5, "oldestExpiresAt": free_at}
    assert rotate(secrets, "5", START_MS + 1 + SECRET_OVERLAP_MS)[0].value == "5"


def test_old_secrets_sign_until_the_last_of_them_has_run_out() -> None:
    once = rotate([Secret("a", START_MS)], "b", START_MS + HOUR_MS)
    twice = rotate(once, "c", START_MS + 2 * HOUR_MS)
    until_ms = START_MS + 2 * HOUR_MS + SECRET_OVERLAP_MS

    assert old_secrets_until_ms([Secret("a", START_MS)], START_MS) is None
    assert old_secrets_until_ms(twice, START_MS + 2 * HOUR_MS) == until_ms, "two sign, and one for longer"
    assert old_secrets_until_ms(twice, until_ms - 1) == until_ms
    assert old_secrets_until_ms(twice, until_ms) is None


def test_secrets_made_in_one_millisecond_still_have_the_current_one_first() -> None:
    secrets = rotate([Secret("old", START_MS)], "new", START_MS)

    assert [one.value for one in valid_secrets(reversed(secrets), START_MS)] == ["new", "old"]


def test_a_secret_is_not_shown_by_accident() -> None:
    assert "whsec" not in f"{Secret('whsec_x', 0)!r} {Secret('whsec_x', 0)} {[Secret('whsec_x', 0)]}"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://shop.example", ("https", "shop.example", 443)),
        ("https://Shop.Example/hooks?a=1#f", ("https", "shop.example", 443)),
        ("HTTPS://shop.example/", ("https", "shop.example", 443)),
        ("https://shop.example:8443/x", ("https", "shop.example", 8443)),
        ("https://shop.example:65535", ("https", "shop.example", 65535)),
        ("https://shop.example:1", ("https", "shop.example", 1)),
        ("https://shop.example.:443", ("https", "shop.example", 443)),
        ("https://bücher.example/", ("https", "xn--bcher-kva.example", 443)),
        ("https://１２７.0.0.1/", ("https", "127.0.0.1", 443)),
        ("https://[2001:DB8::1]:444/", ("https", "2001:db8::1", 444)),
        ("https://my_service:9000/a%20b", ("https", "my_service", 9000)),
        ("https://10.0.0.1/", ("https", "10.0.0.1", 443)),
        ("https://shop.example?u=a@b", ("https", "shop.example", 443)),
    ],
)
def test_a_url_falls_into_scheme_host_and_port(url: str, parts: tuple[str, str, int]) -> None:
    assert check_url(url, allow_http=False) == parts


def test_http_is_for_those_who_allow_it() -> None:
    assert check_url("http://localhost/x", allow_http=True) == ("http", "localhost", 80)
    with pytest.raises(InvalidParams, match=r"allow_http in \[webhooks.test\]"):
        check_url("http://localhost/x", allow_http=False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example",
        "//shop.example",
        "ftp://shop.example",
        "javascript:alert(1)",
        "https:",
        "https:///path",
        "https://",
        "https://:443",
        "https://user@shop.example",
        "https://user:pw@shop.example",
        "https://@shop.example",
        "https://shop.example:0",
        "https://shop.example:",
        "https://shop.example:65536",
        "https://shop.example:-1",
        "https://shop.example:４４３",
        "https://shop.example:443:443",
        "https://shop.example\\@evil.example",
        "https:\\\\shop.example",
        "https://shop.example/a\\b",
        " https://shop.example",
        "\x01https://shop.example",
        "https://shop.example\n",
        "https://shop.exa\tmple",
        "https://shop.example/a b",
        "https://shop.example/\x00",
        "https://shop.example/\x7f",
        "https://shop.example/\u2028",
        "https://shop.example/\u00a0",
        "https://shop.example/\ud800",
        "https://shop.example/päth",
        "https://shop.example/?q=ü",
        "https://.",
        "https://a..b",
        "https://-a.example",
        "https://a-.example",
        "https://sh%6fp.example",
        "https://shop!.example",
        "https://xn--.example" + "é",
        "https://" + "a" * 64 + ".example",
        "https://" + "a." * 127 + "example",
        "https://[::1",
        "https://::1/",
        "https://[]/",
        "https://[1.2.3.4]/",
        "https://[fe80::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[v1.a]/",
        "https://[::1]x/",
        "https://x[::1]/",
        "https://shop.example/" + "a" * 2048,
    ],
)
@pytest.mark.parametrize("allow_http", [True, False])
def test_a_url_that_cannot_be_called_safely_is_refused(url: str, allow_http: bool) -> None:
    with pytest.raises(InvalidParams):
        check_url(url, allow_http)


@pytest.mark.parametrize("credentials", ["user@", "user:pw@", "@"])
def test_credentials_in_a_url_are_refused_by_name_and_not_repeated(credentials: str) -> None:
    with pytest.raises(InvalidParams, match="must not contain a user name or password") as caught:
        check_url(f"https://{credentials}shop.example/", allow_http=False)
    assert "pw" not in caught.value.message


def test_2048_characters_are_the_most() -> None:
    url = "https://shop.example/"

    assert check_url(url + "a" * (2048 - len(url)), allow_http=False) == ("https", "shop.example", 443)
    with pytest.raises(InvalidParams, match="2048"):
        check_url(url + "a" * (2049 - len(url)), allow_http=False)


@given(st.text(alphabet="htps:/.@[]%\\a1-é\u00df\u3002 \n#?_", max_size=30))
def test_whatever_is_written_it_is_parsed_or_refused(tail: str) -> None:
    try:
        scheme, host, port = check_url("https://" + tail, allow_http=False)
    except InvalidParams:
        return
    assert scheme == "https"
    assert host
    assert host.isascii()
    assert not set(host) & set("@[]%\\/ \n#?")
    assert 1 <= port <= 65535


def test_a_paused_endpoint_is_owed_events_and_goes_on_with_its_failing_time() -> None:
    failing = an_endpoint(failing_since_ms=START_MS, last_failure_at_ms=START_MS, warnings=1)
    paused = pause(failing, START_MS + HOUR_MS)
    assert (paused.state, paused.off_since_ms) == (EndpointState.PAUSED, START_MS + HOUR_MS)
    assert enable(paused) == failing
    assert pause(paused, START_MS + 2 * HOUR_MS) == paused


def test_a_disabled_endpoint_cannot_be_paused_and_is_fresh_when_it_is_enabled() -> None:
    failing = an_endpoint(failing_since_ms=START_MS, last_failure_at_ms=START_MS, warnings=3)
    off = disable(failing, START_MS)
    assert (off.state, off.off_since_ms) == (EndpointState.DISABLED, START_MS)
    assert disable(off, START_MS + HOUR_MS) == off
    with pytest.raises(EndpointDisabled):
        pause(off, START_MS)
    on = enable(off)
    assert on == an_endpoint(last_failure_at_ms=START_MS)


def test_when_it_is_given_up_is_known_while_it_fails() -> None:
    failing = after([0, 20])
    assert disables_at_ms(an_endpoint(), START_MS) is None
    assert disables_at_ms(failing, START_MS + 44 * HOUR_MS) == START_MS + DISABLE_AFTER_MS
    assert disables_at_ms(pause(failing, START_MS), START_MS) is None


def test_when_it_is_given_up_is_not_told_any_more_once_the_next_failure_starts_the_clock_over() -> None:
    failing, late_ms = after([0, 20]), START_MS + 44 * HOUR_MS + 1
    assert after_attempt(failing, ok=False, now_ms=late_ms).failing_since_ms == late_ms
    assert disables_at_ms(failing, late_ms) is None
