"""House rules, as tests: what a reviewer would otherwise have to say again.

Here is what the others cannot say: ruff has the banned calls (clocks, randomness, print), mypy the types,
`test_layers.py` the order of floors, `config/test_sections.py` the keys of payd.toml.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import payd
from payd.core.errors import PaydError

ROOT = Path(__file__).parents[1]

LINES_MAX = 500
FUNCTION_LINES_MAX = 70

TOP_LEVEL = {
    "LICENSE",
    "README.md",
    "payd",
    "payd.toml",
    "pyproject.toml",
    "requirements.lock",
    "scripts",
    "tests",
}

# A file with such a name has no subject.
NAMELESS = re.compile(r"common|helpers?|lib|managers?|misc|models|services|utils?")

# Who starts tasks, and what these are: every task's parent is in one of these places.
STARTERS = {
    "payd/actors/": "the tasks that live long",
    "payd/server.py": "the tree of them all",
    "payd/cli/backup.py": "a server's copy and the look at how far it is; both end with the command",
    "payd/cli/demo.py": "a receiver and a page's websocket beside one payment; all end with the command",
    "payd/cli/demo_live.py": "the feed beside one payment, which ends with the command",
    "payd/cli/doctor_outside.py": "a question to each host of webhooks at once; all end with the command",
    "payd/cli/listen.py": "one that reads and one that forwards; both end with the command",
    "payd/cli/feed_connection.py": "both directions of one websocket",
    "payd/store/db.py": "the committer and the checkpoints",
    "payd/store/connection.py": "what is opened or closed to its end, and ends with the call",
    "payd/web/front.py": "one guard a connection",
    "payd/web/sockets.py": "both directions of one websocket",
    "payd/chains/market/prices.py": "every source of prices asked at once, which ends with the call",
    "payd/net/dial.py": "a race between addresses, which ends with the call",
    "payd/chains/socket.py": "both directions of one websocket",
    "payd/chains/rpc.py": "one question to several nodes at once, which ends with the call",
}
STARTING = {"start_soon", "open_nursery", "spawn_system_task"}

# Source files without a test of their own, each with the reason.
TESTED_ELSEWHERE = {
    "payd/__init__.py": "the map; test_layers.py checks what it draws",
    "payd/__main__.py": "two lines; every test that starts a server goes through it",
    "payd/actors/live_chain.py": "a tuple with names; test_live.py opens it",
    "payd/actors/relay_stats.py": "numbers with names; tests of the relayer and of the submitter read them",
    "payd/chains/base.py": "an interface; tests/chains/conformance.py holds every chain to it",
    "payd/chains/finding.py": "a tuple with names; the tests of each doctor read it",
    "payd/core/errors.py": "names and codes; the table of statuses is tested over all of them",
    "payd/web/openapi/fields.py": "words of JSON Schema; every answer in tests/web holds them to the truth",
    "payd/web/openapi/gateway.py": "words for routes; test_document.py goes through them all",
    "payd/web/openapi/merchants.py": "words for routes",
    "payd/web/openapi/operation.py": "a tuple with names",
    "payd/web/openapi/payments.py": "words for routes",
    "payd/web/openapi/prose.py": "words; test_document.py and test_page.py show them",
    "payd/web/openapi/service.py": "words for routes; test_table.py holds what is left out",
    "payd/web/openapi/webhooks.py": "words for routes",
}

FORBIDDEN_TEXT = {
    "a path of one machine": r"(?<![\w.\-])/(?:work|root|home)/",
    "a registry's host": r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|debian\.org/debian|crates\.io",
    "something left to do": r"\bTO[D]O\b|\bFIX[M]E\b",
}

ASSERTS = re.compile(r"^(raises|warns|fail|(check|assert|expect)(_\w+)?)$")


@cache
def files() -> tuple[str, ...]:
    """Every file that is or will be in the repository, by its path from the top."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()))


def sources(prefix: str = "") -> list[str]:
    return [name for name in files() if name.endswith(".py") and name.startswith(prefix)]


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(text_of(name), filename=name)


def functions_of(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def called_name(node: ast.Call) -> str:
    """The last part of what is called: `raises` of `pytest.raises(…)`."""
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def can_fail(node: ast.AST) -> bool:
    """Is this an assertion, or a call of one?"""
    return isinstance(node, ast.Assert) or (
        isinstance(node, ast.Call) and ASSERTS.match(called_name(node)) is not None
    )


def test_the_top_level_holds_the_promised_files_and_nothing_else() -> None:
    shown = {name.split("/")[0] for name in files() if not name.startswith(".")}
    assert shown == TOP_LEVEL


def test_no_file_or_folder_has_a_name_without_a_subject() -> None:
    nameless = [name for name in files() if any(NAMELESS.fullmatch(part) for part in re.split("[/.]", name))]
    assert not nameless, "\n".join(nameless)


def test_every_module_opens_with_its_subject_in_one_line() -> None:
    silent = [name for name in sources() if not (ast.get_docstring(tree_of(name)) or "").strip()]
    assert not silent, "\n".join(silent)


def test_no_file_is_longer_than_the_wall() -> None:
    long = [name for name in sources() if len(text_of(name).splitlines()) > LINES_MAX]
    assert not long, "\n".join(long)


def test_no_function_is_longer_than_the_wall() -> None:
    long = [
        f"{name}:{function.lineno} {function.name}: {lines}"
        for name in sources()
        for function in functions_of(name)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_tasks_start_only_where_their_parent_is_visible() -> None:
    starts = [
        f"{name}:{node.lineno} {called_name(node)}"
        for name in sources("payd/")
        if not name.startswith(tuple(STARTERS))
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Call) and called_name(node) in STARTING
    ]
    assert not starts, "\n".join(starts)


@pytest.mark.parametrize("what", FORBIDDEN_TEXT)
def test_no_file_names(what: str) -> None:
    pattern = re.compile(FORBIDDEN_TEXT[what])
    found = []
    for name in files():
        try:
            lines = text_of(name).splitlines()
        except UnicodeDecodeError:
            continue  # A picture or a stored database.
        found += [f"{name}:{n} {line.strip()}" for n, line in enumerate(lines, 1) if pattern.search(line)]
    assert not found, "\n".join(found)


def test_every_source_file_has_its_test_at_the_mirrored_path() -> None:
    there = set(files())
    bare = []
    for name in sources("payd/"):
        path = Path(name)
        mirrored = Path("tests", *path.parts[1:-1], f"test_{path.name}").as_posix()
        if path.name == "__init__.py":
            has_code = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree_of(name).body)
            mirrored = Path("tests", *path.parts[1:-1], f"test_{path.parent.name}.py").as_posix()
            if not has_code:
                continue
        if mirrored not in there and name not in TESTED_ELSEWHERE:
            bare.append(f"{name} -> {mirrored}")
    assert not bare, "\n".join(bare)
    assert TESTED_ELSEWHERE.keys() <= there


def test_no_test_is_skipped() -> None:
    skipped = [
        f"{name}:{node.lineno} {node.attr}"
        for name in sources("tests/")
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Attribute) and node.attr in {"skip", "skipif", "importorskip"}
    ]
    assert not skipped, "\n".join(skipped)


def test_every_test_can_fail() -> None:
    toothless = []
    for name in sources("tests/"):
        for function in functions_of(name):
            if not function.name.startswith("test_"):
                continue
            if not any(can_fail(node) for node in ast.walk(function)):
                toothless.append(f"{name}:{function.lineno} {function.name}")
    assert not toothless, "\n".join(toothless)


def test_every_citation_names_a_heading_that_exists() -> None:
    headings = set(text_of("tests/spec_headings.txt").splitlines())
    unknown = []
    for name in sources():
        for source in re.findall(r"^\s*Source: (.+?)(?:\n\s*\n|\"\"\"|\Z)", text_of(name), re.M | re.S):
            cited = re.findall(r'([A-Z]+\.md), "([^"]+)"', re.sub(r"\s+", " ", source))
            if ".md" in source and not cited:
                unknown.append(f"{name}: {source}")
            cited_headings = {f"{page}: {title}" for page, title in cited}
            unknown += [f"{name}: {heading}" for heading in sorted(cited_headings - headings)]
    assert not unknown, "\n".join(unknown)


def all_errors(kind: type[PaydError] = PaydError) -> set[type[PaydError]]:
    below = set(kind.__subclasses__())
    return below.union(*map(all_errors, below))


def test_every_refusal_is_in_the_one_table_of_statuses() -> None:
    from payd.web.errors import STATUS

    for module in pkgutil.walk_packages(payd.__path__, "payd."):
        if module.name != "payd.__main__":
            importlib.import_module(module.name)

    assert {error.__name__ for error in all_errors() ^ STATUS.keys()} == set()


def test_no_statement_numbers_its_parameters() -> None:
    """Python 3.12 warns of a list of values for `?1`, and 3.14 takes none: what is used twice has a name."""
    numbered = [
        f"{name}:{n} {line.strip()}"
        for name in [*sources("payd/store/"), *sources("tests/bench/")]
        for n, line in enumerate(text_of(name).splitlines(), 1)
        if re.search(r"[ (]\?\d", line)
    ]
    assert not numbered, "\n".join(numbered)
