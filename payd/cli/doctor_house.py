"""What `payd doctor` finds of the house itself: configuration, data directory, server, ways out for webhooks.

Nothing is opened that a running server holds.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import shutil
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import trio

import payd
from payd.actors.relay_alarms import WORDS
from payd.chains.defaults import SOLANA
from payd.cli.finding import Finding
from payd.cli.pasted import Paste, pasted
from payd.config import Config, ConfigError, unknown_variables
from payd.core.attention import BEHIND_MAX, GIB, SPACE_LOW, SPACE_NONE
from payd.core.skew import side
from payd.store.unwritable import Unwritable, why_unwritable
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin
from payd.web.health import SKEW_MAX_S

_UNWRITABLE: Final = {
    Unwritable.FORBIDDEN: ("this user may not write to it", "Give this user the directory."),
    Unwritable.FULL: ("there is no space left", "Make room."),
    Unwritable.READ_ONLY: (
        "its disk is mounted read-only, as the system does where a disk fails",
        "Look at the disk, and mount it for writing.",
    ),
    Unwritable.NO_DIRECTORY: ("it is no directory", "Move that away, or choose another with --data-dir."),
}


def config_problems(error: ConfigError, paste: Paste = pasted) -> list[Finding]:
    """Each mistake of a configuration that cannot be used."""
    todo = f"Correct it; this says more: {paste('check-config')}"
    return [Finding("error", "configuration", problem, todo) for problem in error.problems]


def examine_config(config: Config, env: Mapping[str, str]) -> Iterator[Finding]:
    """Where it came from, and variables that set nothing."""
    words = "there is no payd.toml; the defaults hold" if config.file is None else f"{config.file} is valid"
    yield Finding("ok", "configuration", words)
    for variable, meant in unknown_variables(env).items():
        todo = f"Did you mean {meant}?" if meant else "Remove it, or correct its name."
        yield Finding("warning", "configuration", f"the variable {variable} sets nothing", todo)


def examine_data(directory: Path, paste: Paste = pasted) -> Iterator[Finding]:
    """Whether the data directory is there, can be written, and has room."""
    subject, directory = "data directory", directory.absolute()
    if not directory.exists():
        todo = f"Begin with: {paste('init')}"
        yield Finding("warning", subject, f"{directory} is not there yet", todo)
        return
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"payd")
            probe.flush()
        free = shutil.disk_usage(directory).free
    except OSError as error:
        why = why_unwritable(error, directory)
        words, todo = (str(error), "") if why is None else _UNWRITABLE[why]
        yield Finding("error", subject, f"{directory}: {words}", todo)
        return
    shown = f"{directory} can be written; {free / GIB:.1f} GiB are free"
    if free < SPACE_LOW:
        yield Finding("error" if free < SPACE_NONE else "warning", subject, shown, "Make room.")
    else:
        yield Finding("ok", subject, shown)


def examine_server(config: Config, paste: Paste = pasted) -> Iterator[Finding]:
    """Whether a server runs here, and how it does by its own word."""
    subject = "server"
    try:
        reply = trio.run(call_admin, config.data_dir / SOCKET_NAME, "status", {})
    except NoServer:
        yield Finding("warning", subject, "none runs in this data directory", f"Start it: {paste('serve')}")
        return
    except NoAnswer as silent:
        yield Finding("error", subject, str(silent), "Look at its log; if it hangs, start it again.")
        return
    if reply.error is not None:
        yield Finding("error", subject, reply.error.message)
        return
    yield from _examine_status(config, reply.result)


def _examine_status(config: Config, status: Mapping[str, Any]) -> Iterator[Finding]:
    again = "Start it again."
    if status["version"] != payd.__version__:
        words = f"version {status['version']} runs, and this program is {payd.__version__}"
        yield Finding("warning", "server", words, again)
    else:
        yield Finding("ok", "server", f"it runs, version {status['version']}")
    # A server of an earlier version says less.
    running = {one["name"] for realm in status["realms"].values() for one in realm.get("chains", ())}
    if running != (wanted := {chain.id for chain in config.chains}):
        words = f"it runs with {_listed(running)}, and payd.toml has {_listed(wanted)}"
        yield Finding("warning", "server", words, again)
    for name, realm in status["realms"].items():
        if not realm["healthy"]:
            yield Finding("error", f"{name} mode", realm["failure"], "No payment moves until this is mended.")
        for problem in realm.get("problems", ()):
            yield Finding("error", f"{name} mode", problem)
        skew_s = realm.get("clockSkewS")
        if skew_s is not None and abs(skew_s) > SKEW_MAX_S:
            words = f"receivers of webhooks say that our clock is {abs(skew_s):.0f} s {side(skew_s)}"
            todo = "At 300 s they refuse webhooks. Run: timedatectl set-ntp true"
            yield Finding("warning", f"{name} mode", words, todo)
        for chain in realm.get("chains", ()):
            yield from _examine_chain(chain)


def _examine_chain(chain: Mapping[str, Any]) -> Iterator[Finding]:
    subject = f"server on {chain['name']}"
    unit = "slot" if chain["name"].startswith(SOLANA) else "block"
    if chain["trouble"]:
        todo = "What buyers pay is found once it can be read. See the nodes below."
        yield Finding("error", subject, f"it cannot read the chain: {chain['trouble']}", todo)
    elif chain["blocksBehind"] > BEHIND_MAX:
        words = f"it is {chain['blocksBehind']} {unit}s behind, at {chain['head']}"
        yield Finding(
            "warning", subject, words, "Wait until it has caught up; if it does not, use other nodes."
        )
    elif chain["head"] is not None:
        yield Finding("ok", subject, f"it has read the chain up to {unit} {chain['head']}")
    for alarm in chain["alarms"]:
        yield Finding("warning", subject, WORDS.get(alarm, alarm))


def examine_webhooks(config: Config) -> Iterator[Finding]:
    """Source addresses and files of authorities, where there are any."""
    for address in config.webhooks.bind:
        yield _examine_source(address)
    for mode, section in (("test", config.webhooks.test), ("live", config.webhooks.live)):
        if section.ca_file is not None:
            yield _examine_authorities(f"webhooks.{mode}", section.ca_file)


def _examine_source(address: str) -> Finding:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        words = f"{address} cannot be used: {error.strerror}"
        return Finding("error", "webhooks", words, "Correct bind in [webhooks]: an address of this machine.")
    return Finding("ok", "webhooks", f"deliveries can come from {address}")


def _examine_authorities(section: str, file: Path) -> Finding:
    try:
        ssl.create_default_context().load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        todo = f"Correct ca_file in [{section}]: a PEM file with certificates."
        return Finding("error", "webhooks", f"{file} cannot be used: {error.strerror or error}", todo)
    return Finding("ok", "webhooks", f"the authorities in {file} can be used")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "no chain"
