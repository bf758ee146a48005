"""A failure for a reason is one line and a documented exit code; a bug keeps its traceback."""

from __future__ import annotations

import errno
from pathlib import Path

import click
import pytest

from payd.cli.failure import Misconfigured, Refused, Unreachable, told, with_issues, writing
from payd.config import ConfigError
from payd.core.errors import InvalidParams, Issue, ParamsValidation
from payd.store.lock import DataDirectoryBusy
from payd.store.migrate import DatabaseTooNew
from payd.store.seal import SealKeyUnusable
from tests.terminal import Terminal

REASONS = [
    (InvalidParams("Not like this."), Refused, 1, "Not like this."),
    (ConfigError(["payd.toml:1: a", "payd.toml:2: b"]), Misconfigured, 2, "payd.toml:1: a\npayd.toml:2: b"),
    (DataDirectoryBusy(Path("data"), 7), Unreachable, 3, "payd runs here already (process 7)"),
    (DatabaseTooNew(9, 1), Refused, 1, "run the newer payd again"),
    (SealKeyUnusable("seal.key can be read by others"), Refused, 1, "seal.key can be read by others"),
    (OSError(errno.EACCES, "Permission denied", "data"), Refused, 1, "Permission denied: data"),
    (OSError(errno.EADDRINUSE, "Address already in use"), Refused, 1, "--listen HOST:PORT"),
    (UnicodeEncodeError("utf-8", "K\udce4se", 1, 2, "surrogates not allowed"), Refused, 1, "is not UTF-8"),
    (Unreachable("It does not run."), Unreachable, 3, "It does not run."),
]


@pytest.mark.parametrize(("error", "kind", "code", "words"), REASONS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_reason_becomes_words_and_a_code_also_out_of_a_nursery(
    error: Exception, kind: type[click.ClickException], code: int, words: str, depth: int
) -> None:
    raised: Exception = error
    for _ in range(depth):
        raised = ExceptionGroup("nursery", [raised])
    with pytest.raises(kind) as caught, told():
        raise raised
    assert caught.value.exit_code == code
    assert words in caught.value.format_message()


def test_a_current_folder_that_was_removed_is_named_as_what_is_missing(
    payd: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for whoever stays in a folder that an upgrade has replaced."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = payd.error("account", "list", "--data-dir", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert said == "Error: The current folder is not there any more. Go to one that is.\n"


def test_a_reason_of_the_system_has_no_number() -> None:
    with pytest.raises(Refused) as caught, told():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.format_message() == "No space left on device"


@pytest.mark.parametrize(
    "bug",
    [
        RuntimeError("a bug"),
        UnicodeEncodeError("ascii", "Käse", 1, 2, "ordinal not in range(128)"),
        ExceptionGroup("nursery", [RuntimeError("a bug")]),
        ExceptionGroup("nursery", [InvalidParams("a reason"), RuntimeError("and a bug")]),
        ExceptionGroup("nursery", [InvalidParams("one"), InvalidParams("two")]),
    ],
)
def test_a_bug_comes_out_as_it_is(bug: Exception) -> None:
    with pytest.raises(type(bug)) as caught, told():
        raise bug
    assert caught.value is bug


@pytest.mark.parametrize("depth", [0, 1])
def test_a_reader_that_went_away_is_left_to_click(depth: int) -> None:
    gone: Exception = BrokenPipeError(errno.EPIPE, "Broken pipe")
    raised = ExceptionGroup("nursery", [gone, ExceptionGroup("inner", [gone])]) if depth else gone
    with pytest.raises(BrokenPipeError), told():
        raise raised


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EACCES, "payd cannot write to .*/data .user .+. Give this user the directory, or choose"),
        (errno.ENOSPC, "no space left for .*/data. Make room, or choose another with --data-dir"),
        (errno.EROFS, "/data lies on a disk that is mounted read-only, .*. Mount it for writing, or choose"),
        (errno.ENOTDIR, "/data is no directory, .* or choose another with --data-dir"),
    ],
)
def test_a_directory_that_cannot_be_written_is_named_with_what_to_do(code: int, words: str) -> None:
    failed = OSError(code, "words", "data/lock")
    for raised in (failed, ExceptionGroup("nursery", [failed, failed])):
        with pytest.raises(Refused, match=words), writing(Path("data")):
            raise raised


def test_another_failure_is_not_the_directorys() -> None:
    for error in (RuntimeError("a bug"), OSError(errno.EACCES, "words", "/elsewhere")):
        with pytest.raises(type(error)) as caught, writing(Path("data")):
            raise error
        assert caught.value is error


def test_an_interrupt_in_a_nursery_is_an_abort() -> None:
    with pytest.raises(click.Abort), told():
        raise BaseExceptionGroup("nursery", [KeyboardInterrupt()])


def test_the_fields_that_are_wrong_are_named_once() -> None:
    issues = [Issue("a", "Too long."), Issue("b", "Missing.")]
    assert with_issues("a: Too long.", issues) == "a: Too long.\n  b: Missing."
    with pytest.raises(Refused, match="Wrong\\.\n  a: Too long\\."), told():
        raise ParamsValidation("Wrong.", issues=issues)
