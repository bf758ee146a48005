"""`scripts/build` makes the same bytes wherever and whenever it runs, and they hold everything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from payd import __version__
from tests.release.build import (
    LOCK,
    NO_COMMIT_AT_S,
    PREAMBLE,
    PYTHONS,
    ROOT,
    Built,
    build,
    libraries_of,
    made_at_s,
    packages_of,
)
from tests.release.conftest import WHEELS
from tests.release.pythons import HERE, PYTHON, pythons_of
from tests.short import IS_SHORT
from tests.test_lock import RUN, pins_of

pytestmark = pytest.mark.real_time

OF_THE_BUILD = ("payd", "pyproject.toml", "README.md", "LICENSE", "payd.toml", LOCK)


def committed(*paths: str) -> list[str]:
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *paths]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def copy_source(to: Path) -> Path:
    """All that the build reads, in another folder."""
    for name in committed(*OF_THE_BUILD):
        copy = to / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
    return to


def of_version(version: str, folder: Path) -> Path:
    """The source, as it would be of another version."""
    source = copy_source(folder)
    package = source / "payd" / "__init__.py"
    package.write_text(package.read_text().replace(f'"{__version__}"', f'"{version}"'))
    return source


def test_another_folder_at_another_time_makes_identical_bytes(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a short run of the packages alone: the archive takes a minute of a core."""
    source = copy_source(tmp_path / "elsewhere" / "source")
    for copy in source.rglob("*"):
        if copy.is_file():
            copy.chmod(0o600)
            os.utime(copy, (1e9, 1e9))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(made_at_s(ROOT, os.environ)))
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    made: tuple[Path, ...] = (built.wheel, built.sdist)
    if IS_SHORT:
        (tmp_path / "out").mkdir()
        again: tuple[Path, ...] = packages_of(source, tmp_path / "out")
    else:
        whole = build(source, tmp_path / "out", WHEELS, list(HERE))
        made, again = (*made, built.archive), (whole.wheel, whole.sdist, whole.archive)
    for one, other in zip(made, again, strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes(), f"{one.name} differs"


def test_the_time_in_packages_is_that_of_the_variable_else_of_the_commit(tmp_path: Path) -> None:
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    committed_at = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert made_at_s(ROOT, {"SOURCE_DATE_EPOCH": "1700000000"}) == 1_700_000_000
    assert made_at_s(ROOT, {}) == int(committed_at)
    assert made_at_s(tmp_path, {}) == NO_COMMIT_AT_S


def test_the_wheel_holds_every_file_of_the_package_and_the_licences(built: Built) -> None:
    about = f"payd-{__version__}.dist-info"
    with zipfile.ZipFile(built.wheel) as opened:
        names = set(opened.namelist())
        told = opened.read(f"{about}/METADATA").decode()
    assert {name for name in names if not name.startswith(about)} == set(committed("payd"))
    assert f"{about}/licenses/LICENSE" in names
    assert f"{about}/licenses/payd/web/dashboard/static/vendor/LICENSE.htmx" in names
    assert "License-Expression: MIT\n" in told


def test_the_source_archive_makes_the_same_wheel(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(built.sdist) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # since 3.11.4
        opened.extractall(tmp_path)
    source = tmp_path / f"payd-{__version__}"
    assert [name for name in committed(*OF_THE_BUILD) if not (source / name).is_file()] == []
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(made_at_s(ROOT, os.environ)))
    wheel, _ = packages_of(source, tmp_path)
    assert wheel.read_bytes() == built.wheel.read_bytes()


def test_a_build_replaces_what_the_one_before_left(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    out.mkdir()
    packages_of(of_version("98.0", tmp_path / "old"), out)
    assert [each.name for each in out.glob("payd-*.whl")] == ["payd-98.0-py3-none-any.whl"]
    newer = packages_of(of_version("99.0", tmp_path / "new"), out)
    # `pip install dist/payd-*.whl` finds one.
    assert sorted(out.iterdir()) == sorted(newer)


def test_the_archive_holds_the_lock_s_libraries_at_its_versions(built: Built) -> None:
    with zipfile.ZipFile(built.archive) as opened:
        wheels = {name.split("/")[1] for name in opened.namelist() if re.match(r"\.deps/.", name)}
    held = {name.lower().replace("_", "-"): version for name, version, *_ in (w.split("-") for w in wheels)}
    locked = {name: pin.version for name, pin in pins_of(RUN).items() if pin.applies and name != "flit-core"}
    assert held == {"payd": __version__, **locked}


def test_a_library_that_is_not_the_locked_one_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / LOCK
    text = (ROOT / LOCK).read_text()
    [entry] = re.findall(r"^idna==.*?(?=^\S)", text, re.MULTILINE | re.DOTALL)
    lock.write_text(re.sub(r"sha256:[0-9a-f]", "sha256:" + "z", entry).replace("sha256:z", "sha256:0"))
    with pytest.raises(subprocess.CalledProcessError):
        libraries_of(lock, tmp_path / "wheels", [PYTHON])
    assert list((tmp_path / "wheels").rglob("*.done")) == []


def test_pythons_are_found_on_the_path_and_of_pyenv_and_shims_are_none(tmp_path: Path) -> None:
    other = next(each for each in PYTHONS if each != PYTHON)
    shims, path, pyenv = (tmp_path / name for name in ("shims", "path", f"pyenv/versions/{other}.9/bin"))
    for folder in (shims, path, pyenv):
        folder.mkdir(parents=True)
        (folder / f"python{other}").touch(0o755)
    own = {PYTHON: Path(sys.executable)}
    assert pythons_of({"PATH": str(shims), "HOME": str(tmp_path)}) == own
    of_pyenv = {"PATH": str(shims), "PYENV_ROOT": str(tmp_path / "pyenv")}
    assert pythons_of(of_pyenv) == own | {other: pyenv / f"python{other}"}
    on_path = of_pyenv | {"PATH": f"{shims}:{path}"}
    assert pythons_of(on_path) == own | {other: path / f"python{other}"}
    (path / f"python{other}").chmod(0o644)
    assert pythons_of(on_path) == own | {other: pyenv / f"python{other}"}


@pytest.mark.parametrize("there", [True, False], ids=["another is there", "none is there"])
def test_a_python_without_libraries_in_the_archive_looks_for_another(tmp_path: Path, there: bool) -> None:
    fits = tmp_path / "bin" / "python3.99"
    fits.parent.mkdir()
    if there:
        fits.write_text('#!/bin/sh\necho "$0 runs $*"\n')
        fits.chmod(0o755)
    program = tmp_path / "payd"
    program.write_text(PREAMBLE.format(pythons=("3.98", "3.99")))
    run = subprocess.run(
        [sys.executable, program, "version"],
        env={"PATH": str(fits.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    if there:
        assert run.stdout == f"{fits} runs {program} version\n"
    else:
        assert run.returncode == 1
        assert run.stderr.startswith("Error: this file runs with Python 3.98 or 3.99, and there is none")
