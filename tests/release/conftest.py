"""What `scripts/build` makes, once for all tests here, and a place far from the source to run it in."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.release.build import ROOT, Built, build
from tests.release.pythons import HERE

WHEELS = ROOT / ".cache" / "wheels"
RUN_S_MAX = 180.0


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """All three, the archive for each Python that is here; made by whichever worker comes first."""
    own = tmp_path_factory.getbasetemp()
    out = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "dist"
    out.mkdir(exist_ok=True)
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "payd").exists():
            return build(ROOT, out, WHEELS, list(HERE))
    [wheel], [sdist] = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(wheel, sdist, out / "payd")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder and a home with nothing of the source's, where an installed payd is run."""

    folder: Path
    program: tuple[str, ...]
    env: Mapping[str, str]

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start `payd …`; what it says can be read."""
        return subprocess.Popen(
            [*self.program, *args],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str) -> str:
        """What `payd …` prints; it has to end well and say nothing else."""
        said, error = self.start_and_end(*args)
        assert error == ""
        return said

    def start_and_end(self, *args: str) -> tuple[str, str]:
        """What `payd …` prints on either; it has to end well."""
        with self.start(*args) as process:
            said, error = process.communicate(timeout=RUN_S_MAX)
        assert process.returncode == 0, said + error
        return said, error


def place(folder: Path, *program: str, **variables: str) -> Place:
    """A place with a home of its own, unless there is one in the variables."""
    home = folder / "home"
    home.mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(folder), **variables}
    return Place(folder, program, env)
