"""Lighthouse, from npm into the folder of caches, on the Chromium of these tests.

It throttles a phone's network and processor by calculation, not by waiting: its scores depend little on what
else the machine does.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.browser.conftest import FLAGS, find_chromium
from tests.packages import CACHE, from_npm

# The newest that runs on Node 20.
VERSION: Final = "12.8.2"
RUN_MAX_S: Final = 180


def installed() -> Path:
    """The command."""
    folder = from_npm(CACHE / "lighthouse", {"lighthouse": VERSION}, "--ignore-scripts")
    return folder / "node_modules" / ".bin" / "lighthouse"


def examine(url: str, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Scores of a page on a phone, in percent, by category; and audits that fell short in the last two.

    Without scores, it could not finish a trace, and says why.
    """
    report = folder / "lighthouse.json"
    flags = " ".join((*FLAGS, "--headless=new"))
    command = [str(installed()), url, "--quiet", "--output=json", f"--output-path={report}"]
    command += ["--only-categories=performance,accessibility,best-practices", f"--chrome-flags={flags}"]
    done = subprocess.run(
        command,
        env=os.environ | {"CHROME_PATH": find_chromium()},
        timeout=RUN_MAX_S,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {}, [done.stderr[-2000:]]
    told: dict[str, Any] = json.loads(report.read_text())
    scores = {name: round(one["score"] * 100) for name, one in told["categories"].items()}
    short = [
        audit["id"]
        for name in ("accessibility", "best-practices")
        for audit in told["categories"][name]["auditRefs"]
        if audit["weight"]
        and (told["audits"][audit["id"]]["score"] or 0) < 1
        and told["audits"][audit["id"]]["scoreDisplayMode"] not in ("notApplicable", "manual", "informative")
    ]
    return scores, short
