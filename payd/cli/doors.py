"""Where a listener gets its key and its secret: from the folder's own server, or from what was typed.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

import click
import msgspec
import trio

from payd.cli.failure import Refused, Unreachable, check_there
from payd.cli.feed_connection import Place, Unanswered
from payd.cli.following import WRONG, Door, Tell
from payd.cli.options import Operator
from payd.cli.signing import Signing, Unshown
from payd.core.advice import words_for
from payd.core.endpoint import SECRET_OVERLAP_MS, SECRETS_MAX
from payd.core.errors import InvalidParams
from payd.net.http import Client, Target
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, Reply, call_admin
from payd.web.feed_cursor import read_feed_cursor

REVEAL: Final = "/v1/webhooks/endpoint/reveal"
# A server that is well answers within milliseconds.
ANSWER_S: Final = 10.0
NOT_ALLOWED: Final = 403
NO_ENDPOINT: Final = 404

GIVEN: Final = (
    "with the one that you gave. If your receiver has the new one, start again with it, or without --secret"
    " to follow the endpoint."
)
NOT_SHOWN: Final = {
    NOT_ALLOWED: "with the old one: this key may not see the new one. Start again with a key that has the"
    " scope webhooks:secret, or give the new one with --secret.",
    NO_ENDPOINT: "with the old one: there is no webhook endpoint any more. Give another one with --secret.",
}
"""Answers to a reveal that mean: not for this key, or there is nothing to reveal; and what signs then."""


class ListenDoor(Door, Protocol):
    """A door which also knows what signs."""

    def check(self) -> None:
        """Raise Unreachable where it is plain that nobody will answer."""

    def reveal(self) -> str:
        """The secret, for somebody to see. Raises click.ClickException."""

    async def secrets(self) -> tuple[str, ...]:
        """What signs now, the current one first; known after `open`. Raises Refused."""

    def close(self) -> None:
        """Take back what was made."""


class FolderDoor:
    """The server of a data directory: it makes a key for this one listener, which `close` revokes.

    Args:
        operator: Whose folder, mode and account.
        secret: The receiver's, typed; None: that of the endpoint, or the account's own.
        cursor: Where the listener begins.
        tell: Told that another secret signs.
        file: Where the cursor is kept; it may be of another house, which is found out. None: it was typed.
    """

    def __init__(
        self,
        operator: Operator,
        secret: str | None,
        cursor: str | None,
        *,
        tell: Tell,
        file: Path | None,
    ) -> None:
        self._operator = operator
        self._file = file
        self._socket = operator.config.data_dir / SOCKET_NAME
        self._cursor = cursor
        self._opened: dict[str, Any] | None = None
        self._given = secret
        self._signing = Signing(self._ask_secrets, tell)
        self.expire, self.secrets = self._signing.expire, self._signing.secrets

    def check(self) -> None:
        """Raise Refused or OfficeMissing where there are no data, Unreachable where no server was started."""
        if not self._socket.exists():
            check_there(self._socket.parent)
            words = "This needs the running server. Start it in another terminal:"
            raise Unreachable(f"{words} {self._operator.pasted_here('serve')}")

    def reveal(self) -> str:
        """The secret, also where no server runs."""
        return self._given or str(self._operator.ask("listen.secret")["secret"])

    async def open(self) -> Place:
        """The first time a fresh key; later the same one, with the secrets as they are by then."""
        opened = self._opened
        if opened is None:
            # A key that was made is one that must be revoked: Ctrl-C does not come in between.
            with trio.move_on_after(ANSWER_S, shield=True):
                opened = self._opened = await self._ask("listen.open")
            if opened is None:
                raise Unanswered(f"the server did not answer within {ANSWER_S:g} s")
            shown = opened
            self._check_cursor(opened["cursor"])
        else:
            shown = await self._ask("listen.secret")
        if shown["url"].endswith(":0"):
            raise Unanswered("the server is starting")
        self._signing.put((self._given,) if self._given else tuple(shown["secrets"]))
        who = f"account {opened['accountName']}, {self._operator.scope['mode']} mode"
        return Place(shown["url"], opened["apiKey"], who, opened["cursor"])

    def forget(self) -> bool:
        """The server gives up a key that is not used for a minute; it makes another one."""
        self._opened = None
        return True

    def close(self) -> None:
        """Revoke the key; where no server runs, in the store."""
        if self._opened is None:
            return
        key_id = self._opened["keyId"]
        try:
            self._operator.ask("key.revoke", id=key_id)
        except click.ClickException as error:
            again = self._operator.pasted(f"key revoke {key_id}")
            click.echo(f"The key of this listener is still there: {error.message} Run: {again}", err=True)

    def _check_cursor(self, newest: str) -> None:
        if self._cursor is None or self._file is None:
            return
        if read_feed_cursor(self._cursor).seq > read_feed_cursor(newest).seq:
            raise Refused(
                f"The cursor in {self._file} is ahead of all events here: it is of another mode or server, or"
                f" a backup was restored. After a restore, --after {self._cursor} instead of the file goes on"
                " where that begins. Without either, listening begins with what is new."
            )

    async def _ask_secrets(self) -> tuple[str, ...]:
        if self._given is not None:
            raise Unshown(GIVEN)
        with trio.move_on_after(ANSWER_S):
            return tuple((await self._ask("listen.secret"))["secrets"])
        raise Unanswered(f"the server did not answer within {ANSWER_S:g} s")

    async def _ask(self, command: str) -> Any:
        try:
            reply: Reply = await call_admin(self._socket, command, dict(self._operator.scope))
        except NoServer:
            raise Unanswered(f"no server runs in {self._socket.parent}") from None
        except NoAnswer:
            raise Unanswered("the server did not answer") from None
        if reply.error is not None:
            raise Refused(reply.error.message)
        return reply.result


class RemoteDoor:
    """A server somewhere else, opened with a key that was typed.

    Args:
        url: The server's.
        api_key: That may read events; with the scope webhooks:secret it finds the secret by itself.
        secret: The receiver's, typed; it is then not asked for.
        fallback: Used where none can be found.
        signs: Whether a secret is needed.
        tell: Told that another secret signs.
    """

    def __init__(
        self, url: str, api_key: str, *, secret: str | None, fallback: str | None, signs: bool, tell: Tell
    ) -> None:
        self._url = url.rstrip("/")
        self._api_key = api_key
        self._signs = signs
        self._given = secret
        self._fallback = fallback
        self._shown: _Revealed | None = None
        # Those before the current one, with the moment when the last of their overlap is over for sure.
        self._before: dict[str, float] = {}
        self._signing = Signing(self._ask_secrets, tell)
        self.expire, self.secrets = self._signing.expire, self._signing.secrets

    def check(self) -> None:
        """Nothing: it may come up later."""

    def reveal(self) -> str:
        """The secret that will sign."""
        try:
            trio.run(self.open)
        except Unanswered as why:
            raise Refused(f"{self._url}: {why}") from None
        assert self._signing.current is not None, "open finds one, or refuses"
        return self._signing.current

    async def open(self) -> Place:
        """The place; the first time the endpoint's secret is asked for, and there has to be one."""
        if self._signs and self._signing.current is None:
            self._signing.put(await self._first_secrets())
        return Place(self._url, self._api_key, f"the key …{self._api_key[-4:]}")

    def forget(self) -> bool:
        """There is no other key than the one that was typed."""
        return False

    def close(self) -> None:
        """Nothing was made."""

    async def _first_secrets(self) -> tuple[str, ...]:
        if self._given is not None:
            return (self._given,)
        try:
            return await self._ask_secrets()
        except Unshown:
            if self._fallback is not None:
                return (self._fallback,)
            raise Refused(
                "There is no secret to sign with: this key lacks the scope webhooks:secret, or there is"
                " no webhook endpoint. Give your receiver's secret with --secret or PAYD_WEBHOOK_SECRET."
            ) from None

    async def _ask_secrets(self) -> tuple[str, ...]:
        """The current one is asked for; those before it are remembered while they may sign."""
        if self._given is not None:
            raise Unshown(GIVEN)
        shown, now_s = await self._reveal(), trio.current_time()
        last, self._shown = self._shown, shown
        if last is None or last.id != shown.id:
            self._before.clear()
        elif last.secret != shown.secret:
            self._before = {last.secret: now_s + SECRET_OVERLAP_MS / 1000, **self._before}
        valid = [one for one, until_s in self._before.items() if until_s > now_s]
        return (shown.secret, *valid[: SECRETS_MAX - 1])

    async def _reveal(self) -> _Revealed:
        headers = [("api-key", self._api_key)]
        client = Client(may_call=lambda _address: True)
        try:
            reply = await client.send("POST", Target.of(self._url + REVEAL), headers)
        finally:
            await client.aclose()
        if reply.status == 200:
            try:
                return msgspec.json.decode(reply.body, type=_Revealed)
            except msgspec.DecodeError:
                raise Refused(f"{self._url} is no payd.") from None
        if reply.status in NOT_SHOWN:
            raise Unshown(NOT_SHOWN[reply.status])
        if reply.status is None:
            raise Unanswered(words_for(reply.error_class or ""))
        if reply.status in WRONG:
            raise Refused(f"{self._url}: {_message(reply.body)}")
        raise Unanswered(f"it answered {reply.status}")


class _Revealed(msgspec.Struct):
    id: str
    secret: str


class _Refusal(msgspec.Struct):
    message: str = "it refused the key."


def server_url(text: str) -> str:
    """A checked `--url`.

    Raises:
        click.BadParameter: It is none.
    """
    try:
        Target.of(text)
    except InvalidParams as error:
        raise click.BadParameter(error.message, param_hint="--url") from None
    return text


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).message
    except msgspec.DecodeError:
        return _Refusal().message
