"""`scripts/build`: a wheel, a source archive, and one file with all libraries; the same bytes each time."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging import tags

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = "requirements.lock"

PYTHONS: Final = ("3.11", "3.12", "3.13")
"""Those for which every library in the lock has a wheel."""

GLIBC_MINOR: Final = 28
"""glibc 2.28 is that of Debian 10 and RHEL 8; the oldest for which every library has a wheel."""

NO_COMMIT_AT_S: Final = 315_532_800
"""1 January 1980, where a zip file's time begins: for a tree without git."""

HOOKS: Final = """
import sys
from flit_core import buildapi
print(buildapi.build_wheel(sys.argv[1]))
print(buildapi.build_sdist(sys.argv[1]))
"""


PREAMBLE: Final = """
import os as _os, sys as _sys
_FITS = {pythons!r}
if "%d.%d" % _sys.version_info[:2] not in _FITS:
    for _name in reversed(_FITS):
        for _folder in _os.environ.get("PATH", "").split(_os.pathsep):
            _file = _os.path.join(_folder, "python" + _name)
            # pyenv's are there for every version that anybody has, and run nothing.
            if _os.access(_file, _os.X_OK) and not _folder.endswith("shims"):
                _os.execv(_file, [_file] + _sys.argv)
    _sys.exit("Error: this file runs with Python %s, and there is none on the PATH. On Debian and Ubuntu:"
              " apt-get install python3" % " or ".join(_FITS))
"""
"""What the archive does first, in any Python: find one that it has libraries for, or say so."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build made."""

    wheel: Path
    sdist: Path
    archive: Path


def build(root: Path, out: Path, wheels: Path, pythons: Sequence[str] = PYTHONS) -> Built:
    """Build everything.

    Args:
        root: The source.
        out: The folder for what is built.
        wheels: A folder in which the libraries' wheels are kept from one build to the next.
        pythons: What the archive has wheels for, such as `3.11`.

    Raises:
        subprocess.CalledProcessError: A step failed, and said why.
    """
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    wheel, sdist = packages_of(root, out)
    found = libraries_of(root / LOCK, wheels.absolute(), pythons)
    return Built(wheel, sdist, _archive(wheel, found, out / "payd", pythons))


def made_at_s(root: Path, env: Mapping[str, str]) -> int:
    """The Unix second that files in the packages have: SOURCE_DATE_EPOCH, else that of the last commit."""
    if env.get("SOURCE_DATE_EPOCH"):
        return int(env["SOURCE_DATE_EPOCH"])
    asked = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return int(told.stdout) if told.returncode == 0 else NO_COMMIT_AT_S


def packages_of(root: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the source archive of a source, built into a folder in place of older ones."""
    for older in (*out.glob("payd-*.whl"), *out.glob("payd-*.tar.gz")):
        older.unlink()
    env = os.environ | {"SOURCE_DATE_EPOCH": str(made_at_s(root, os.environ))}
    command = [sys.executable, "-c", HOOKS, str(out)]
    told = subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=True)
    wheel, sdist = told.stdout.split()
    return out / wheel, out / sdist


def libraries_of(lock: Path, kept: Path, pythons: Sequence[str]) -> Path:
    """A folder with the wheels that a lock names and no others, each checked against its hash.

    Raises:
        subprocess.CalledProcessError: One cannot be had, or is not the locked one.
    """
    folder = kept / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    for python in pythons:
        stamp = folder / f"{python}.done"
        if stamp.exists():
            continue
        target = ["--python-version", python]
        for each in platforms():
            target += ["--platform", each]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        checks = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement", str(lock)]
        subprocess.run([*command, *checks, *target, "--dest", str(folder)], check=True)
        stamp.touch()
    return folder


def _archive(wheel: Path, libraries: Path, file: Path, pythons: Sequence[str]) -> Path:
    """A PEX: at its first start it makes an environment in a cache folder, and from then on runs in that."""
    name, version, _ = wheel.name.split("-", 2)
    with tempfile.TemporaryDirectory(prefix="payd-build-") as scratch:
        targets = [_target(python, Path(scratch)) for python in pythons]
        command = [sys.executable, "-m", "pex", f"{name}=={version}", "--console-script", "payd"]
        sources = [
            "--no-pypi",
            "--no-build",
            "--find-links",
            str(libraries),
            "--find-links",
            str(wheel.parent),
        ]
        kind = [
            "--venv",
            "--no-pre-install-wheels",
            "--no-compress",
            "--python-shebang",
            "/usr/bin/env python3",
        ]
        where = [part for each in targets for part in ("--complete-platform", str(each))]
        preamble = Path(scratch, "preamble.py")
        preamble.write_text(PREAMBLE.format(pythons=tuple(pythons)))
        kind += ["--preamble-file", str(preamble)]
        own = ["--pex-root", f"{scratch}/root", "--tmpdir", scratch, "--output-file", str(file)]
        subprocess.run([*command, *sources, *kind, *where, *own], stdout=subprocess.DEVNULL, check=True)
    return file


def platforms() -> list[str]:
    """The platform tags of this machine, on Linux with glibc those that older systems have as well."""
    machine = platform.machine()
    if platform.libc_ver()[0] != "glibc":
        return list(tags.platform_tags())
    made = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 16, -1)]
    made.append(f"manylinux2014_{machine}")
    if machine == "x86_64":
        made += ["manylinux_2_12_x86_64", "manylinux2010_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64"]
    return [*made, f"linux_{machine}"]


def _target(python: str, folder: Path) -> Path:
    """A file that tells pex of a Python that need not be here."""
    major, minor = (int(part) for part in python.split("."))
    abi = f"cp{major}{minor}"
    fits = [
        *tags.cpython_tags((major, minor), [abi], platforms()),
        *tags.compatible_tags((major, minor), abi, platforms()),
    ]
    markers: dict[str, Any] = {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": "CPython",
        "platform_system": platform.system(),
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": sys.platform,
    }
    file = folder / f"{python}.json"
    file.write_text(
        json.dumps({"compatible_tags": [str(each) for each in fits], "marker_environment": markers})
    )
    return file


def main() -> None:
    """Build into `dist/`, and say what was made."""
    parser = argparse.ArgumentParser(prog="scripts/build", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for what is built [dist]")
    parser.add_argument("--python", action="append", dest="pythons", choices=PYTHONS, help="[all of them]")
    asked = parser.parse_args()
    built = build(ROOT, asked.out, ROOT / ".cache" / "wheels", asked.pythons or PYTHONS)
    for file in (built.wheel, built.sdist, built.archive):
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        print(f"{digest}  {file.name}  {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
