"""What `payd doctor` finds of the machine and of the way to it: open files, the clock, the public address.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import ctypes
import ipaddress
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from payd.cli.finding import Finding
from payd.config import Config
from payd.store.lock import LOCK_NAME
from payd.web.limits import FILES_BESIDES

# More clients at once than a small merchant ever has; connections_max is a bound against strangers.
CONNECTIONS_ENOUGH: Final = 4096
# What adjtimex(2) answers while nothing keeps the clock right, and room for the struct that it fills.
UNSYNCHRONISED: Final = 5
TIMEX_BYTES: Final = 512


def examine_machine(config: Config) -> Iterator[Finding]:
    """All of it."""
    yield examine_files_limit(config.http.connections_max, open_files_max(config.data_dir))
    yield from examine_clock(clock_state(), live=bool(config.chains))
    yield from examine_address(config)


def examine_files_limit(connections_max: int, files_max: int) -> Finding:
    """Whether there is room for the connections that payd.toml allows, or for as many as a shop has."""
    subject = "open files"
    if files_max < min(connections_max, CONNECTIONS_ENOUGH) + FILES_BESIDES:
        words = f"{files_max} are allowed, and connections_max in [http] is {connections_max}"
        todo = (
            f"Set LimitNOFILE={connections_max + FILES_BESIDES} in the systemd unit, or allow fewer of them."
        )
        return Finding("warning", subject, words, todo)
    return Finding("ok", subject, f"{files_max} are allowed")


def open_files_max(data_dir: Path) -> int:
    """How many the running server may have; without one, how many one started here may have."""
    try:
        pid = int((data_dir / LOCK_NAME).read_text())
        limits = Path(f"/proc/{pid}/limits").read_text()
    except (OSError, ValueError):
        return _known(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    [words] = [line.split() for line in limits.splitlines() if line.startswith("Max open files")]
    # payd itself raises what is allowed now to the most that it may have.
    return _known(-1 if words[4] == "unlimited" else int(words[4]))


def _known(limit: int) -> int:
    return 1 << 30 if limit in (-1, resource.RLIM_INFINITY) else limit


def examine_clock(state: int | None, *, live: bool) -> Iterator[Finding]:
    """Whether something keeps the machine's clock right; of a test on a laptop nothing depends on it."""
    subject = "clock"
    if state is None:
        return  # the system does not say
    if state != UNSYNCHRONISED:
        yield Finding("ok", subject, "it is kept in step with others")
        return
    words = "the system says that nothing keeps it in step with others"
    todo = "Run: timedatectl set-ntp true. Receivers refuse webhooks from a clock that is 5 minutes off."
    yield Finding("warning" if live else "ok", subject, words, todo if live else "")


def clock_state() -> int | None:
    """What adjtimex(2) answers; None where there is no such thing."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    state = int(adjtimex(ctypes.create_string_buffer(TIMEX_BYTES)))  # all zeros: only asks
    return state if state >= 0 else None


def examine_address(config: Config) -> Iterator[Finding]:
    """Whether buyers reach payd by TLS, each by an address of its own, and nobody without it."""
    subject, url = "public address", config.public_url()
    if url.startswith("https://"):
        yield Finding("ok", subject, f"links begin with {url}")
        if not config.http.trusted_proxies:
            words = "no proxy's word is believed, so all who come count as one address, that of the proxy"
            todo = 'Name the one that speaks TLS in [http], such as trusted_proxies = ["127.0.0.1"].'
            yield Finding("warning", subject, words, todo)
    elif config.chains:
        words = f"links begin with {url}, which buyers cannot reach safely"
        yield Finding("warning", subject, words, "Set base_url to the https address that your proxy serves.")
    if not _is_near(config.listen.host):
        words = f"payd listens on {config.listen}, where anybody may reach it without TLS"
        todo = "Listen on 127.0.0.1 or a private address, behind a proxy that speaks TLS."
        yield Finding("warning", subject, words, todo)


def _is_near(host: str) -> bool:
    """Whether only this machine or a private network gets there; a name is left to its owner."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return True
    return address.is_private and not address.is_unspecified
