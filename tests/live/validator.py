"""A Solana node that others wrote: MagicBlock's validator, from npm, once for each version into the caches.

It is made of Solana's own bank, ledger and RPC (those of Agave 2.2), and runs the token programs of the real
chain. Where it is not like other nodes: it is the only one of its chain, so that a block is final at once and
nothing forks; it tells no priority fees; its genesis is another one each time it starts.
"""

from __future__ import annotations

import platform
import re
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from solders.pubkey import Pubkey

from payd.chains.solana.dialect import GENESIS_CHARS
from payd.chains.solana.keys import ASSOCIATED_TOKEN, MEMO, TOKEN, TOKEN_2022
from tests.live.node_process import START_MAX_S, NodeProcess, started
from tests.packages import CACHE, from_debian, from_npm, unpacked_from_debian

VERSION: Final = "0.1.7"
PACKAGE: Final = "@magicblock-labs/ephemeral-validator-linux-x64"
FOLDER: Final = CACHE / f"validator-{VERSION}"
# The oldest C library that it runs on, and a release of Debian that has a later one.
LIBC_MIN: Final = (2, 38)
LIBC_RELEASE: Final = "trixie"
LIBC_PACKAGES: Final = ("libc6", "libgcc-s1", "libstdc++6")

# A transaction stays fresh for 150 of them.
SLOT_MS: Final = 200
# Programs that are there from the genesis on are executed from this slot on.
FIRST_SLOT: Final = 2
SIGNATURE_LAMPORTS: Final = 5000
# A test environment for Solana has its programs as they were on the real chain when the validator was built;
# later ones use instructions that it does not know. By the SHA-256 of their code.
PROGRAMS_PACKAGE: Final = "solana-bankrun-linux-x64-gnu"
PROGRAMS_VERSION: Final = "0.4.0"
PROGRAMS: Final = {
    "18264f491c7e0ad056dd36f42f8de6d1fedf9f044d1f521e714b4dc6b61594b6": TOKEN,
    "47181a65d6ee7d7a100480db2efaa21fcfff2be1af49155c30975e9fe5c0c9d6": TOKEN_2022,
    "e5e7aed11ad3969eea2aa76c8b4d2e73ea25be7e6b5cce989b7710cf5452496e": ASSOCIATED_TOKEN,
    "f520eaf096361abbb9639ea4dc3e5388a87b9330e121f476607b87c46ef67954": MEMO,
}
_ELF: Final = b"\x7fELF\x02\x01\x01"
_FOR_SOLANA: Final = 247

CONFIGURATION: Final = """
[accounts]
lifecycle = "offline"
remote = "http://127.0.0.1:1"

[rpc]
addr = "127.0.0.1"
port = {port}

[geyser_grpc]
addr = "127.0.0.1"
port = {geyser}

[validator]
millis_per_slot = {slot_ms}
base_fees = {fee}

[ledger]
path = "{folder}/ledger"

[metrics]
enabled = false
"""

_LISTENS: Final = re.compile(
    r"RPC endpoint: +http://127\.0\.0\.1:(\d+)\s.*?WebSocket endpoint: +ws://127\.0\.0\.1:(\d+)\s.*?"
    r"Ready for connections",
    re.DOTALL,
)


class Validator(NodeProcess):
    """A node that runs.

    Attributes:
        chain: CAIP-2.
    """

    def __init__(self, port: int, ws_port: int, process: subprocess.Popen[bytes]) -> None:
        super().__init__(port, ws_port, process)
        self.chain = f"solana:{self._first_answer()[:GENESIS_CHARS]}"

    def _first_answer(self) -> str:
        """Its genesis hash, once it executes programs, which is some slots after it says that it is ready."""
        gives_up_s = time.monotonic() + START_MAX_S
        while True:
            with suppress(ConnectionRefusedError):
                if self.ask("getSlot") >= FIRST_SLOT:
                    return str(self.ask("getGenesisHash"))
            assert time.monotonic() < gives_up_s, "the validator makes no blocks"
            time.sleep(0.01)


@contextmanager
def running_validator(slot_ms: int = SLOT_MS) -> Iterator[Validator]:
    """A fresh node, ended with the block.

    Args:
        slot_ms: A block comes so often.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        configuration = folder / "validator.toml"
        configuration.write_text(_configuration(folder, slot_ms))
        with started([*command(), str(configuration)], _LISTENS) as (process, ports):
            yield Validator(ports[0], ports[1], process)


def _configuration(folder: Path, slot_ms: int) -> str:
    port, geyser = _free_ports()
    text = CONFIGURATION.format(
        port=port, geyser=geyser, slot_ms=slot_ms, fee=SIGNATURE_LAMPORTS, folder=folder
    )
    for program, code in _programs().items():
        (folder / f"{program}.so").write_bytes(code)
        text += f'\n[[program]]\nid = "{program}"\npath = "{program}.so"\n'
    return text


@cache
def _programs() -> dict[Pubkey, bytes]:
    """The code of each of `PROGRAMS`, found in the library that it is linked into."""
    folder = from_npm(CACHE / f"programs-{PROGRAMS_VERSION}", {PROGRAMS_PACKAGE: PROGRAMS_VERSION})
    [library] = (folder / "node_modules" / PROGRAMS_PACKAGE).glob("*.node")
    linked = library.read_bytes()
    found: dict[Pubkey, bytes] = {}
    for begins in re.finditer(re.escape(_ELF), linked):
        elf = linked[begins.start() :]
        [machine], [sections] = struct.unpack_from("<H", elf, 18), struct.unpack_from("<Q", elf, 40)
        if machine == _FOR_SOLANA:
            size, count = struct.unpack_from("<HH", elf, 58)
            code = elf[: sections + size * count]
            program = PROGRAMS.get(sha256(code).hexdigest())
            found |= {} if program is None else {program: code}
    assert found.keys() == set(PROGRAMS.values())
    return found


def _free_ports() -> tuple[int, int]:
    """One that has a free one after it, for the websocket, and another."""
    while True:
        with socket.socket() as first, socket.socket() as second, socket.socket() as other:
            first.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port, other.getsockname()[1]


@cache
def command() -> tuple[str, ...]:
    """What starts it, installed if it is not there; its configuration comes after."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise RuntimeError("these tests need Linux on x86-64: so the validator is built")
    from_npm(FOLDER, {PACKAGE: VERSION})
    binary = str(FOLDER / "node_modules" / PACKAGE / "bin" / "ephemeral-validator")
    # The dynamic loader is called by name, so that it need not be the machine's own.
    loader: tuple[str, ...] = ("/lib64/ld-linux-x86-64.so.2",)
    if tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2]) < LIBC_MIN:
        root = unpacked_from_debian(CACHE / f"libc-{LIBC_RELEASE}", LIBC_RELEASE, *LIBC_PACKAGES)
        folder = root / "usr" / "lib" / "x86_64-linux-gnu"
        loader = (str(folder / "ld-linux-x86-64.so.2"), "--library-path", str(folder))
    return (*loader, "--preload", str(_preloaded()), binary)


def _preloaded() -> Path:
    """`nofile.c`, compiled."""
    made = FOLDER / "nofile.so"
    if not made.exists():
        source = Path(__file__).with_name("nofile.c")
        compiler = from_debian("gcc", "gcc", "libc6-dev")
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            built = Path(folder) / made.name
            subprocess.run([compiler, "-shared", "-fPIC", "-o", str(built), str(source)], check=True)
            built.rename(made)
    return made
