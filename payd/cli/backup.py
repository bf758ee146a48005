"""`payd backup`: a copy of everything, also while the server runs."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import trio

from payd import logs
from payd.cli.failure import Refused, Unreachable, check_there, writing
from payd.cli.meter import meter
from payd.cli.options import config_options, load_config
from payd.cli.pasted import pasted
from payd.cli.running import interruptible
from payd.cli.show import json_option, show_fields, show_json
from payd.cli.teaching import teach
from payd.clock import monotonic_s, system_wall_ms
from payd.config import Config
from payd.store.backup import SEAL_KEY, Keystore, left_out, make_backup
from payd.store.copying import Look, check_logs
from payd.store.lock import DataDirectoryBusy, hold_data_dir
from payd.store.manifest import MANIFEST, Manifest
from payd.store.swap import finish
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin

LOOK_S: Final = 0.2  # how often the server is asked how far it is
MIB: Final = 1 << 20


@click.command(
    epilog=teach(
        """
payd backup backup-1
payd backup /mnt/safe/payd --with-keys --json
""",
        codes="it could not be made, and nothing is left of it.",
        then="payd restore SRC --data-dir NEW_DIR",
    )
)
@click.argument("dest", type=click.Path(path_type=Path))
@click.option(
    "--with-keys",
    is_flag=True,
    help="With the seal key and the relayer's keystore: whoever has the backup has all of it then.",
)
@json_option
@config_options
def backup(config_file: str | None, data_dir: str | None, as_json: bool, dest: Path, with_keys: bool) -> None:
    """Copy the whole data directory to a new folder DEST, also while the server runs.

    Every write that was acknowledged before is in it, all databases are of one moment, and each copy is
    checked. DEST is there when it is whole, and not before; nothing is overwritten. Without --with-keys,
    nobody can read from it what is sealed: keep seal.key elsewhere.
    """
    logs.configure("auto", "warning")
    config = load_config(config_file, data_dir)
    dest = Path(os.path.abspath(dest))
    started_s = monotonic_s()
    with meter() as look, interruptible():
        manifest = _make(config, dest, with_keys, look)
    took_ms = round((monotonic_s() - started_s) * 1000)
    links = left_out(config.data_dir)
    if as_json:
        show_json({"dest": str(dest), "tookMs": took_ms, **msgspec.to_builtins(manifest), "leftOut": links})
        return
    seal_key = config.data_dir / SEAL_KEY
    keys = "with the keys" if with_keys else f"without keys; keep {seal_key} in another safe place"
    show_fields(
        {
            "Backup": dest,
            "Of": manifest.made_at,
            "Size": f"{manifest.bytes() / MIB:.1f} MiB, {keys}",
            "Files": ", ".join(each.name for each in manifest.files),
            "Left out": f"{', '.join(links)}: a link to a folder is not followed" if links else None,
            "Back again": pasted(
                f"restore {shlex.quote(str(dest))} --data-dir NEW_DIR", config_file=config_file
            ),
        }
    )


def _make(config: Config, dest: Path, with_keys: bool, look: Look) -> Manifest:
    """Have the running server do it; where none runs, do it here."""
    try:
        return trio.run(_ask, config, dest, with_keys, look)
    except NoServer:
        pass
    except NoAnswer as unknown:
        raise Unreachable(str(unknown)) from unknown
    check_there(config.data_dir)
    try:
        with writing(config.data_dir), hold_data_dir(config.data_dir, "backup") as directory:
            finish(directory)
            check_logs(directory)
            keystore = Keystore(config.relayer.keystore, config.relayer.password_file)
            return make_backup(
                directory, dest, keystore, with_keys=with_keys, now_ms=system_wall_ms(), look=look
            )
    except DataDirectoryBusy as busy:
        if busy.work is not None:
            raise
        raise Unreachable(f"{busy}; it does not answer on its admin socket") from busy


async def _ask(config: Config, dest: Path, with_keys: bool, look: Look) -> Manifest:
    path = config.data_dir / SOCKET_NAME
    reply: Any = None
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_progress, path, look)
        try:
            args = {"dest": str(dest), "with_keys": with_keys}
            # However long it takes: a server that dies ends the connection.
            reply = await call_admin(path, "backup.make", args, deadline_s=math.inf)
        except (NoServer, NoAnswer) as error:
            failed = error  # not from inside: the nursery would wrap it in a group
        except (trio.Cancelled, KeyboardInterrupt):
            await _have_it_stop(path)
            raise
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
    if reply.error is not None:
        raise Refused(reply.error.message)
    if not (dest / MANIFEST).is_file():
        raise Refused(
            f"The server made it, at a {dest} that only the server sees, as with PrivateTmp of systemd."
            " Choose a place that both see, such as /var/backups."
        )
    return msgspec.convert(reply.result, Manifest)


async def _show_progress(path: Path, look: Look) -> None:
    while True:
        await trio.sleep(LOOK_S)
        try:
            seen = (await call_admin(path, "backup.progress", {})).result
        except (NoServer, NoAnswer):
            return  # who waits for the backup hears of that
        if seen is not None:
            look(seen["what"], seen["file"], seen["done"], seen["total"])


async def _have_it_stop(path: Path) -> None:
    """The person left: nobody wants it any more."""
    with trio.CancelScope(shield=True):
        try:
            await call_admin(path, "backup.stop", {})
        except (NoServer, NoAnswer):
            return
