"""promtool, which knows what is wrong with a metrics page. Debian's build, unpacked and not installed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

CACHE: Final = Path(__file__).parents[1] / ".cache"
KEPT: Final = CACHE / "promtool"
PACKAGE: Final = "prometheus"
MEMBER: Final = "./usr/bin/promtool"
PATIENCE_S: Final = 120


def complaints(page: bytes) -> list[str]:
    """What `promtool check metrics` says about a page, line by line; empty when it is content."""
    done = subprocess.run(
        [find_promtool(), "check", "metrics"],
        input=page,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    return lines if lines or done.returncode == 0 else [f"promtool ended with {done.returncode}"]


def rule_complaints(rules: Path) -> list[str]:
    """What `promtool check rules` says about a file of alerts; empty when it is content."""
    done = subprocess.run(
        [find_promtool(), "check", "rules", "--lint-fatal", str(rules)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout.decode().splitlines() if done.returncode else []


def firing_complaints(rules: Path, series: Mapping[str, str], at: str, alerts: set[str]) -> list[str]:
    """What `promtool test rules` says where other alerts fire than these; empty when it is just they.

    Args:
        rules: A file of alerts.
        series: What was scraped each minute, in promtool's notation, by the metric and its labels.
        at: Since the first scrape, such as `10m`.
        alerts: Their names.
    """
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0',
        "eval_time": at,
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
    }
    scraped = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": scraped, "promql_expr_test": [asked]}
    file = rules.with_suffix(".test.json")
    file.write_text(json.dumps({"rule_files": [str(rules)], "tests": [test]}))
    done = subprocess.run(
        [find_promtool(), "test", "rules", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout.decode().splitlines() if done.returncode else []


@cache
def find_promtool() -> str:
    """The program's path. Where it is not installed, it is taken from Debian's package, once."""
    if (installed := shutil.which("promtool")) is not None:
        return installed
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.fail("These tests need promtool, which comes with Prometheus; put it into the PATH")
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "promtool.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Several runs may find it missing at once.
        if not KEPT.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                _unpack(_download(Path(folder)), Path(folder, "promtool"))
                Path(folder, "promtool").replace(KEPT)
    return str(KEPT)


def _download(folder: Path) -> Path:
    """The package. No daemon comes with it: it is only unpacked."""
    # apt's own user may not write into this folder.
    download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
    done = subprocess.run(download, cwd=folder, capture_output=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0 and os.geteuid() == 0:
        # A fresh machine has no lists yet, and old ones name packages that are gone.
        subprocess.run(["apt-get", "-qq", "update"], capture_output=True, timeout=PATIENCE_S, check=True)
        done = subprocess.run(download, cwd=folder, capture_output=True, timeout=PATIENCE_S, check=False)
    found = next(folder.glob("*.deb"), None)
    if done.returncode != 0 or found is None:
        pytest.fail(f"These tests need promtool; apt-get install {PACKAGE}\n{done.stderr.decode()}")
    return found


def _unpack(package: Path, target: Path) -> None:
    """Take the one program out of the package."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacking:
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as members:
            for member in members:
                if member.name == MEMBER and (content := members.extractfile(member)) is not None:
                    with target.open("wb") as program:
                        shutil.copyfileobj(content, program)
                    target.chmod(0o755)
                    break
        unpacking.kill()  # The rest is not wanted.
    assert target.exists(), f"there is no {MEMBER} in {package.name}"
