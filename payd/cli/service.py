"""`payd service`: payd as a service of systemd.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from payd.cli.failure import Refused
from payd.cli.options import config_options, load_config
from payd.cli.pasted import Paste, pasted
from payd.cli.sections import Sections
from payd.cli.show import json_option, show_fields, show_json
from payd.cli.teaching import teach
from payd.cli.unit import MARK, STATE, Unit
from payd.config import FILE_NAME, Config

NAME: Final = "payd.service"
SYSTEM_UNITS: Final = Path("/etc/systemd/system")
BOOTED: Final = Path("/run/systemd/system")
"""There where systemd runs the machine, as sd_booted(3) has it."""

HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))

user_option = click.option("--user", "of_user", is_flag=True, help="Your own service; needs no root.")


@click.group(
    cls=Sections,
    epilog=teach(
        """
payd service install --print
sudo payd service install
"""
    ),
)
def service() -> None:
    """Run payd as a service of systemd, which starts it with the machine and again when it ends."""


@service.command(
    "install",
    epilog=teach(
        """
payd service install --print   look first
sudo payd service install      its data in /var/lib/payd, a user of its own
sudo payd service install --data-dir /srv/payd
payd service install --user    yours, without root
""",
        then="systemctl status payd, and journalctl -u payd -f",
    ),
)
@user_option
@click.option("--print", "only_print", is_flag=True, help="Print the unit; write and start nothing.")
@json_option
@config_options
def install(
    of_user: bool, only_print: bool, as_json: bool, config_file: str | None, data_dir: str | None
) -> None:
    """Write a unit for this installation, and start it, now and with the machine.

    The server is shut in: it may write its data directory and nothing else. A unit that is there is written
    anew. Data in /var/lib are given to a user that systemd makes up; data elsewhere keep their owner, as
    whom the server then runs.
    """
    config = load_config(config_file, data_dir)
    named = bool(config.file or data_dir or os.environ.get("PAYD_DATA_DIR"))
    unit = _unit(config, of_user=of_user, named=named)
    file = _file(of_user)
    if only_print:
        text = unit.text()
        show_json({"file": str(file), "unit": text}) if as_json else click.echo(text, nl=False)
        return
    systemctl = _systemctl(of_user, partial(pasted, config_file=config_file, data_dir=data_dir))
    _check_ours(file)
    _write(file, unit)
    for words in (["daemon-reload"], ["enable", NAME], ["restart", NAME]):
        systemctl(*words)
    if as_json:
        show_json({"file": str(file), "unit": unit.text()})
        return
    show_fields({"Unit": file, "Data": unit.data_dir, "Runs as": _runs_as(unit)})
    user = " --user" if of_user else ""
    click.echo(f"It is started. Look: systemctl{user} status payd; its log: journalctl{user} -u payd -f")
    if of_user:
        click.echo("It ends when you log out, unless you say once: loginctl enable-linger")
    else:
        file_of_it = None if unit.config_file is None else str(unit.config_file)
        link = pasted("user setup-link", config_file=file_of_it, data_dir=str(unit.data_dir))
        click.echo(f"Commands talk to it as root: sudo {link}")


@service.command(
    "uninstall",
    epilog=teach(
        """
sudo payd service uninstall
payd service uninstall --user
"""
    ),
)
@user_option
@json_option
def uninstall(of_user: bool, as_json: bool) -> None:
    """Stop the service and remove its unit; the data stays."""
    file = _file(of_user)
    if not file.exists():
        raise Refused(f"There is no {file}, so there is nothing to remove.")
    systemctl = _systemctl(of_user)
    _check_ours(file)
    systemctl("disable", "--now", NAME)
    file.unlink()
    systemctl("daemon-reload")
    if as_json:
        show_json({"file": str(file), "removed": True})
        return
    click.echo(f"Stopped and removed: {file}. The data is where it was.")


def _unit(config: Config, *, of_user: bool, named: bool) -> Unit:
    """The unit for what is installed and configured here."""
    if named:
        data_dir = config.data_dir.absolute()
    else:
        data_dir = (Path.home() / ".local" / "share" if of_user else STATE) / "payd"
    archive = os.environ.get("PEX")
    program = _program(archive)
    file = None if config.file is None else config.file.absolute()
    paths = (Path(program[0]), data_dir, file or data_dir)
    in_home = [path for path in paths if any(map(path.is_relative_to, HOMES))]
    user = None if of_user else _owner(data_dir)
    if user is None and not of_user and in_home:
        raise Refused(
            f"{in_home[0]} is in a home, where a service of the system sees nothing. Install payd for all"
            " (pipx install --global payd, or copy the one file to /usr/local/bin), or take --user."
        )
    unit = Unit(
        program=program,
        data_dir=data_dir,
        config_file=None if file is None or file == data_dir / FILE_NAME else file,
        user=user,
        of_user=of_user,
        in_home=bool(in_home),
        port=config.listen.port,
        unpacks=archive is not None,
    )
    for path, what in unit.unsayable():
        raise Refused(
            f"{path!r} has {what!r} in it, and systemd takes that in no spelling there. Give it another name,"
            " or a link with one."
        )
    return unit


def _program(archive: str | None) -> tuple[str, ...]:
    """What starts this payd from anywhere."""
    if archive is not None:
        return (os.path.abspath(archive),)
    beside = Path(sys.executable).with_name("payd")
    return (str(beside),) if beside.is_file() else (sys.executable, "-m", "payd")


def _owner(data_dir: Path) -> str | None:
    """Whose the data are; None where systemd makes a user up.

    Raises:
        Refused: They are root's, or are to be made where systemd makes nothing.
    """
    if data_dir.parent == STATE:
        return None
    if not data_dir.exists():
        raise Refused(
            f"There is no {data_dir}. Make it and give it to whoever the server is to run as, or take a"
            f" folder in {STATE}, which systemd makes."
        )
    uid = uid_of(data_dir)
    if uid == 0:
        raise Refused(
            f"{data_dir} belongs to root, and a server that strangers talk to should not run as root. Give it"
            f" to a user (chown -R payd: {data_dir}), or move it into {STATE}, where systemd makes one up."
        )
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def uid_of(path: Path) -> int:
    """Whose something is."""
    return path.stat().st_uid


def _file(of_user: bool) -> Path:
    if not of_user:
        return SYSTEM_UNITS / NAME
    config_home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config_home) / "systemd" / "user" / NAME


def _check_ours(file: Path) -> None:
    if file.exists() and not file.read_text("utf-8", "replace").startswith(MARK):
        raise Refused(f"{file} is not payd's own. Move it away, or take the text of --print.")


def _write(file: Path, unit: Unit) -> None:
    """The unit, whole at any moment, and the folder of data that nobody else makes."""
    if unit.of_user:
        unit.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(unit.text(), "utf-8")
    draft.replace(file)


def _systemctl(of_user: bool, paste: Paste = pasted) -> Callable[..., None]:
    """Something that asks systemd; `paste` makes commands for who has none.

    Raises:
        Refused: There is none, or it takes root.
    """
    program = shutil.which("systemctl")
    if program is None or not BOOTED.is_dir():
        raise Refused(
            f"This machine is not run by systemd. `{paste('service install --print')}` shows the unit, and"
            f" `{paste('serve')}` is what another supervisor has to start."
        )
    if not of_user and os.geteuid() != 0:
        raise Refused("A service of the system takes root: sudo payd service …, or your own with --user.")
    command = [program, *(["--user"] if of_user else [])]

    def ask(*words: str) -> None:
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            told = done.stderr.strip() or f"it ended with {done.returncode}"
            raise Refused(f"systemctl {' '.join(words)}: {told}")

    return ask


def _runs_as(unit: Unit) -> str:
    if unit.of_user:
        return "you"
    return unit.user or "a user that systemd makes up"
