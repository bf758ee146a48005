"""`payd version` says which program, API and webhook versions these are."""

from __future__ import annotations

from payd import __version__
from tests.terminal import Terminal


def test_a_person_sees_one_line(payd: Terminal) -> None:
    assert payd("version").output == f"payd {__version__}\n"


def test_a_program_sees_all_versions(payd: Terminal) -> None:
    shown = payd.json("version")
    assert shown["version"] == __version__
    assert shown["apiVersions"] == ["2026-02-18", "2026-02-19.preview"]
    assert shown["webhookVersion"] == "2026-05-18"
