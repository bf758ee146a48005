"""README.md does what it says: its blocks run in order, as a reader pastes them, against a scratch server.

`sh` and `python` blocks run in one shell, in one folder, so that what one block sets the next can use. `toml`
blocks go through `payd check-config`, `json` blocks are parsed, `text` blocks are for the eye; `html` is a
page in `browser/test_embed.py`, and `yaml` has rules that `web/test_metrics.py` checks. The server is
the one that `scripts/run` starts, on a free port with its own data: the address in a block is replaced by its
address, and `svc_test_…` (or another prefix with `…`) by the first such value that it printed. A block under
`<!-- test: install -->` names commands that set up the machine itself: they are checked, not run. Under
`<!-- test: terminals -->` each line has its own terminal: the last one ends by itself, the others after it.
Those under `<!-- test: release -->` install what `scripts/build` made: `release/test_installed.py` runs them.
Blocks under `<!-- test: shop -->` are the shops of `receivers/test_receivers.py`, those under
`<!-- test: proxy -->` the proxies of `contract/test_proxies.py`. `cli/test_unit.py` holds those under
`<!-- test: unit -->` against systemd and runs their commands, and that under `<!-- test: cron -->`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BIN = Path(sys.executable).parent

FENCE = re.compile(r"(?:^<!-- test: (\w+) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
TAGS = {"sh", "python", "toml", "json", "text", "html", "js", "php", "yaml"}
MARKS = {"", "cron", "install", "proxy", "release", "shop", "terminals", "unit"}

END = "== the end of README.md"  # a block that left the shell would hide those after it

START_S_MAX = 60.0
LAST_PRINTED = "/setup?token="
PAGE_S_MAX = 400.0


class Block(NamedTuple):
    """One fenced block of the page."""

    line: int
    mark: str
    tag: str
    text: str


def blocks_of(page: str) -> list[Block]:
    return [
        Block(page.count("\n", 0, found.start(3)), found[1] or "", found[2], found[3])
        for found in FENCE.finditer(page)
    ]


def script_of(blocks: list[Block]) -> str:
    """The page as one bash script, which says which block it is at."""
    parts = ["set -euo pipefail"]
    for block in blocks:
        parts.append(f"echo '== README.md line {block.line}' >&2")
        file = f"line_{block.line}.{block.tag}"
        if block.tag == "sh":
            parts.append(block.text)
        elif block.tag in {"python", "toml"}:
            check = (
                f"python {file}" if block.tag == "python" else f"PAYD_CONFIG=$PWD/{file} payd check-config"
            )
            parts.append(f"cat >{file} <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n{check}")
    return "\n".join([*parts, f"echo {END}"])


def for_this_server(script: str, base_url: str, printed: str) -> str:
    """Put the scratch server's address and ids where the page has its own."""
    script = re.sub(
        r"\b(http|ws)://(?:127\.0\.0\.1|localhost):8420", rf"\1{base_url.removeprefix('http')}", script
    )

    def value(placeholder: re.Match[str]) -> str:
        found = re.search(rf"\b{placeholder[1]}[A-Za-z0-9]{{20,}}", printed)
        assert found, f"the page asks for {placeholder[0]}, but the server printed none:\n{printed}"
        return found[0]

    return re.sub(r"\b([a-z]+_(?:[a-z]+_)?)…", value, script)


def command_of(script: str) -> list[str]:
    """The command at the end of one of `scripts/`, for this environment."""
    last = (ROOT / script).read_text().splitlines()[-1]
    words = shlex.split(last.removeprefix("exec "))
    assert words[0] == ".venv/bin/python", last
    assert words[-1] == "$@", last
    return [sys.executable, *words[1:-1]]


def in_terminal(line: str, folder: Path) -> list[str]:
    """A line of a block of terminals, with its own folder and free ports."""
    typed, *words = shlex.split(line.replace(".cache/nodes", str(folder)))
    if typed == ".venv/bin/payd":
        return [str(BIN / "payd"), *words]
    if typed == "scripts/nodes":
        words += ["--folder", str(folder), "--port", "0", "--solana-port", "0", "--listen", "127.0.0.1:0"]
    return [*command_of(typed), *words]


@contextmanager
def terminal(command: list[str], env: dict[str, str], ready: str) -> Iterator[None]:
    """A program that runs for as long as the block, from when it says that it is ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            said = ""
            while ready not in said:
                line = process.stdout.readline()
                assert line, f"{command} ended: {said}"
                said += line
            yield
        finally:
            process.terminate()


def environment() -> dict[str, str]:
    """The machine's variables, without those that configure payd."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PAYD_")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(server: subprocess.Popen[bytes], log: Path) -> None:
    """Until it has printed all that a reader waits for."""
    give_up_at_s = time.monotonic() + START_S_MAX
    while LAST_PRINTED not in log.read_text():
        assert server.poll() is None, "the server ended before it was ready"
        assert time.monotonic() < give_up_at_s, "the server does not become ready"
        time.sleep(0.05)


def test_every_block_of_the_page_has_a_tag_that_says_how_it_is_checked() -> None:
    page = README.read_text()
    blocks = blocks_of(page)

    assert page.count("\n```") == 2 * len(blocks), "a fence that is not closed, or is indented"
    assert [block for block in blocks if block.tag not in TAGS] == []
    assert {block.mark for block in blocks} <= MARKS
    for block in blocks:
        if block.tag == "json":
            assert json.loads(block.text) is not None


def test_every_link_inside_the_page_leads_to_a_heading() -> None:
    page = README.read_text()
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.M)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(#([^)]*)\)", page)

    assert links
    assert [link for link in links if link not in anchors] == []


def test_the_commands_that_set_up_the_machine_are_there() -> None:
    lines = [
        line
        for block in blocks_of(README.read_text())
        if block.mark == "install"
        for line in block.text.splitlines()
        if line.strip() and not line.startswith(("#", "git clone ", "cd "))
    ]
    commands = {shlex.split(line, comments=True)[0] for line in lines}

    assert {"scripts/run", "scripts/test"} <= commands
    assert [command for command in commands if not re.fullmatch(r"scripts/\w+", command)] == []
    for command in commands:
        assert os.access(ROOT / command, os.X_OK), command
        assert subprocess.run(["bash", "-n", ROOT / command], check=False).returncode == 0
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text()


def test_the_lines_for_terminals_of_their_own_pay_on_local_chains(tmp_path: Path) -> None:
    [block] = [one for one in blocks_of(README.read_text()) if one.mark == "terminals"]
    assert os.access(ROOT / "scripts" / "nodes", os.X_OK)
    nodes, run, *pay = (in_terminal(line, tmp_path / "nodes") for line in block.text.splitlines())
    env = environment()

    with terminal(nodes, env, "Next, in two more terminals"), terminal(run, env, "Your API key"):
        paid = [
            subprocess.run(each, env=env, capture_output=True, text=True, timeout=PAGE_S_MAX, check=False)
            for each in pay
        ]

    for each, payer in zip(
        paid, ("the relayer paid the gas", "the server paid the network's fee"), strict=True
    ):
        assert each.returncode == 0, each.stdout + each.stderr
        assert payer in each.stdout
        assert each.stdout.endswith("Done: paid on the chain, succeeded, settled.\n")


def test_every_block_works_in_the_order_of_the_page(tmp_path: Path) -> None:
    script = script_of([block for block in blocks_of(README.read_text()) if not block.mark])
    base_url, server_command = f"http://127.0.0.1:{free_port()}", command_of("scripts/run")
    env = environment() | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PAYD_DATA_DIR": str(tmp_path / "data"),
        "PAYD_LISTEN": base_url.removeprefix("http://"),
        "PAYD_BASE_URL": base_url,
    }
    log = tmp_path / "server.log"
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    with (
        log.open("wb") as output,
        subprocess.Popen(server_command, stdout=output, stderr=output, env=env, cwd=ROOT) as server,
    ):
        try:
            wait_until_ready(server, log)
            page = subprocess.run(
                ["bash", "-c", for_this_server(script, base_url, log.read_text())],
                cwd=scratch,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PAGE_S_MAX,
                check=False,
            )
        finally:
            server.terminate()

    assert page.returncode == 0, f"{page.stdout}\n\nthe server said:\n{log.read_text()}"
    assert page.stdout.endswith(f"{END}\n"), page.stdout
    assert server.returncode == 0, log.read_text()
