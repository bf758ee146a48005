"""What tests take from npm, PyPI and Debian, once a machine; several runs may find it missing at once."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).parents[1] / ".cache"
INSTALL_MAX_S: Final = 300

POLICY: Final = Path("/usr/sbin/policy-rc.d")
"""What Debian's packages ask before they start their service; 101 is no. Containers have one that says so."""


def from_npm(folder: Path, packages: Mapping[str, str], *flags: str) -> Path:
    """Have these versions in a folder, and say where.

    Args:
        folder: Holds `node_modules` afterwards.
        packages: Versions by name.
        flags: More of `npm install`.
    """
    with _alone("npm"):
        if any(_installed(folder, name) != version for name, version in packages.items()):
            folder.mkdir(parents=True, exist_ok=True)
            command = [
                "npm",
                "install",
                "--no-save",
                "--no-audit",
                "--no-fund",
                *flags,
                "--prefix",
                str(folder),
            ]
            _run([*command, *(f"{name}@{version}" for name, version in packages.items())])
    return folder


def from_pypi(folder: Path, packages: Mapping[str, str]) -> Path:
    """Have these versions in an environment, and return its Python; what is started from a folder can move.

    Args:
        folder: Of the environment, which is made new when one of them is missing.
        packages: Versions by name.
    """
    python = folder / "bin" / "python"
    with _alone("pypi"):
        there = {each.name for each in folder.glob("lib/python*/site-packages/*.dist-info")}
        if any(f"{name}-{version}.dist-info" not in there for name, version in packages.items()):
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*command, *(f"{name}=={version}" for name, version in packages.items())])
    return python


def from_debian(program: str, *packages: str) -> str:
    """The path of a program; on a machine that is ours to furnish, its packages are installed first.

    A server that comes with a package is not started.
    """
    with _alone("apt"):
        if shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get"):
            _run(["apt-get", "-qq", "update"])
            with _nothing_starts():
                _run(["apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages])
    if (found := shutil.which(program)) is None:
        wanted = " ".join(packages)
        raise RuntimeError(f"these tests need {program}; on Debian and Ubuntu: apt-get install {wanted}")
    return found


def unpacked_from_debian(folder: Path, release: str, *packages: str) -> Path:
    """Have what these packages of another release of Debian hold in a folder, and say where.

    Nothing of it is installed: the machine's own libraries stay what they are.

    Args:
        folder: Holds what a root directory holds, such as `usr`.
        release: Its codename.
        packages: By name, with all that they need of each other.
    """
    with _alone("apt"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as work:
                _unpack(Path(work), release, packages)
                (Path(work) / "root").rename(folder)
    return folder


def _unpack(work: Path, release: str, packages: tuple[str, ...]) -> None:
    """Ask the mirror that the machine's own packages come from, with lists of one's own."""
    mirror = _mirror()
    for name in ("lists/partial", "cache/archives/partial", "debs", "root"):
        (work / name).mkdir(parents=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (work / "sources.list").write_text(f"deb [signed-by={keys}] {mirror} {release} main\n")
    places = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in places.items())]
    _run([*apt, "update"])
    _run([*apt, "download", *packages], work / "debs")
    for package in (work / "debs").iterdir():
        _run(["dpkg-deb", "-x", str(package), str(work / "root")])


def _mirror() -> str:
    """Where the machine's own packages come from."""
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian" or shutil.which("apt-get") is None:
        raise RuntimeError("these tests need Debian, or a system with libraries as late as they name")
    if not (targets := _targets()):
        _run(["apt-get", "-qq", "update"])
        targets = _targets()
    return next(uri for release, uri in targets if release == system["VERSION_CODENAME"])


def _targets() -> list[tuple[str, str]]:
    """The releases that lists of packages are there of, each with its mirror."""
    asked = ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return [(release, uri) for release, uri in map(str.split, listed.splitlines())]


@contextmanager
def _nothing_starts() -> Iterator[None]:
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


@contextmanager
def _alone(what: str) -> Iterator[None]:
    """Nobody else of this machine's folder installs the like meanwhile."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], folder: Path | None = None) -> None:
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=quiet, timeout=INSTALL_MAX_S, capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"


def _installed(folder: Path, name: str) -> str | None:
    manifest = folder / "node_modules" / name / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else None
