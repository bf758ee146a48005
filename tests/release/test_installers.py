"""pipx and uv install the wheel, put a newer one in its place and remove it; the data stay."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from payd import __version__
from tests.packages import CACHE, from_pypi
from tests.release.build import LOCK, ROOT, Built, libraries_of, packages_of
from tests.release.conftest import RUN_S_MAX, WHEELS, place
from tests.release.pythons import HERE
from tests.release.test_build import of_version
from tests.release.test_installed import found, served
from tests.test_readme import README

pytestmark = pytest.mark.real_time

NEWER: Final = "99.0"


@dataclass(frozen=True, slots=True)
class Installer:
    """A tool that keeps each program in an environment of its own.

    Attributes:
        version: The one from PyPI.
        run: How it is started from the environment that it is in.
        install: What the README says, but for the wheel.
        uninstall: The opposite.
        env: So that it asks nobody, finds the libraries' wheels in `{wheels}`, and uses this Python.
    """

    version: str
    run: tuple[str, ...]
    install: tuple[str, ...]
    uninstall: tuple[str, ...]
    env: Mapping[str, str]


INSTALLERS: Final = {
    "pipx": Installer(
        version="1.18.4",
        run=("bin/python", "-m", "pipx"),
        install=("pipx", "install"),
        uninstall=("pipx", "uninstall", "payd"),
        env={
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_NO_COMPILE": "1",
            "PIP_FIND_LINKS": "{wheels}",
            "PIPX_DEFAULT_PYTHON": sys.executable,
            "PIPX_DISABLE_SHARED_LIBS_AUTO_UPGRADE": "1",
        },
    ),
    "uv": Installer(
        version="0.13.9",
        run=("bin/uv",),
        install=("uv", "tool", "install"),
        uninstall=("uv", "tool", "uninstall", "payd"),
        env={
            "UV_NO_CONFIG": "1",
            "UV_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "UV_FIND_LINKS": "{wheels}",
            "UV_PYTHON": sys.executable,
        },
    ),
}


@pytest.mark.parametrize("name", INSTALLERS)
def test_an_installer_upgrades_and_removes_payd_and_leaves_its_data(
    built: Built, tmp_path: Path, name: str
) -> None:
    installer = INSTALLERS[name]
    tool = from_pypi(CACHE / name, {name: installer.version}).parents[1]
    wheels = str(libraries_of(ROOT / LOCK, WHEELS, list(HERE)))
    here = place(
        tmp_path / "place", **{key: value.format(wheels=wheels) for key, value in installer.env.items()}
    )
    programs = Path(here.env["HOME"], ".local", "bin")
    payd = place(tmp_path / "shop", str(programs / "payd"))

    def run(*words: str | Path) -> None:
        assert words[0] == name
        command = [tool / installer.run[0], *installer.run[1:], *words[1:]]
        done = subprocess.run(
            command,
            cwd=here.folder,
            env=here.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S_MAX,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    assert f"`{' '.join(installer.install)} dist/payd-*.whl`" in " ".join(README.read_text().split())
    run(*installer.install, built.wheel)
    assert payd.run("version").startswith(f"payd {__version__}\n")
    with served(payd) as said:
        payment = found(r"pay_t\w+", said)

    newer, _ = packages_of(of_version(NEWER, tmp_path / "source"), tmp_path)
    run(*installer.install, "--force", newer)
    assert payd.run("version").startswith(f"payd {NEWER}\n")
    assert payment in payd.run("payment", "show", payment)

    data = {each: each.read_bytes() for each in (payd.folder / "data").rglob("*") if each.is_file()}
    assert data
    run(*installer.uninstall)
    assert not list(programs.iterdir())
    assert {each: each.read_bytes() for each in data} == data
