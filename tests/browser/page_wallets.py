"""Wallets that others wrote, for a page in a real browser: from npm into the folder of caches.

Some run in the page as they do in the world (MetaMask's own provider, a Wallet Standard wallet), some beside
the browser, from where a few lines in the page announce them by EIP-6963. Nothing of the page's policy is
turned off.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, expect

from tests.live.node_process import started
from tests.live.solana import BUYER as SOLANA_BUYER
from tests.live.solana import keypair
from tests.packages import CACHE, from_npm

PACKAGES: Final = {
    "@ensdomains/headless-web3-provider": "1.0.8",
    "@johanneskares/wallet-mock": "1.4.1",
    "@metamask/providers": "22.1.1",
    "@solana/wallet-adapter-base": "0.9.28",
    "@solana/wallet-adapter-unsafe-burner": "0.1.12",
    "@solana/wallet-standard-wallet-adapter-base": "1.1.6",
    "@solana/web3.js": "1.99.0",
    "@wallet-standard/wallet": "1.1.0",
    "bs58": "6.0.0",
    "buffer": "6.0.3",
    "esbuild": "0.28.2",
    "process": "0.11.10",
    "readable-stream": "4.8.0",
    "viem": "2.57.1",
}
FOLDER: Final = Path(__file__).parent / "wallets"
IN_PAGE: Final = ("announced", "metamask", "burner")
# What is announced for the wallets beside the browser.
NAMES: Final = {
    "headless": "Headless Wallet",
    "mock": "Mock Wallet",
    "viem": "Client Wallet",
    "slow": "Slow Wallet",
}
SEND: Final = "eth_sendTransaction"
SOLANA_SIGN: Final = "solana:signTransaction"
PAID_MS: Final = 30_000
# What wallets themselves write to the console.
THEY_SAY: Final = ("MetaMask - RPC Error", "UnsafeBurnerWalletAdapter")
ANSWER_MAX_S: Final = 30
_LISTENS: Final = re.compile(r"^Listening on (\d+)$", re.MULTILINE)


def installed() -> Path:
    """The folder that holds node_modules."""
    return from_npm(CACHE / "page-wallets", PACKAGES, "--legacy-peer-deps")


@cache
def bundles() -> Mapping[str, str]:
    """The scripts of the wallets in the page, by name; made once, which takes a second of a core."""
    folder = installed()
    made = {}
    with tempfile.TemporaryDirectory() as out:
        command = [str(folder / "node_modules" / ".bin" / "esbuild"), "--bundle", "--minify", "--format=iife"]
        command += ["--platform=browser", "--define:global=globalThis", f"--outdir={out}"]
        env = os.environ | {"NODE_PATH": str(folder / "node_modules")}
        sources = [f"--inject:{FOLDER / 'shim.js'}", *(str(FOLDER / f"{name}.js") for name in IN_PAGE)]
        done = subprocess.run([*command, *sources], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        for name in IN_PAGE:
            made[name] = (Path(out) / f"{name}.js").read_text()
    return made


@dataclass
class Wallets:
    """The wallets of one machine.

    Attributes:
        port: Where those beside the browser listen.
        scripts: Those in the page, by name.
        asked: What pages asked for: wallet, method, parameters.
        answering: Called with the method before a result goes back to the page, for tests that act then.
        held: Methods whose results do not reach a page yet.
        cluster: What the burner wallet says its Solana is, in the words of the Wallet Standard.
    """

    port: int
    scripts: Mapping[str, str]
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    answering: Callable[[str], None] = lambda method: None
    held: set[str] = field(default_factory=set)
    cluster: str = "mainnet"
    _methods: dict[int, str] = field(default_factory=dict)

    def install(self, page: Page, *names: str, solana: int = SOLANA_BUYER) -> None:
        """Have them in a page that is opened after this: `metamask`, `burner`, or names of `NAMES`.

        `solana` says whose key the burner wallet has.
        """
        page.expose_function("walletStart", self._start)
        page.expose_function("walletPoll", self._poll)
        page.expose_function("walletSigns", self._signs)
        beside = {name: NAMES[name] for name in names if name in NAMES}
        key = list(bytes(keypair(solana)))
        page.add_init_script(f"window.walletNames = {json.dumps(beside)}; window.solanaKey = {key};")
        page.add_init_script(f"window.solanaCluster = 'solana:{self.cluster}';")
        for name in [*(["announced"] if beside else []), *(one for one in names if one not in NAMES)]:
            page.add_init_script(self.scripts[name])

    def methods(self) -> list[str]:
        """What pages asked for, but for what changes nothing."""
        quiet = ("eth_chainId", "eth_requestAccounts", "eth_accounts")
        return [method for _, method, _ in self.asked if method not in quiet]

    def wait_for(self, page: Page, method: str) -> None:
        """Until a page has asked for this, and the wallet waits for its user."""
        while not any(method == asked for _, asked, _ in self.asked):
            page.wait_for_timeout(20)
        page.wait_for_timeout(200)

    def wait_until_done(self, method: str) -> None:
        """Until the wallet has done what it was last asked for, whether the page was told or not."""
        job = max(job for job, asked in self._methods.items() if asked == method)
        deadline = time.monotonic() + ANSWER_MAX_S
        while (state := self._request("GET", f"/job/{job}")["state"]) == "pending":
            assert time.monotonic() < deadline, f"the wallet still waits for its user: {method}"
            time.sleep(0.02)
        assert state == "done", f"the wallet refused: {method}"

    def forget(self) -> None:
        """As if no page had ever asked: the networks that were added are gone, too."""
        self.asked.clear()
        self.held.clear()
        self.answering = lambda method: None
        self._request("POST", "/fresh")

    def do(self, name: str, kind: str) -> None:
        """`authorize` or `reject` what the headless wallet waits for."""
        self._request("POST", "/do", {"name": name, "kind": kind})

    def broadcast(self) -> None:
        """Have the slow wallet give the node what it signed."""
        self._request("POST", "/broadcast")

    def _start(self, wallet: str, method: str, params: Any) -> Any:
        self.asked.append((wallet, method, params))
        job = self._request("POST", "/start", {"wallet": wallet, "method": method, "params": params})
        self._methods[job["job"]] = method
        return job

    def _poll(self, job: int) -> Any:
        told = self._request("GET", f"/job/{job}")
        if self._methods[job] in self.held:
            return {"state": "pending"}
        if told["state"] != "pending":
            self.answering(self._methods[job])
        return told

    def _signs(self, is_first: bool) -> bool:
        """Whether the burner wallet, which lives in the page, may sign by now."""
        if is_first:
            self.asked.append(("burner", SOLANA_SIGN, None))
        if SOLANA_SIGN in self.held:
            return False
        self.answering(SOLANA_SIGN)
        return True

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_MAX_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def running_wallets(rpc: str, chain_id: int, key: str) -> Iterator[Wallets]:
    """Wallets with this key on a node's chain, until the block ends."""
    folder = installed()
    command = ["node", str(FOLDER / "beside.mjs"), str(folder), rpc, str(chain_id), key]
    with started(command, _LISTENS) as (_, ports):
        yield Wallets(ports[0], bundles())


def paying(page: Page) -> Any:
    """The heading of what the page does with a wallet."""
    return page.locator("#paying")


def pay_button(page: Page) -> Any:
    return page.locator("#pay-now")


def connect(page: Page, name: str, asset: str = "") -> None:
    """Choose a wallet, and what to pay with."""
    page.get_by_role("button", name=name, exact=True).click()
    expect(paying(page)).to_have_text("Check and pay")
    expect(paying(page)).to_be_focused()
    if asset:
        choose(page, asset)


def choose(page: Page, asset: str) -> None:
    """Choose what to pay with."""
    if f" {asset} " not in pay_button(page).inner_text():
        page.get_by_role("button", name="Change").click()
        choice(page, asset).click()
    expect(pay_button(page)).to_contain_text(asset)


def choice(page: Page, asset: str) -> Any:
    """The place in the list of what is paid in this asset."""
    return choices(page).filter(has=page.locator("span > bdi", has_text=re.compile(f" {asset}$")))


def choices(page: Page) -> Any:
    """The list of what can be paid with, and of what cannot."""
    return page.locator("#pay .options label")


def sends(wallets: Wallets) -> int:
    """How often a wallet was asked to send."""
    return wallets.methods().count(SEND)


def nothing_to_pay_with(page: Page) -> None:
    """The page offers no way to pay: no button, no code, no wallet."""
    expect(pay_button(page)).to_have_count(0)
    expect(page.locator(".qr")).to_be_hidden()
    expect(page.locator("#pay .wallet")).to_have_count(0)
