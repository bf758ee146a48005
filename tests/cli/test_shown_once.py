"""A key is shown, or it is revoked: none stays valid that nobody has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import Terminal


def printing(payd: Terminal, out: int, *args: str) -> tuple[int, str]:
    """Run a command whose output goes there; its exit code, and what it says on standard error."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "payd", *args]
    with subprocess.Popen(command, cwd=payd.folder, env=env, stdout=out, stderr=subprocess.PIPE) as process:
        os.close(out)
        _, said = process.communicate()
    return process.returncode, said.decode()


def nowhere(kind: str) -> int:
    """A file that takes nothing: a disk that is full, or a pipe whose reader has gone."""
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.real_time
@pytest.mark.alike
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["people", "json"])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [("full", "No space left on device"), ("unread", "Broken pipe")],
    ids=["full", "unread"],
)
def test_a_key_that_cannot_be_shown_is_revoked(
    begun: Terminal, kind: str, reason: str, form: tuple[str, ...]
) -> None:
    made = ("key", "create", "--name", "unseen", *form)
    code, said = printing(begun, nowhere(kind), *made)
    assert said.startswith(f"Error: The key was made and cannot be shown: {reason}. It was revoked again.")
    assert "payd key create --mode test\n" in said
    assert (code, said.count("\n")) == (1, 1), said
    [first, unseen] = begun.json("key", "list", "--all")
    assert (first["revokedAt"], unseen["name"]) == (None, "unseen")
    assert unseen["revokedAt"] is not None


@pytest.mark.real_time
def test_the_first_key_of_a_house_is_one_of_them_and_another_can_be_made(payd: Terminal) -> None:
    code, said = printing(payd, nowhere("full"), "init")
    assert (code, "It was revoked again. Make another one: " in said) == (1, True)
    assert [one["revokedAt"] is not None for one in payd.json("key", "list", "--all")] == [True]
    assert payd.json("key", "create")["apiKey"].startswith("svc_test_")


@pytest.mark.real_time
@pytest.mark.alike
@pytest.mark.parametrize(("lines", "made"), [("1", ("key", "create")), ("4", ("init",))], ids=["key", "init"])
def test_a_reader_that_leaves_with_the_key_keeps_it_valid(
    payd: Terminal, lines: str, made: tuple[str, ...]
) -> None:
    if made != ("init",):
        payd("account", "create", "main")
    reading, writing = os.pipe()
    with subprocess.Popen(["head", "-n", lines], stdin=reading, stdout=subprocess.PIPE) as head:
        os.close(reading)
        printing(payd, writing, *made)
        shown, _ = head.communicate()
    assert b"svc_test_" in shown
    assert [one["revokedAt"] for one in payd.json("key", "list")] == [None]


def test_a_key_that_can_be_neither_shown_nor_revoked_is_named(
    begun: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        (begun.folder / "data" / "office.db").rename(begun.folder / "office.db")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("payd.cli.key.show_fields", full)
    said = begun.error("key", "create", "--data-dir", "data")
    assert "It is still valid: " in said
    assert "payd key revoke key_" in said
    assert said.endswith(" --mode test --data-dir data\n")
