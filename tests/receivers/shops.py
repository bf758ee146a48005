"""The shops of README.md as readers run them: the page's text, started by its own first lines."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from tests.contract.outside import until
from tests.packages import CACHE, from_debian, from_npm
from tests.test_readme import README, Block, blocks_of

FOLDER: Final = Path(__file__).parent
NODE: Final = CACHE / "node-shop"
PATIENCE_S: Final = 30.0


@dataclass(frozen=True)
class Page:
    """One shop in README.md: its text, and the two lines at its top that install what it needs and run it."""

    text: str
    install: str
    run: str

    @property
    def file(self) -> str:
        """The name under which a reader saves it."""
        [name] = re.findall(r"\bshop\w*(?:\.\w+)?", self.run)
        return str(name) if "." in name else f"{name}.py"

    @property
    def needs(self) -> list[str]:
        """The packages that are installed for it."""
        return self.install.split(" install ")[1].split()


def shop_blocks() -> list[Block]:
    """What README.md has of shops, in its order."""
    return [block for block in blocks_of(README.read_text()) if block.mark == "shop"]


def pages() -> dict[str, Page]:
    """The shops of README.md by the word that runs them: flask, uvicorn, node, php."""
    found = {}
    for block in shop_blocks():
        if block.tag != "sh":
            lines = [line.removeprefix("//").strip() for line in block.text.splitlines()]
            first = next(n for n, line in enumerate(lines) if " install " in line)
            page = Page(block.text, *lines[first : first + 2])
            found[page.run.split()[0]] = page
    return found


class RunningShop:
    """One shop that serves, in a folder with the page's text and nothing else."""

    def __init__(self, page: Page, folder: Path, port: int, env: Mapping[str, str]) -> None:
        self.page, self.folder, self.port = page, folder, port
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PAYD_")}
        # PHP without a php.ini, as containers have it: it shows errors, and answers them with 200.
        self._env = {**kept, "PATH": path, "PORT": str(self.port), "PHPRC": str(folder), **env}
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        (folder / page.file).write_text(page.text)
        (folder / "php.ini").touch()
        if page.run.startswith("node ") and not (folder / "node_modules").exists():
            (folder / "node_modules").symlink_to(NODE / "node_modules")

    def start(self) -> None:
        """Run the line of the page; `wait` says when it serves."""
        words = shlex.split(self.page.run.replace("5000", str(self.port)))
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, cwd=self.folder, env=self._env, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        """Until it serves."""
        process = self._process
        assert process is not None
        until(lambda: process.poll() is not None or self._answers(), timeout_s=PATIENCE_S)
        assert process.poll() is None, self.log()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Its database takes nothing, as on a disk that is full."""
        with closing(sqlite3.connect(self.folder / "shop.db")) as db:
            db.execute(
                "CREATE TRIGGER full BEFORE INSERT ON webhooks BEGIN SELECT RAISE(ABORT, 'no room'); END"
            )
            yield
            db.execute("DROP TRIGGER full")

    def log(self) -> str:
        """What it said."""
        return (self.folder / "log").read_text()

    def buy(self) -> str:
        """Press the button; gives the link to the payment's page."""
        answer = self.http.post("/buy")
        assert answer.status_code == 303, f"{answer.text}\n{self.log()}"
        return answer.headers["location"]

    def is_paid(self, reference: str) -> bool:
        """Whether its own page says that an order is paid; it must know the order."""
        [word] = re.findall(rf"<p>{reference}: (paid|open)", self.http.get("/").text)
        return bool(word == "paid")

    def _answers(self) -> bool:
        try:
            return self.http.get("/").status_code == 200
        except httpx.TransportError:
            return False


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, each another."""
    with ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in taken]


@contextmanager
def running(shops: list[RunningShop]) -> Iterator[None]:
    """Several at once, killed at the end."""
    try:
        for shop in shops:
            shop.start()
        for shop in shops:
            shop.wait()
        yield
    finally:
        for shop in shops:
            shop.kill()
            shop.http.close()


def install(page: Page) -> None:
    """Have what a page asks for; Python's packages are in the tests' own lock."""
    if page.install.startswith("npm "):
        from_npm(NODE, dict(need.split("@") for need in page.needs))
    if page.install.startswith("apt-get "):
        php = from_debian("php", *page.needs)
        modules = subprocess.run([php, "-m"], capture_output=True, text=True, check=True).stdout
        assert "pdo_sqlite" in modules, f"This PHP has no SQLite; on Debian and Ubuntu: {page.install}"
