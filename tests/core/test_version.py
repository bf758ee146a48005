"""API versions."""

from __future__ import annotations

import pytest

from payd.core.errors import ApiVersionDowngrade, InvalidApiVersion, PaydError, UnknownApiVersion
from payd.core.version import DEFAULT, VERSIONS, check_move, is_preview, newer_stable, newest_stable, resolve

LONGER = (
    "2026-02-18",
    "2026-02-19.preview",
    "2026-02-19",
    "2026-06-01",
    "2026-07-01.preview",
)


def test_the_table_goes_from_old_to_new_and_a_new_account_gets_the_newest_stable_one() -> None:
    assert [version[:10] for version in VERSIONS] == sorted(version[:10] for version in VERSIONS)
    assert len(set(VERSIONS)) == len(VERSIONS)
    assert DEFAULT == "2026-02-18"
    assert newest_stable(LONGER) == "2026-06-01"


@pytest.mark.parametrize("pinned", [version for version in LONGER if not is_preview(version)])
def test_without_a_header_the_accounts_own_version_holds(pinned: str) -> None:
    assert resolve(None, pinned, LONGER) == pinned


@pytest.mark.parametrize("pinned", [version for version in LONGER if not is_preview(version)])
@pytest.mark.parametrize("asked", LONGER)
def test_a_header_may_ask_for_the_same_or_a_newer_version_only(pinned: str, asked: str) -> None:
    if LONGER.index(asked) >= LONGER.index(pinned):
        assert resolve(asked, pinned, LONGER) == asked
    else:
        with pytest.raises(ApiVersionDowngrade):
            resolve(asked, pinned, LONGER)


def test_a_preview_becomes_older_when_its_stable_version_appears() -> None:
    with pytest.raises(ApiVersionDowngrade):
        resolve("2026-02-19.preview", "2026-02-19", LONGER)


def test_an_account_goes_forward_and_never_to_a_preview() -> None:
    assert newer_stable("2026-02-18", LONGER) == ("2026-02-19", "2026-06-01")
    assert newer_stable("2026-06-01", LONGER) == ()
    for wanted in ("2026-02-19", "2026-06-01"):
        check_move("2026-02-19", wanted, LONGER)
    for wanted, refusal in (
        ("2026-02-18", ApiVersionDowngrade),
        ("2026-07-01.preview", InvalidApiVersion),
        ("2027-01-01", UnknownApiVersion),
        ("", UnknownApiVersion),
    ):
        with pytest.raises(refusal):
            check_move("2026-02-19", wanted, LONGER)


@pytest.mark.parametrize(
    ("header", "refusal"),
    [
        ("", InvalidApiVersion),
        ("latest", InvalidApiVersion),
        ("2026-2-18", InvalidApiVersion),
        ("20260218", InvalidApiVersion),
        ("2026-02-18T00:00:00Z", InvalidApiVersion),
        ("2026-02-18.beta", InvalidApiVersion),
        ("2026-02-18.preview.preview", InvalidApiVersion),
        ("2026-02-18\n", InvalidApiVersion),
        ("2026-13-01", InvalidApiVersion),
        ("2026-00-01", InvalidApiVersion),
        ("2026-01-32", InvalidApiVersion),
        ("２０２６-02-18", InvalidApiVersion),
        ("2026-02-17", UnknownApiVersion),
        ("2026-02-19", UnknownApiVersion),
        ("2026-02-18.preview", UnknownApiVersion),
        ("1999-12-31", UnknownApiVersion),
        ("2099-01-01", UnknownApiVersion),
    ],
)
def test_a_malformed_header_is_told_from_an_unknown_version(header: str, refusal: type[PaydError]) -> None:
    with pytest.raises(refusal):
        resolve(header, DEFAULT)


def test_blanks_around_the_header_do_not_matter() -> None:
    assert resolve(" 2026-02-19.preview\t", DEFAULT) == "2026-02-19.preview"


def test_an_account_cannot_be_pinned_to_a_preview_or_to_nothing_known() -> None:
    for pinned in ("2026-02-19.preview", "2020-01-01"):
        with pytest.raises(ValueError):
            resolve(None, pinned)
