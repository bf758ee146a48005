"""Every text is said, in every language; nothing is said that has no text; pages have none of their own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.resources import files

import pytest

from payd.core.status import Status
from payd.web.checkout.view import MOVES
from payd.web.checkout.words import LANGUAGES, RIGHT_TO_LEFT, Language, choose

ENGLISH = Language("en")
PACKAGE = files("payd.web.checkout")
TEMPLATES = {file.name: file.read_text() for file in (PACKAGE / "templates").iterdir()}
LANGUAGE_FILES = {
    file.name.removesuffix(".toml"): file.read_text() for file in (PACKAGE / "languages").iterdir()
}
TEXTS = {code: tomllib.loads(text) for code, text in LANGUAGE_FILES.items()}
WORDS = TEXTS["en"]
OTHERS = [code for code in LANGUAGES if code != "en"]
# Names, and words that another language shares with English.
SHARED = {"title", "way.solana", "rate.is"}
FOR_SCRIPTS = ENGLISH.below("js.") | ENGLISH.below("pay.")
# What shops load (payd.js) has words of its own: `shop.`
SPEAKING = ("checkout.js", "ended.js", "choices.js", "once.js", "pay.js", "talk.js", "wallets.js")
SCRIPTS = [file.read_text() for file in (PACKAGE / "static").iterdir() if file.name in SPEAKING]


def test_values_are_put_in_as_they_are() -> None:
    assert ENGLISH.say("succeeded.body", merchant="<b>{x}</b>") == "<b>{x}</b> has your payment."


def test_a_text_that_is_not_there_is_a_bug() -> None:
    with pytest.raises(KeyError):
        ENGLISH.say("nothing.of.the.kind")
    with pytest.raises(KeyError):
        ENGLISH.say("succeeded.body")


def test_every_status_and_move_has_its_words() -> None:
    assert {f"{status.value}.heading" for status in Status} <= WORDS.keys()
    assert {f"move.{move}" for move in MOVES} <= WORDS.keys()


def test_templates_and_scripts_say_only_what_is_there() -> None:
    said = {key for text in TEMPLATES.values() for key in re.findall(r"t\('([^']+)'", text)}
    assert said <= WORDS.keys()
    assert len(said) > 20
    text = "".join(SCRIPTS)
    scripted = set(re.findall(r"words(?:\.(\w+)|\['([\w.]+)'\])", text))
    said = {one or other for one, other in scripted} - {"0"}
    warned = set(re.findall(r"(?:warn|is|WalletError)\((?:[\w.]+ \? )?'(\w+)'", text))
    warned |= set(re.findall(r"warn\([\w.]+ \? '\w+' : '(\w+)'\)", text))
    assert said | warned | {f"{kind}.body" for kind in warned} <= FOR_SCRIPTS.keys()
    assert {"offline", "refused", "rejected", "busy", "quote_expired", "no_options"} <= warned
    silent = FOR_SCRIPTS.keys() - said - warned - {f"{kind}.body" for kind in warned}
    assert {key for key in silent if not key.startswith("left.")} == set()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_no_text_of_its_own(name: str) -> None:
    html = re.sub(r"{%.*?%}|{{.*?}}", "", TEMPLATES[name])
    bare = re.sub(r"<[^>]*>", " ", html)
    assert re.findall(r"[A-Za-z]{2,}", bare) == []


@pytest.mark.parametrize(
    ("asked", "accepted", "language"),
    [
        (None, "", ENGLISH),
        (None, "*", ENGLISH),
        (None, "fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7", Language("fr", "CH")),
        (None, "tlh, ja;q=0.2, de;q=0", Language("ja")),
        (None, "en;q=0.1, pt-BR;q=0.7, es;q=0.7", Language("pt", "BR")),
        (None, "zh-Hant-TW", Language("zh", "TW")),
        (None, "zh-Hans-CN", Language("zh", "CN")),
        (None, "zh_Hans", Language("zh")),
        ("de", "fr", Language("de")),
        ("DE-at", "fr", Language("de", "AT")),
        ("tlh", "fr", Language("fr")),
        ("", "fr-x-ab, en", Language("fr", "AB")),
        ("../../etc/passwd", "", ENGLISH),
    ],
)
def test_the_buyer_reads_what_was_asked_for_or_what_the_browser_likes_best(
    asked: str | None, accepted: str, language: Language
) -> None:
    assert choose(asked, accepted) == language


def test_a_language_says_its_tag_and_its_direction() -> None:
    assert (Language("de", "AT").tag, Language("de").direction) == ("de-AT", "ltr")
    assert (Language("ar").tag, Language("ar").direction) == ("ar", "rtl")
    # The characters are simplified ones, wherever the buyer is.
    assert (Language("zh").tag, Language("zh", "TW").tag) == ("zh-Hans", "zh-Hans-TW")
    assert next(iter(LANGUAGES)) == "en"


def test_each_language_has_a_file_and_each_file_a_language() -> None:
    assert LANGUAGE_FILES.keys() == LANGUAGES.keys()


@pytest.mark.parametrize("code", OTHERS)
def test_a_language_says_all_that_english_says_in_its_order_and_with_its_values(code: str) -> None:
    texts = TEXTS[code]
    assert list(texts) == list(WORDS)
    for key, text in texts.items():
        assert sorted(re.findall(r"{[^}]*}", text)) == sorted(re.findall(r"{[^}]*}", WORDS[key])), key


@pytest.mark.parametrize("code", OTHERS)
def test_nothing_is_left_in_english(code: str) -> None:
    left = {
        key
        for key, text in TEXTS[code].items()
        if text == WORDS[key] and len(re.sub(r"{[^}]*}", "", text).split()) > 1
    }
    assert left <= SHARED


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_text_is_plain_and_tidy(code: str) -> None:
    for key, text in TEXTS[code].items():
        assert text, key
        assert text == " ".join(text.split(" ")).strip(), key
        assert not re.search(r"[<>&\"\\\n\t\u2066-\u2069\u200e\u200f]| {2}|\.\.\.", text), key


@pytest.mark.parametrize("code", OTHERS)
def test_a_sentence_stays_one_and_a_label_does_not_become_one(code: str) -> None:
    """A text ends as its English does: with a full stop, with a colon, or with neither."""
    ends = {".": ".。", ":": ":\uff1a", "…": "…"}
    for key, english in WORDS.items():
        text, end = TEXTS[code][key], english[-1]
        if end in ends:
            assert text[-1] in ends[end], key
        else:
            assert text[-1] not in ".。:\uff1a,\uff0c;", key


# What stands on buttons, tabs and in columns beside others, where a screen of 320 px ends soon.
TIGHT = re.compile(
    r"copy|move\.|stay$|step\.|pay\.(stop|another|replace|fee|from|network|pays)|way\.|back$|print$|collect\.send"
    r"|error\.back|pay\.again|phone$|details$"
)


@pytest.mark.parametrize("code", OTHERS)
def test_what_is_on_a_button_is_about_as_long_as_in_english(code: str) -> None:
    """Twice as long at most, and a short word may be a little longer yet. Han and kana are as wide as two."""

    def width(text: str) -> int:
        return sum(2 if "\u3000" < letter < "\uffdd" else 1 for letter in text)

    tight = [key for key in WORDS if TIGHT.match(key)]
    assert len(tight) > 15
    long = {key: TEXTS[code][key] for key in tight if width(TEXTS[code][key]) > 10 + 1.6 * width(WORDS[key])}
    assert long == {}


def test_arabic_has_arabic_punctuation_and_chinese_and_japanese_have_their_own() -> None:
    for key, text in TEXTS["ar"].items():
        assert not re.search(r"[\u0620-\u064a] ?[,;?]", text), key
    for code in ("zh", "ja"):
        for key, text in TEXTS[code].items():
            assert not re.search(r"[\u3040-\u9fff] ?[,;:?!(]|[,;:?!)] ?[\u3040-\u9fff]", text), key


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_value_is_put_in_without_turning_the_text_around_it(code: str) -> None:
    said = Language(code).say("back", host="shop.example")
    isolated = "\u2068shop.example\u2069" in said
    assert isolated == (code in RIGHT_TO_LEFT)
    for turning in ("محل", "חנות", "\U0001e900\U0001e901", "Shop\u202e", "\u200fShop"):
        assert f"\u2068{turning}\u2069" in Language(code).say("back", host=turning)


MEASURE = """
import gc, tracemalloc
from payd.web import static
from payd.web.checkout import locale, render
from payd.web.checkout.words import LANGUAGES, Language

def show(language):
    locale.fiat(language, 125_000, "EUR"), locale.asset(language, 5, 3), locale.instant(language, 0)
    language.say("paid"), static.words_asset(language.code), static.asset_of("payd.js", language)

show(Language("en"))
tracemalloc.start()
for code in LANGUAGES:
    show(Language(code))
gc.collect()
print(tracemalloc.get_traced_memory()[0])
"""


def test_a_language_takes_memory_once_somebody_reads_it_and_little() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert 100_000 < int(done.stdout) < 2_000_000
