"""A link leads on in the language that the buyer has asked for."""

from __future__ import annotations

from payd.web.call import Request
from payd.web.checkout.paths import paths_of
from payd.web.checkout.words import LANGUAGES, Language

GERMAN_BROWSER = {"accept-language": "de-AT,de;q=0.9"}


def test_a_browsers_own_language_needs_no_mention() -> None:
    paths = paths_of("/payd", Request("GET", "/", headers=GERMAN_BROWSER))
    assert paths.language == Language("de", "AT")
    assert paths.payment("pay_t1", "/cancel") == "/payd/pay/pay_t1/cancel"
    assert paths.payment("pay_t1", way="solana", asset="a:1/b") == "/payd/pay/pay_t1?way=solana&asset=a:1/b"


def test_what_was_asked_for_goes_along() -> None:
    paths = paths_of("", Request("GET", "/", {"lang": ["AR"]}, GERMAN_BROWSER))
    assert paths.language == Language("ar")
    assert paths.payment("pay_t1") == "/pay/pay_t1?lang=ar"


def test_a_tag_that_is_none_says_nothing_and_goes_nowhere() -> None:
    for tag in ("", "xx", "<script>", "d" * 99):
        paths = paths_of("", Request("GET", "/", {"lang": [tag]}, GERMAN_BROWSER))
        assert paths.language == Language("de", "AT")
        assert paths.payment("pay_t1") == "/pay/pay_t1"


def test_the_same_page_is_offered_in_every_language() -> None:
    paths = paths_of("", Request("GET", "/", {"lang": ["ja"]}))
    offered = paths.languages("/pay/pay_t1", way="solana", asset=None)
    assert [code for code, _, _ in offered] == list(LANGUAGES)
    assert offered[1] == ("de", "Deutsch", "/pay/pay_t1?lang=de&way=solana")
