"""Which files are served beside the pages, how long they are kept, and that they are what they were."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec
import pytest

from payd.web.checkout.words import LANGUAGES, Language
from payd.web.static import ASSETS, FOR_SHOPS, PACKAGES, asset_of
from tests.shop import Got, Shop

ENGLISH = Language("en")


async def get(shop: Shop, path: str, accept: str = "*/*", **headers: Any) -> Got:
    return await shop.call("GET", path, key=None, accept=accept, **headers)


def files_below(folder: Traversable) -> Iterator[Traversable]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from files_below(file)
        else:
            yield file


def vendored() -> dict[str, tuple[str, bytes]]:
    """What others made: its hash as it is written down, and its bytes."""
    folder = files("payd.web.dashboard") / "static" / "vendor"
    rows = re.findall(r"^\| `([^`]+)` .*`([0-9a-f]{64})` \|$", (folder / "VENDORED.md").read_text(), re.M)
    return {name: (written, (folder / name).read_bytes()) for name, written in rows}


def test_the_files_are_those_of_the_packages_and_change_their_version_with_their_content() -> None:
    there = {
        file.name: file.read_bytes()
        for package in PACKAGES
        for file in files_below(files(package) / "static")
        if not file.name.endswith(".md") and not file.name.startswith("LICENSE.")
    }
    assert {name: asset.body for name, asset in ASSETS.items()} == there
    assert len({asset.version for asset in ASSETS.values()}) == len({*there.values()})
    assert all(re.fullmatch("[0-9a-f]{16}", asset.version) for asset in ASSETS.values())


def test_what_others_made_is_as_they_published_it() -> None:
    folder = files("payd.web.dashboard") / "static" / "vendor"
    licences = {f"LICENSE.{name.removesuffix('.min.js')}" for name in vendored()}
    assert {file.name for file in folder.iterdir()} == {"VENDORED.md"} | vendored().keys() | licences
    for written, body in vendored().values():
        assert hashlib.sha256(body).hexdigest() == written


def test_what_a_page_says_while_a_wallet_pays_is_a_file_for_each_language() -> None:
    for code in LANGUAGES:
        asset = asset_of(f"words.{code}.json", ENGLISH)
        assert asset is not None
        assert (asset.content_type, asset.shared) == ("application/json", False)
        assert msgspec.json.decode(asset.body) == Language(code).below("pay.")
    assert asset_of("words.xx.json", ENGLISH) is None


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_script_for_shops_has_the_words_of_its_reader_and_stays_small(code: str) -> None:
    asset = asset_of(FOR_SHOPS, Language(code))
    assert asset is not None
    assert len(asset.body) <= 4_000
    [words] = re.findall(r"const words = ({.*?});\n", asset.body.decode())
    assert msgspec.json.decode(words) == Language(code).below("shop.")
    used = set(re.findall(r"\bwords\.(\w+)", asset.body.decode()))
    assert used == Language(code).below("shop.").keys()


def test_only_indents_and_comments_are_left_out_of_the_script_for_shops() -> None:
    asset = asset_of(FOR_SHOPS, ENGLISH)
    assert asset is not None
    written, served = ASSETS[FOR_SHOPS].body.decode(), asset.body.decode()
    pairs = zip(written.splitlines(), served.splitlines(), strict=True)
    changed = [after for before, after in pairs if before.partition("// ")[0].strip(" ") != after]
    assert len(changed) == 1
    assert changed[0].startswith("const words = ")
    of_several_lines = "".join(written.split("`")[1::2])
    assert not re.search(r"\n |// ", of_several_lines), "what is between backticks would lose its spaces"


async def test_the_script_for_shops_speaks_as_its_own_link_says_or_as_the_browser_likes_best(
    shop: Shop,
) -> None:
    for query, liked, word in (
        ("", "", "Close"),
        ("", "de-AT,de;q=0.9", "Schließen"),
        ("?lang=fr", "de", "Fermer"),
        ("?lang=tlh", "es", "Cerrar"),
    ):
        found = await get(shop, f"/static/payd.js{query}", accept_language=liked)
        assert f'"close":"{word}"' in found.raw.decode()
        assert found.headers["vary"] == "Accept-Language"
    assert "vary" not in (await get(shop, "/static/checkout.js")).headers


def test_scripts_and_styles_load_nothing_from_elsewhere_and_build_no_html_from_text() -> None:
    for name, asset in ASSETS.items():
        if asset.content_type == "image/png" or name in vendored():
            continue
        text = asset.body.decode()
        assert not re.search(r"https?://|@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text)


@pytest.mark.parametrize(
    "name", ["payd.css", "checkout.js", "payd.js", "words.ja.json", "dash.js", "htmx.min.js"]
)
async def test_a_file_is_kept_for_good_under_its_version_and_asked_for_again_without(
    shop: Shop, name: str
) -> None:
    asset = asset_of(name, ENGLISH)
    assert asset is not None
    kept = await get(shop, f"/static/{name}?v={asset.version}", "*/*")
    assert (kept.status, kept.raw) == (200, asset.body)
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert kept.headers["x-content-type-options"] == "nosniff"
    for query in ("", "?v=0", f"?v={asset.version}&v=0"):
        assert (await get(shop, f"/static/{name}{query}")).headers["cache-control"] == "no-cache"
    again = await get(shop, f"/static/{name}", if_none_match=asset.etag)
    assert (again.status, again.raw, again.headers["etag"]) == (304, b"", asset.etag)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../words.py",
        "words.py",
        "checkout.html",
        ".",
        "payd.css/",
        "PAYD.CSS",
        "VENDORED.md",
        "vendor/htmx.min.js",
    ],
)
async def test_no_other_file_is_served(shop: Shop, name: str) -> None:
    found = await get(shop, f"/static/{name}")
    assert (found.status, found.code) == (404, "not_found")
