"""`payd version --licenses` names whatever is installed with payd, and under which terms."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from payd.cli.libraries import Library, libraries, vendored
from tests.terminal import Terminal
from tests.test_lock import RUN, pins_of

VENDORED = RUN.parent / "payd" / "web" / "dashboard" / "static" / "vendor" / "VENDORED.md"


def test_the_libraries_are_those_of_the_lock_but_for_what_builds() -> None:
    locked = {name: pin.version for name, pin in pins_of(RUN).items() if pin.applies and name != "flit-core"}
    assert {each.name.lower().replace("_", "-"): each.version for each in libraries()} == locked


def test_each_library_says_its_licence_and_where_the_text_is() -> None:
    assert [each.name for each in libraries() if each.license == "not said"] == ["jsonalias"]
    for each in libraries():
        assert "\n" not in each.license
        assert [file for file in each.files if not Path(file).is_file()] == []
    assert sum(not each.files for each in libraries()) <= 5  # those that ship no text


def test_scripts_of_others_in_the_pages_are_named_with_their_licence() -> None:
    listed = [line for line in VENDORED.read_text().splitlines() if line.startswith("| `")]
    assert len(vendored()) == len(listed)
    for each in vendored():
        assert Path(each.files[0]).stat().st_size > 0
    [htmx] = [each for each in vendored() if each.name == "htmx.org"]
    assert (htmx.version, htmx.license) == ("2.0.11", "0BSD")
    assert "Permission to use, copy, modify" in Path(htmx.files[0]).read_text()


def test_a_payd_that_is_not_installed_knows_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert libraries() == ()


def test_the_list_is_a_table_for_people_and_json_for_programs(payd: Terminal) -> None:
    shown = payd("version", "--licenses").output
    assert shown.splitlines()[0].split() == ["Library", "Version", "Licence"]
    [trio] = [line.split() for line in shown.splitlines() if line.startswith("trio ")]
    assert " ".join(trio[2:]) == "MIT OR Apache-2.0"
    told = [Library(**{**each, "files": tuple(each["files"])}) for each in payd.json("version", "--licenses")]
    assert told == [*libraries(), *vendored()]
