"""What is built runs without its source: installed from the wheel, and as the one file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from payd import __version__
from tests.pictures import plain
from tests.release.build import LOCK, ROOT, Built, libraries_of
from tests.release.conftest import RUN_S_MAX, WHEELS, Place, place
from tests.release.pythons import HERE, OTHERS, PYTHON
from tests.test_readme import README, blocks_of

pytestmark = pytest.mark.real_time


SUDO = '#!/bin/sh\nexec "$@"\n'


def follow(page_block: int, built: Built, folder: Path, python: str = PYTHON) -> Place:
    """Do what a block of README.md says, up to its last line, which runs payd.

    `sudo` is nobody, and /usr/local/bin is a folder that the PATH has. No network: the libraries are here.
    The `python3` of the PATH is the version that is asked for.
    """
    *lines, last = [one for one in blocks_of(README.read_text()) if one.mark == "release"][
        page_block
    ].text.splitlines()
    here = place(folder)
    own = folder / "bin"
    own.mkdir()
    for name, text in (("sudo", SUDO), ("python3", f'#!/bin/sh\nexec {HERE[python]} "$@"\n')):
        (own / name).write_text(text)
        (own / name).chmod(0o755)
    (folder / "dist").symlink_to(built.wheel.parent)
    (folder / LOCK).symlink_to(ROOT / LOCK)
    env = {
        **here.env,
        "PATH": f"{own}:{here.env['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(libraries_of(ROOT / LOCK, WHEELS, list(HERE))),
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_NO_CACHE_DIR": "1",
    }
    script = "\n".join(["set -eu", *lines]).replace("/usr/local/bin", str(own))
    subprocess.run(["bash", "-c", script], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    program, *demo = last.split()
    assert demo == ["demo"]
    program = program.replace("~", here.env["HOME"]) if "/" in program else str(own / program)
    return replace(here, program=(program,), env={**here.env, "PATH": env["PATH"]})


def cached(home: Path) -> list[Path]:
    """What the archive unpacked, and is whole."""
    return list(home.glob(".cache/pex/venvs/*/*/*/pex"))


@contextmanager
def served(here: Place) -> Iterator[str]:
    """A server with a demo shop; gives what it says first."""
    with here.start("serve", "--demo", "--listen", "127.0.0.1:0") as process:
        assert process.stdout is not None
        said = ""
        try:
            while "/pay/" not in said or "/setup" not in said:
                line = process.stdout.readline()
                assert line, f"{said}{process.stderr and process.stderr.read()}"
                said += line
            yield said
        finally:
            process.terminate()
            process.communicate(timeout=RUN_S_MAX)
    assert process.returncode == 0


def kill_while_it_unpacks(here: Place, home: Path) -> None:
    with here.start("version") as process:
        while process.poll() is None and not list(home.glob(".cache/pex/installed_wheels/*/*/*.whl")):
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=RUN_S_MAX) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, f"{pattern} is not in\n{text}"
    return match[0]


def check_pages(here: Place) -> None:
    """The pages with all that belongs to them, in another language, and a picture's own process."""
    with served(here) as said:
        pay = found(r"http://\S+/pay/\w+", said)
        base = pay.split("/pay/")[0]
        page = read(f"{pay}?lang=de")
        assert 'lang="de"' in page
        setup = read(found(r"http://\S+/setup\S*", said))
        for links in (page, setup):
            for each in re.findall(r'(?:src|href)="(/static/[^"]+)"', links):
                assert read(base + each)
        assert read(f"{base}/static/htmx.min.js").startswith("var htmx=")
        merchant = found(r"mrch_\w+", said)
        logo = here.folder / "logo.png"
        logo.write_bytes(plain())
        here.run("merchant", "logo", merchant, str(logo))


def test_the_wheel_runs_where_its_source_is_not(built: Built, tmp_path: Path) -> None:
    installed = follow(0, built, tmp_path / "place")
    told = json.loads(installed.run("version", "--json"))
    assert told["version"] == __version__
    assert len(told["libraries"]) > 50
    made = json.loads(installed.run("init", "--data-dir", "made", "--json"))
    assert made["apiKey"].startswith("svc_test_")
    check_pages(installed)
    assert installed.run("demo", "--scratch").endswith("all four webhooks verified.\n")


def test_the_one_file_unpacks_once_and_does_all_that_the_source_does(built: Built, tmp_path: Path) -> None:
    one_file = follow(1, built, tmp_path / "place")
    home = Path(one_file.env["HOME"])
    kill_while_it_unpacks(one_file, home)
    assert list(home.glob(".cache/pex/*"))
    assert cached(home) == []

    starts = [one_file.start("version", "--json") for _ in range(2)]
    for process in starts:
        with process:
            said, error = process.communicate(timeout=RUN_S_MAX)
            assert process.returncode == 0, error
            assert json.loads(said)["version"] == __version__
    [unpacked] = cached(home)  # once, though two started at once, and one before them was killed
    made = unpacked.stat().st_ino
    assert one_file.run("version").startswith(f"payd {__version__}\n")
    assert [each.stat().st_ino for each in cached(home)] == [made]

    one_file.run("init", "--data-dir", "made")
    check_pages(one_file)
    assert one_file.run("demo", "--scratch").endswith("all four webhooks verified.\n")


def test_the_one_file_runs_where_its_home_cannot_be_written(built: Built, tmp_path: Path) -> None:
    # Root may write anywhere, unless that right is taken away.
    strict = ["setpriv", "--bounding-set", "-dac_override", "--"] if os.geteuid() == 0 else []
    here = place(tmp_path / "place", *strict, sys.executable, str(built.archive))
    home = Path(here.env["HOME"])
    home.chmod(0o555)
    said, error = here.start_and_end("demo", "--scratch")
    assert said.endswith("all four webhooks verified.\n")
    assert "is un-writeable, falling back to a temporary PEX_ROOT" in error
    assert list(home.iterdir()) == []
    assert [each.name for each in here.folder.glob("pex-root*")] == []


@pytest.mark.parametrize("block", [0, 1], ids=["wheel", "one file"])
@pytest.mark.parametrize("python", OTHERS)
def test_both_run_with_every_other_python_that_is_here(
    built: Built, tmp_path: Path, python: str, block: int
) -> None:
    other = follow(block, built, tmp_path / "place", python)
    said, _ = other.start_and_end(
        "version", "--json"
    )  # as it unpacks, it may warn of a folder as deep as this
    assert json.loads(said)["python"].startswith(f"{python}.")
    # What is deprecated in this Python is an error in the next one.
    strict = replace(other, env={**other.env, "PYTHONWARNINGS": "error::DeprecationWarning"})
    assert strict.run("demo", "--scratch").endswith("all four webhooks verified.\n")
