"""The locks: every library at one version with its hashes, from no named host, as pyproject.toml asks."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
RUN = ROOT / "requirements.lock"
TESTS = ROOT / "tests" / "requirements.lock"


class Pin(NamedTuple):
    """One library in a lock."""

    version: str
    applies: bool
    hashes: int


def pins_of(lock: Path) -> dict[str, Pin]:
    """The libraries of a lock by their canonical name."""
    pins: dict[str, Pin] = {}
    for entry in re.split(r"\n(?=\S)", lock.read_text()):
        if entry.startswith("#"):
            continue
        requirement = Requirement(entry.split("\\")[0])
        (pinned,) = requirement.specifier
        assert pinned.operator == "==", entry
        applies = requirement.marker is None or requirement.marker.evaluate()
        pins[canonicalize_name(requirement.name)] = Pin(
            pinned.version, applies, entry.count("--hash=sha256:")
        )
    return pins


def version_of(need: Requirement, pins: dict[str, Pin]) -> str:
    return pins[canonicalize_name(need.name)].version


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def group(name: str) -> list[str]:
    """A dependency group with the groups that it includes."""
    found: list[str] = []
    for item in project()["dependency-groups"][name]:
        found += group(item["include-group"]) if isinstance(item, dict) else [item]
    return found


@pytest.mark.parametrize("lock", [RUN, TESTS], ids=["run", "tests"])
def test_a_lock_names_no_host_and_no_folder(lock: Path) -> None:
    assert re.findall(r"\w+://\S*|^-.*|@ .*", lock.read_text(), re.M) == []


@pytest.mark.parametrize("lock", [RUN, TESTS], ids=["run", "tests"])
def test_every_library_of_a_lock_has_hashes(lock: Path) -> None:
    assert [name for name, pin in pins_of(lock).items() if pin.hashes == 0] == []


def test_the_tests_lock_holds_the_other_one_at_the_same_versions() -> None:
    tests = pins_of(TESTS)
    differing = [name for name, pin in pins_of(RUN).items() if tests.get(name) != pin]
    assert differing == []


@pytest.mark.parametrize("lock", [RUN, TESTS], ids=["run", "tests"])
def test_a_lock_has_what_the_project_asks_for(lock: Path) -> None:
    wanted = project()["project"]["dependencies"] + group("build") + (group("dev") if lock == TESTS else [])
    pins = pins_of(lock)
    unmet = [need for need in map(Requirement, wanted) if not need.specifier.contains(version_of(need, pins))]
    assert unmet == []


def test_what_only_tests_need_is_not_in_the_servers_lock() -> None:
    only_tests = {canonicalize_name(Requirement(line).name) for line in group("dev")}
    only_tests -= {canonicalize_name(Requirement(line).name) for line in group("build")}
    assert only_tests & pins_of(RUN).keys() == set()


def test_the_tests_run_with_the_versions_of_the_lock() -> None:
    installed = {
        name: importlib.metadata.version(name) for name, pin in pins_of(TESTS).items() if pin.applies
    }
    assert installed == {name: pin.version for name, pin in pins_of(TESTS).items() if pin.applies}
