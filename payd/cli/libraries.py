"""What others made that is installed with payd: which version, and under which licence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.resources import files
from typing import Final

PROJECT: Final = "payd"

UNKNOWN: Final = "not said"

SHORT_MAX: Final = 60
"""Some have the whole text where others name it."""

_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
_ROW: Final = re.compile(r"^\| `([^`]+)` \| npm `([^`]+)` (\S+?), .*? \| ([^|]+) \|", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Attributes:
        license: Its SPDX expression, or whatever it says instead.
        files: Where the texts are, on this machine.
    """

    name: str
    version: str
    license: str
    files: tuple[str, ...]


def libraries() -> tuple[Library, ...]:
    """What payd needs and what that needs, as it is installed here, by name; empty where payd is not."""
    found: dict[str, metadata.Distribution] = {}
    open_names = [PROJECT]
    while open_names:
        name = _canonical(open_names.pop())
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform, or payd runs from its source
        open_names += _needs(found[name])
    found.pop(PROJECT, None)
    return tuple(_library(found[name]) for name in sorted(found))


def vendored() -> tuple[Library, ...]:
    """The scripts of others among the pages' files."""
    from payd.web.static import PACKAGES  # which reads all those files

    found = []
    for package in PACKAGES:
        folder = files(package) / "static" / "vendor"
        if (listed := folder / "VENDORED.md").is_file():
            for file, name, version, license_ in _ROW.findall(listed.read_text(encoding="utf-8")):
                text = folder / f"LICENSE.{file.removesuffix('.min.js')}"
                found.append(Library(name, version, license_, (str(text),)))
    return tuple(found)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _needs(of: metadata.Distribution) -> Iterator[str]:
    for line in of.requires or ():
        requirement, _, marker = line.partition(";")
        named = _REQUIREMENT.match(requirement.strip())
        if named is not None and "extra ==" not in marker:
            yield named[0]


def _library(of: metadata.Distribution) -> Library:
    texts = tuple(
        str(of.locate_file(file))
        for file in of.files or ()
        if re.match(r"(LICEN[SC]E|COPYING|NOTICE)", file.name, re.IGNORECASE) and ".dist-info" in str(file)
    )
    return Library(of.metadata["Name"], of.version, _license(of) or _title(texts) or UNKNOWN, texts)


def _license(of: metadata.Distribution) -> str:
    for field in ("License-Expression", "License"):
        for said in of.metadata.get_all(field) or ():
            if said.strip() and len(said) <= SHORT_MAX and "\n" not in said:
                return str(said)
    classified = [
        each.rpartition(" :: ")[2]
        for each in of.metadata.get_all("Classifier") or ()
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    return ", ".join(classified)


def _title(texts: tuple[str, ...]) -> str:
    """The first line of a licence, which is its name."""
    if not texts:
        return ""
    with open(texts[0], encoding="utf-8", errors="replace") as opened:
        return next((line.strip() for line in opened if line.strip()), "")[:SHORT_MAX]
