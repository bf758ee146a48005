"""Fuzzing that coverage guides: `scripts/fuzz`. Each target gets a process and a share of the time."""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import sys
import tempfile
import time
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.fuzz.mutation import bent
from tests.fuzz.target import Target, is_refused

CORPUS: Final = Path(".cache/fuzz/corpus")
FOUND: Final = Path(".cache/fuzz/found")
# Python's own limit, which a library of signatures lifts when it is imported; servers put it back.
NESTING_MAX: Final = 1000
INPUT_BYTES_MAX: Final = 65_536
# Whose branches lead on to new inputs.
INSTRUMENTED: Final = ["payd", "werkzeug", "webauthn", "cbor2"]
# One input that takes this long is a finding.
SLOW_S: Final = 5
MEMORY_MIB: Final = 2048


def main() -> int:
    """Run all targets, or those that are named; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="names of targets; all, if none is given"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of them together (default: 10)")
    parser.add_argument("--list", action="store_true", help="show the names of all targets and stop")
    asked = parser.parse_args()
    atheris: Any = import_module("atheris")
    # Once for all: it takes longer than most targets get.
    with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
        targets: dict[str, Target] = import_module("tests.fuzz.table").TARGETS
    import_module("py_ecc")
    sys.setrecursionlimit(NESTING_MAX)
    unknown = [name for name in asked.targets if name not in targets]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; --list shows all")
    if asked.list:
        print("\n".join(targets))
        return 0
    names = asked.targets or list(targets)
    seconds = max(1, round(asked.minutes * 60 / len(names)))
    results = [_run(atheris, name, targets[name], seconds) for name in names]
    found = [name for name, (_, is_found) in zip(names, results, strict=True) if is_found]
    print(
        f"{len(names)} targets, {sum(runs for runs, _ in results):,} executions, {len(found)} with findings"
    )
    for name in found:
        print(f"  {name}: the input is in {_folder(FOUND, name)}")
    return 1 if found else 0


def _folder(root: Path, name: str) -> Path:
    return root / name.replace(" ", "-").replace("/", "-")


def _run(atheris: Any, name: str, target: Target, seconds: int) -> tuple[int, bool]:
    """How often the target was run in a process of its own, and whether something was found."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            _fuzz(atheris, name, target, seconds)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").splitlines()
    runs = sum(int(line.split()[-1]) for line in lines if "number_of_executed_units" in line)
    ended = "" if status == 0 else f", ended with {status}"
    print(f"{name}: {runs:,} in {time.monotonic() - begun:.0f} s{ended}", flush=True)
    if status:
        print("\n".join(f"    {line[:200]}" for line in lines[-40:]), flush=True)
    return runs, status != 0


def _fuzz(atheris: Any, name: str, target: Target, seconds: int) -> None:
    """One target in this process, which libFuzzer ends."""
    corpus, found = _folder(CORPUS, name), _folder(FOUND, name)
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for one in target.seeds:
        (corpus / hashlib.sha256(one).hexdigest()[:16]).write_bytes(one)

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        """Half are bent as in the suite, which keeps JSON what it is; half as libFuzzer likes."""
        return bent(data, seed)[:size_max] if seed & 1 else bytes(atheris.Mutate(data, size_max))

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={SLOW_S}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup(
        [sys.argv[0], *options, str(corpus)],
        lambda data: is_refused(target, data) and None,
        custom_mutator=mutate,
    )
    atheris.Fuzz()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
