"""`payd listen`: the account's events, as signed webhooks, at a receiver on the developer's machine.

Source: DESIGN.md, "8. Feed"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Container
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import msgspec
import trio

from payd.cli.doors import FolderDoor, ListenDoor, RemoteDoor, server_url
from payd.cli.feed_connection import Message
from payd.cli.following import Follower, Inbox, Tell
from payd.cli.forwarding import Forwarder, Header, chosen_events, extra_headers, receiver_url
from payd.cli.options import F, Operator, config_options, load_config
from payd.cli.pasted import pasted, with_options
from payd.cli.progress import Progress, kept_cursor, typed_cursor
from payd.cli.running import endings
from payd.cli.teaching import teach
from payd.cli.ticker import HIDDEN, Head, JsonTicker, PlainTicker, Stopped, Ticker, told
from payd.clock import system_wall_ms
from payd.core.endpoint import EVENT_TYPES
from payd.core.ids import api_key_realm
from payd.core.signature import MalformedSecret, key_of
from payd.net.http import Client, Target


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to do with events.

    Attributes:
        url: Where to forward to; None: they are only printed.
        headers: To add.
        events: The types.
        cursor: Where to begin; None: behind the newest.
        file: Where the cursor is kept; None: nowhere, and `cursor` was typed.
        again: The command, as typed, without a cursor.
    """

    url: str | None
    headers: tuple[Header, ...]
    events: frozenset[str]
    cursor: str | None
    file: Path | None
    again: str


def place_options(function: F) -> F:
    """Adds `--after` and `--cursor`, of which `begins` makes where to begin."""
    after = click.option("--after", metavar="CURSOR", help="Begin behind this cursor. Without: what is new.")
    cursor = click.option(
        "--cursor",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Keep the cursor in this file, and go on from it the next time.",
    )
    return after(cursor(function))


@click.command(
    epilog=teach(
        """
payd listen
payd listen --forward-to localhost:4242/hook
payd listen --events payment.succeeded,payment.settled --json
payd listen --url https://pay.example.com --api-key svc_test_…
""",
        notes=f"Event types: {', '.join(EVENT_TYPES)}.",
    )
)
@click.option("--forward-to", metavar="URL", help="Your receiver, such as localhost:4242/hook or :4242/hook.")
@click.option("--events", "lists", multiple=True, metavar="A,B", help="Only these types. Without: all.")
@click.option("-H", "--header", "lines", multiple=True, metavar="'K: V'", help="Add a header; repeat.")
@place_options
@click.option("--print-secret", is_flag=True, help="Print the signing secret; alone: and nothing else.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="json: an object a line."
)
@click.option("--json", "form", flag_value="json", help="As --format json.")
@click.option("--url", metavar="URL", help="A server elsewhere, such as https://pay.example.com.")
@click.option("--api-key", metavar="KEY", help="Its key, with the scope webhooks:read. [PAYD_API_KEY]")
@click.option(
    "--secret", metavar="SECRET", help="Sign with this secret, whsec_…. [with --url: PAYD_WEBHOOK_SECRET]"
)
@click.option(
    "--mode", type=click.Choice(["test", "live"]), help="Which realm. [test; with --url the key says which]"
)
@click.option("--account", metavar="NAME|ID", help="Whose. Needed when there are several.")
@config_options
def listen(
    config_file: str | None,
    data_dir: str | None,
    forward_to: str | None,
    lists: tuple[str, ...],
    lines: tuple[str, ...],
    after: str | None,
    file: Path | None,
    print_secret: bool,
    form: str,
    url: str | None,
    api_key: str | None,
    secret: str | None,
    mode: str | None,
    account: str | None,
) -> None:
    """Forward events to a receiver on your machine, signed as webhooks are, in order.

    While the receiver cannot be reached, and while the server is away, events wait. An answer that is not a
    2xx is shown and not repeated. Without --forward-to, events are printed.

    In the folder of a server it needs no key. Signed with the secret of the webhook endpoint, as it is by
    then; where there is no endpoint, with one that stays the same: --print-secret shows it.
    """
    where = {"config": config_file, "data-dir": data_dir}
    whose = {"mode": "live" if mode == "live" else None, "account": account}
    typed = {**where, "forward-to": forward_to, "url": url, **whose, "secret": secret and HIDDEN}
    typed |= {"cursor": str(file or ""), "format": form.replace("text", "")}
    resend = None if url else pasted(with_options("webhook resend", {**where, **whose}))
    ticker: Ticker = JsonTicker() if form == "json" else PlainTicker(resend)
    wanted = Wanted(
        url=None if forward_to is None else receiver_url(forward_to),
        headers=extra_headers(lines),
        events=chosen_events(lists),
        cursor=begins(after, file),
        file=file,
        again=_again(typed, lists, lines, api_key),
    )
    _check(url, api_key, secret, account)
    door: ListenDoor
    if url is None:
        realm = {"mode": mode or "test"}
        scope = realm if account is None else {**realm, "account": account}
        operator = Operator(load_config(config_file, data_dir), False, scope, config_file, data_dir)
        door = FolderDoor(operator, secret, wanted.cursor, file=wanted.file, tell=ticker.state)
    else:
        signs = print_secret or forward_to is not None
        door = _remote(url, api_key, secret, mode=mode, signs=signs, tell=ticker.state)
    if forward_to is not None or not print_secret:
        door.check()
    if print_secret:
        ticker.secret(door.reveal())
    if forward_to is None and print_secret:
        return
    follow_until_told(wanted, door, ticker)


def follow_until_told(wanted: Wanted, door: ListenDoor, ticker: Ticker) -> None:
    """Do with events what is wanted, until somebody says stop; then say how to go on."""
    progress = Progress(wanted.file)
    run_until_told(partial(follow, wanted, door, ticker, progress), door)
    place = progress.cursor
    again = wanted.again if wanted.file else f"{wanted.again} --after {place}"
    ticker.state(Stopped(place, None if place is None else again))


def run_until_told(run: Callable[[], Awaitable[None]], door: ListenDoor) -> None:
    """Run until somebody says stop, and close the door.

    Whoever says it again does not want to wait: then the key stays, and the server gives it up a minute
    later.
    """
    try:
        # A signal that came while the first one was obeyed is raised behind the receiver.
        with suppress(KeyboardInterrupt):
            trio.run(_until_told, run)
    finally:
        with suppress(KeyboardInterrupt):
            door.close()


async def _until_told(run: Callable[[], Awaitable[None]]) -> None:
    """Run until somebody says stop, by Ctrl-C or otherwise."""
    with trio.open_signal_receiver(*endings()) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            async for _ in signals:
                return nursery.cancel_scope.cancel()


async def follow(wanted: Wanted, door: ListenDoor, ticker: Ticker, progress: Progress) -> None:
    """Do with events what is wanted, until cancelled: those that come while the server is away come later."""
    inbox = Inbox()
    follower = Follower(door, inbox, ticker.state, cursor=wanted.cursor, begin=progress.move)
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        forwarder: Forwarder | None = None
        if wanted.url is not None:
            client = Client(may_call=lambda _address: True)
            stack.push_async_callback(client.aclose)
            forwarder = Forwarder(
                client,
                url=wanted.url,
                target=Target.of(wanted.url),
                headers=wanted.headers,
                secrets=door.secrets,
                tell=ticker.state,
                wall_ms=system_wall_ms,
            )
        nursery.start_soon(follower.run)
        while True:
            await hand_on(await inbox.get(), wanted.events, forwarder, ticker, progress)


async def hand_on(
    message: Message,
    events: Container[str],
    forwarder: Forwarder | None,
    ticker: Ticker,
    progress: Progress,
) -> None:
    """One event to its end: forwarded if it is wanted, printed, and only then counted as done."""
    body = bytes(message.event)
    head = msgspec.json.decode(body, type=Head)
    if head.type in events:
        reply = None if forwarder is None else await forwarder.forward(head.id, body)
        ticker.event(told(message, head, reply), system_wall_ms())
    if not message.resent:
        progress.move(message.cursor)


def _remote(
    url: str, api_key: str | None, secret: str | None, *, mode: str | None, signs: bool, tell: Tell
) -> RemoteDoor:
    key = api_key or os.environ.get("PAYD_API_KEY")
    if not key:
        raise click.UsageError("--url needs a key: --api-key or PAYD_API_KEY.")
    if not (key.isascii() and key.isprintable()):
        raise click.BadParameter("it is no API key.", param_hint="--api-key")
    realm = api_key_realm(key)
    if mode and realm and mode != realm:
        raise click.UsageError(f"The key, of --api-key or PAYD_API_KEY, is for {realm} mode, not {mode}.")
    fallback = os.environ.get("PAYD_WEBHOOK_SECRET") or None
    _check_secret(fallback, "PAYD_WEBHOOK_SECRET")
    return RemoteDoor(server_url(url), key, secret=secret, fallback=fallback, signs=signs, tell=tell)


def begins(after: str | None, file: Path | None) -> str | None:
    """The cursor behind which to begin, of the two options; None: behind the newest event."""
    if after and file:
        words = (
            "--after and --cursor do not go together: the file says where to go on. Leave one of them out."
        )
        raise click.UsageError(words)
    if after:
        return typed_cursor(after)
    return None if file is None else kept_cursor(file)


def _check(url: str | None, api_key: str | None, secret: str | None, account: str | None) -> None:
    if url is None and api_key is not None:
        raise click.UsageError("--api-key goes with --url; in the folder of a server none is needed.")
    if url is not None and account is not None:
        raise click.UsageError("--account is for the folder of a server; with --url the key says whose.")
    _check_secret(secret, "--secret")


def _check_secret(secret: str | None, hint: str) -> None:
    try:
        if secret is not None:
            key_of(secret)
    except MalformedSecret as error:
        raise click.BadParameter(str(error), param_hint=hint) from None


def _again(
    options: dict[str, str | None], lists: tuple[str, ...], lines: tuple[str, ...], api_key: str | None
) -> str:
    """The command as it was typed, without a cursor, and with `HIDDEN` for keys, secrets and headers."""
    given = [f"--events {shlex.quote(text)}" for text in lists]
    given += [f"-H {shlex.quote(line.partition(':')[0] + ': ' + HIDDEN)}" for line in lines]
    key = f"PAYD_API_KEY={HIDDEN} " if api_key else ""
    return key + " ".join([pasted(with_options("listen", options)), *given])
