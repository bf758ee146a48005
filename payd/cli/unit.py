"""The text of a systemd unit that runs this installation, shut in as far as systemd can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from payd.web.front import GRACE_S

MARK: Final = "# Written by `payd service install`, which writes it anew."
"""The first line, by which a unit is known to be ours."""

STOP_S: Final = int(2 * GRACE_S)
"""The server's own grace, and as long again to close databases on a slow disk."""

STATE: Final = Path("/var/lib")
BACKUPS: Final = Path("/var/backups/payd")
"""Where a server may write backups whose data have an owner; it is there if the owner made it."""

PRIVILEGED_PORT: Final = 1024

# What systemd takes in no spelling: in a word of any kind, in the path of a program, in the name of a state
# directory. A variable is replaced in what a program is told of its own name, and nothing keeps it from that.
ANYWHERE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
IN_PROGRAM: Final = re.compile(r"""[\\"']|\$[${]""")
IN_STATE: Final = re.compile('[":]')

OF_USERS_TOO: Final = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
"""

OF_THE_SYSTEM: Final = """\
ProtectSystem=strict
{data_dir}ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
CapabilityBoundingSet={capabilities}
AmbientCapabilities={capabilities}
"""

ORDER: Final = """\
Wants=network-online.target
# By a clock that is ahead until it is set, payments that are open would be over.
After=network-online.target time-sync.target
"""

TEXT: Final = """\
{mark}
[Unit]
Description=payd, payments in and signed webhooks out
{order}# What keeps it from starting may last, as a full disk does: it is tried until it works.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
# There is no ExecReload: payd.toml is read at the start, and `systemctl{user} restart payd` loses nothing.
# Secrets such as PAYD_RELAYER_PASSWORD=… go into this file, for its owner only.
EnvironmentFile=-{secrets}
{place}
# SIGTERM finishes what is under way, for up to {grace} s.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec={stop}
# Also after a SIGHUP, which others take for an order to read their configuration.
Restart=always
RestartSec=1
# A mistake in payd.toml stays one.
RestartPreventExitStatus=2

# Each page that follows a payment is a file.
LimitNOFILE=65536
# A start takes 70 MiB, 105 with chains, and opening a relayer's key 128 more for a moment. To cap it:
#MemoryHigh=768M
#MemoryMax=1G
OOMPolicy=continue

{hardening}
[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit is made of.

    Attributes:
        program: The command without arguments, by absolute paths.
        data_dir: Where the data is.
        config_file: A payd.toml that is not in the data directory.
        user: Who the server runs as; None: whoever the manager runs for, or somebody made up for it.
        of_user: Whether it is for the manager of a user, not that of the system.
        in_home: Whether program or data are in somebody's home.
        port: Where it listens.
        unpacks: Whether the program is the one file, which unpacks itself into a cache.
    """

    program: Sequence[str]
    data_dir: Path
    config_file: Path | None
    user: str | None
    of_user: bool
    in_home: bool
    port: int
    unpacks: bool

    @property
    def is_kept_by_systemd(self) -> bool:
        """Whether systemd makes the data directory, and a user of its own for it."""
        return not self.of_user and self.user is None

    def unsayable(self) -> Iterator[tuple[str, str]]:
        """Each path that no unit can name, and what it has in it that systemd does not take there."""
        program, *arguments = self._command()
        kept = [str(self.data_dir)] if self.is_kept_by_systemd else []
        for rule, words in ((ANYWHERE, [program, *arguments]), (IN_PROGRAM, [program]), (IN_STATE, kept)):
            yield from ((word, found[0]) for word in words if (found := rule.search(word)))

    def text(self) -> str:
        """The unit file; of what is `unsayable` there is none."""
        program, *arguments = self._command()
        return TEXT.format(
            mark=MARK,
            command=" ".join([quoted(program, "%"), *(quoted(word, "%$") for word in arguments)]),
            user=" --user" if self.of_user else "",
            order="" if self.of_user else ORDER,
            secrets="%h/.config/payd/environment" if self.of_user else "/etc/payd/environment",
            place="\n".join(self._place()),
            grace=round(GRACE_S),
            stop=STOP_S,
            hardening=self._hardening(),
            target="default.target" if self.of_user else "multi-user.target",
        )

    def _command(self) -> list[str]:
        config = [] if self.config_file is None else ["--config", str(self.config_file)]
        return [*self.program, "serve", "--data-dir", str(self.data_dir), *config]

    def _place(self) -> list[str]:
        lines: list[str] = []
        if self.is_kept_by_systemd:
            # The server makes backups itself, so that the place for them is its own as well.
            places = " ".join(quoted(f"{self.data_dir.name}{each}", "%") for each in ("", "-backups"))
            lines += ["DynamicUser=yes", f"StateDirectory={places}", "StateDirectoryMode=0700"]
        elif self.user is not None:
            lines.append(f"User={self.user}")
        if self.unpacks and not self.of_user:
            lines += ["CacheDirectory=payd", "Environment=PEX_ROOT=/var/cache/payd"]
        return lines or ["# It runs as whoever installed it."]

    def _hardening(self) -> str:
        if self.of_user:
            return OF_USERS_TOO
        # A state directory is a link where the user is made up, and may be written anyway.
        writes = (
            ""
            if self.is_kept_by_systemd
            else f"ReadWritePaths={quoted(str(self.data_dir), '%')} -{BACKUPS}\n"
        )
        return OF_USERS_TOO + OF_THE_SYSTEM.format(
            data_dir=writes,
            home="read-only" if self.in_home else "yes",
            capabilities="CAP_NET_BIND_SERVICE" if 0 < self.port < PRIVILEGED_PORT else "",
        )


def quoted(word: str, replaced: str) -> str:
    """A word as systemd reads it back: quotes where there are blanks, and nothing that it would replace.

    Args:
        word: Without what is `unsayable`.
        replaced: What is to be written twice there: `%` in all, `$` in the arguments of a command alone.

    Source: https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html#Quoting
    """
    plain = word.replace("\\", "\\\\").replace('"', '\\"')
    for each in replaced:
        plain = plain.replace(each, each * 2)
    return f'"{plain}"' if any(each.isspace() or each in "\"';" for each in word) else plain
