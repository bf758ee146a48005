"""The files beside the pages: read at the start, served from memory, kept by browsers for good.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

import msgspec

from payd.core.errors import NotFound
from payd.web.call import Answer, Call
from payd.web.checkout.words import LANGUAGES, PAYING, SHOP, Language, choose, words_file

PACKAGES: Final = ("payd.web.checkout", "payd.web.dashboard", "payd.web.openapi")
"""Each has its files in `static/`; what others made is in `static/vendor/`. All have names of their own."""

MAX_AGE_S: Final = 365 * 86_400
NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")

FOR_SHOPS: Final = "payd.js"
"""The one script that shops load into their own pages; none of ours does."""

NO_WORDS: Final = b"const words = {};"
"""What stands in it in place of its words."""

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
}
_HASH_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file, in memory."""

    body: bytes
    content_type: str
    version: str
    shared: bool
    """Whether pages of other origins may load it: wallets that are pages show pictures."""

    @property
    def etag(self) -> str:
        """Changes with the content only."""
        return f'"{self.version}"'


def _files_in(folder: Traversable) -> Iterator[Traversable]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _files_in(file)
        else:
            yield file


def _load() -> Mapping[str, Asset]:
    assets: dict[str, Asset] = {}
    for package in PACKAGES:
        for file in _files_in(files(package) / "static"):
            suffix = file.name[file.name.rfind(".") :]
            if suffix in _TYPES:
                assert file.name not in assets, f"two files are named {file.name}"
                shared = file.name == FOR_SHOPS or suffix == ".png"
                assets[file.name] = _asset(file.read_bytes(), _TYPES[suffix], shared=shared)
    return MappingProxyType(assets)


def _asset(body: bytes, content_type: str, *, shared: bool) -> Asset:
    return Asset(body, content_type, hashlib.sha256(body).hexdigest()[:_HASH_CHARACTERS], shared)


ASSETS: Final = _load()
"""The files that are served, by name; besides them there are only those of `WORDS_FILES`."""

VERSIONS: Final = MappingProxyType({name: one.version for name, one in ASSETS.items()})
"""What goes behind `?v=` in links to them."""

WORDS_FILES: Final = MappingProxyType({words_file(code): code for code in LANGUAGES})
"""The files of what a page says while a wallet of the browser pays, with their language."""


def asset_of(name: str, language: Language) -> Asset | None:
    """The file of a name, as it is for who reads `language`; None where there is none."""
    if name == FOR_SHOPS:
        return _for_shops(language.code)
    return words_asset(WORDS_FILES[name]) if name in WORDS_FILES else ASSETS.get(name)


@cache
def words_asset(code: str) -> Asset:
    """What a page says while a wallet of the browser pays, by key; made once somebody reads it."""
    return _asset(msgspec.json.encode(Language(code).below(PAYING)), "application/json", shared=False)


@cache
def _for_shops(code: str) -> Asset:
    """The script for shops with a language's words. Others' pages load it: without indents and comments."""
    asset, words = ASSETS[FOR_SHOPS], msgspec.json.encode(Language(code).below(SHOP))
    body = re.sub(rb"^ +| *// .*$", b"", asset.body, flags=re.MULTILINE).replace(
        NO_WORDS, b"const words = " + words + b";"
    )
    return _asset(body, asset.content_type, shared=True)


async def serve(call: Call) -> Answer:
    """GET /static/{name}: a file of a page. With its `?v=` it may be kept for good."""
    name = call.params["name"]
    asked = call.request.query.get("lang", [""])[0]
    asset = asset_of(name, choose(asked, call.request.headers.get("accept-language", "")))
    if asset is None:
        raise NotFound("There is no such file.")
    fixed = call.request.query.get("v") == [asset.version]
    caching = f"public, max-age={MAX_AGE_S}, immutable" if fixed else "no-cache"
    headers = (
        ("Content-Type", asset.content_type),
        ("Cache-Control", caching),
        ("ETag", asset.etag),
        NO_SNIFF,
        ("Cross-Origin-Resource-Policy", "cross-origin" if asset.shared else "same-origin"),
        *((("Vary", "Accept-Language"),) if name == FOR_SHOPS else ()),
    )
    if call.request.headers.get("if-none-match") == asset.etag:
        return Answer(304, b"", headers[1:])
    return Answer(200, asset.body, headers)
