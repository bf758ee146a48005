"""A listener's key and secret: made for it in the folder of a server, found or typed elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import trio

from payd.cli.doors import ANSWER_S, GIVEN, NOT_SHOWN, REVEAL, FolderDoor, RemoteDoor, server_url
from payd.cli.failure import Refused, Unreachable
from payd.cli.feed_connection import Unanswered
from payd.cli.following import State, Tell
from payd.cli.options import Operator
from payd.cli.signing import SecretChanged
from payd.config import load
from payd.core.endpoint import SECRET_OVERLAP_MS
from payd.net.http import Client
from payd.web.admin import NoServer, Refusal, Reply
from payd.web.cursor import encode_cursor
from tests.receiver import Does, Receiver, Script, always, in_turn

OPENED = {
    "url": "http://127.0.0.1:8420",
    "secret": "whsec_one",
    "secrets": ["whsec_one"],
    "accountName": "main",
    "apiKey": "svc_test_1",
    "keyId": "key_1",
    "cursor": encode_cursor(7),
}
SHOWN = {"url": "http://127.0.0.1:8421", "secret": "whsec_two", "secrets": ["whsec_two", "whsec_one"]}


class Admin:
    """What answers on the admin socket, and what it was asked."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any] | Exception | Refusal
    ) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        monkeypatch.setattr("payd.cli.doors.call_admin", self.call)

    async def call(self, _path: Path, command: str, args: dict[str, Any]) -> Reply:
        await trio.lowlevel.checkpoint()
        self.asked.append((command, args))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(error=answer) if isinstance(answer, Refusal) else Reply(result=answer)


def folder_door(
    tmp_path: Path,
    *,
    secret: str | None = None,
    cursor: str | None = None,
    file: Path | None = None,
    tell: Tell = lambda _: None,
) -> FolderDoor:
    scope = {"mode": "test", "account": "main"}
    operator = Operator(load(None, {"PAYD_DATA_DIR": str(tmp_path)}), False, scope, data_dir="my data")
    return FolderDoor(operator, secret, cursor, tell=tell, file=file)


async def test_a_folder_makes_one_key_and_asks_for_the_secret_again_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    admin = Admin(monkeypatch, OPENED, SHOWN)
    door = folder_door(tmp_path)
    place = await door.open()
    assert (place.url, place.api_key, place.cursor) == (OPENED["url"], "svc_test_1", OPENED["cursor"])
    assert place.who == "account main, test mode"
    assert await door.secrets() == ("whsec_one",)
    again = await door.open()
    assert (again.url, again.api_key) == (SHOWN["url"], "svc_test_1")
    assert await door.secrets() == ("whsec_two", "whsec_one")
    scope = {"mode": "test", "account": "main"}
    assert admin.asked == [("listen.open", scope), ("listen.secret", scope)]


async def test_a_typed_secret_counts_in_a_folder_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Admin(monkeypatch, OPENED)
    door = folder_door(tmp_path, secret="whsec_mine")
    await door.open()
    assert await door.secrets() == ("whsec_mine",)


async def test_a_secret_that_may_have_changed_is_asked_for_before_it_signs_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    states: list[State] = []
    admin = Admin(monkeypatch, OPENED, NoServer(""), SHOWN)
    door = folder_door(tmp_path, tell=states.append)
    await door.open()
    door.expire(told=True)
    assert await door.secrets() == ("whsec_one",), "nobody answers yet"
    assert await door.secrets() == await door.secrets() == ("whsec_two", "whsec_one")
    assert len(admin.asked) == 3
    assert states == [SecretChanged(None)]


async def test_a_server_that_hangs_holds_up_no_event_for_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Admin(monkeypatch, OPENED)
    door = folder_door(tmp_path)
    await door.open()

    async def hang(_path: Path, _command: str, _args: dict[str, Any]) -> Reply:
        return await trio.sleep_forever()

    monkeypatch.setattr("payd.cli.doors.call_admin", hang)
    door.expire(told=True)
    began_s = trio.current_time()
    assert await door.secrets() == ("whsec_one",)
    assert trio.current_time() - began_s == ANSWER_S


async def test_a_typed_secret_stays_and_a_change_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    states: list[State] = []
    Admin(monkeypatch, OPENED)
    door = folder_door(tmp_path, secret="whsec_mine", tell=states.append)
    await door.open()
    door.expire(told=False)
    assert await door.secrets() == ("whsec_mine",)
    assert states == []
    door.expire(told=True)
    assert await door.secrets() == ("whsec_mine",)
    assert states == [SecretChanged(GIVEN)]


async def test_a_key_that_was_given_up_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    admin = Admin(monkeypatch, OPENED, {**OPENED, "apiKey": "svc_test_2", "keyId": "key_2"})
    door = folder_door(tmp_path)
    await door.open()
    assert door.forget()
    assert (await door.open()).api_key == "svc_test_2"
    assert [command for command, _ in admin.asked] == ["listen.open", "listen.open"]


async def test_a_server_that_does_not_answer_yet_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Admin(monkeypatch, NoServer(""), {**OPENED, "url": "http://127.0.0.1:0"}, SHOWN)
    door = folder_door(tmp_path)
    with pytest.raises(Unanswered, match="no server runs in"):
        await door.open()
    with pytest.raises(Unanswered, match="the server is starting"):
        await door.open()
    assert (await door.open()).cursor == OPENED["cursor"]


async def test_an_operators_refusal_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Admin(monkeypatch, Refusal("invalid_params", "There are several accounts."))
    with pytest.raises(Refused, match="several accounts"):
        await folder_door(tmp_path).open()


async def test_a_kept_cursor_ahead_of_all_events_is_refused_and_a_typed_one_is_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Admin(monkeypatch, OPENED, OPENED, OPENED)
    ahead, file = encode_cursor(8, 1), Path("place")
    with pytest.raises(Refused, match=rf"in place is ahead of all events.* --after {ahead} instead"):
        await folder_door(tmp_path, cursor=ahead, file=file).open()
    await folder_door(tmp_path, cursor=encode_cursor(7), file=file).open()
    await folder_door(tmp_path, cursor=ahead).open()


async def test_ctrl_c_while_the_key_is_made_leaves_a_key_that_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    revoked: list[dict[str, Any]] = []
    door = folder_door(tmp_path)

    async def slow(_path: Path, _command: str, _args: dict[str, Any]) -> Reply:
        await trio.sleep(2)
        return Reply(result=OPENED)

    monkeypatch.setattr("payd.cli.doors.call_admin", slow)
    with trio.move_on_after(1):
        await door.open()
    monkeypatch.setattr(
        "payd.cli.options.ask", lambda _config, command, args, _paste: revoked.append({command: args})
    )
    door.close()
    assert revoked == [{"key.revoke": {"mode": "test", "account": "main", "id": "key_1"}}]


def test_a_key_that_cannot_be_revoked_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def opened() -> FolderDoor:
        Admin(monkeypatch, OPENED)
        door = folder_door(tmp_path)
        await door.open()
        return door

    def busy(*_: Any) -> Any:
        raise Unreachable("It is in use.")

    monkeypatch.setattr("payd.cli.options.ask", busy)
    trio.run(opened).close()
    said = capsys.readouterr().err
    assert "It is in use. Run: " in said
    assert "key revoke key_1 --mode test --account main --data-dir 'my data'" in said


def test_where_no_server_was_started_or_nothing_is_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"No payd data in .*Go to the folder where payd runs, or give --data"):
        folder_door(tmp_path).check()
    (tmp_path / "office.db").touch()
    with pytest.raises(Unreachable, match=r"payd serve --data-dir 'my data'$"):
        folder_door(tmp_path).check()
    folder_door(tmp_path).close()


REMOTE = "https://pay.example"


async def remote(
    monkeypatch: pytest.MonkeyPatch,
    script: Script,
    check: Callable[[RemoteDoor], Any],
    *,
    secret: str | None = None,
    fallback: str | None = None,
    signs: bool = True,
    tell: Tell = lambda _: None,
) -> Receiver:
    """Have `check` open a door whose server does as the script says."""
    async with trio.open_nursery() as nursery:
        server = Receiver(nursery, script)

        async def resolve(_host: str) -> list[str]:
            await trio.lowlevel.checkpoint()
            return ["192.0.2.1"]

        monkeypatch.setattr("payd.cli.doors.Client", partial(Client, resolve=resolve, dial=server.dial))
        door = RemoteDoor(
            REMOTE.replace("https", "http") + "/",
            "svc_test_abcd",
            secret=secret,
            fallback=fallback,
            signs=signs,
            tell=tell,
        )
        await check(door)
        nursery.cancel_scope.cancel()
    return server


def says(status: int, **body: Any) -> Script:
    return always(Does(status=status, body=msgspec.json.encode(body)))


async def test_elsewhere_the_endpoints_secret_is_revealed_once_and_when_it_may_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(door: RemoteDoor) -> None:
        place = await door.open()
        assert (place.url, place.api_key, place.cursor) == ("http://pay.example", "svc_test_abcd", None)
        assert place.who == "the key …abcd"
        assert await door.secrets() == ("whsec_shown",)
        await door.open()
        door.expire(told=False)
        await door.secrets()
        await door.secrets()

    shown = says(200, id="ep_1", secret="whsec_shown")
    server = await remote(monkeypatch, shown, check, fallback="whsec_env")
    assert [(one.method, one.path, one.headers["api-key"]) for one in server.received] == [
        ("POST", REVEAL, "svc_test_abcd")
    ] * 2


def reveals(*pairs: tuple[str, str]) -> Script:
    return in_turn(*(Does(body=msgspec.json.encode({"id": one, "secret": secret})) for one, secret in pairs))


async def test_elsewhere_the_secret_before_signs_along_for_a_day_but_not_that_of_another_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states: list[State] = []

    async def check(door: RemoteDoor) -> None:
        async def renewed() -> tuple[str, ...]:
            door.expire(told=True)
            return await door.secrets()

        await door.open()
        assert await renewed() == ("whsec_2", "whsec_1")
        assert await renewed() == ("whsec_2", "whsec_1")
        await trio.sleep(SECRET_OVERLAP_MS / 1000)
        assert await renewed() == ("whsec_2",)
        assert await renewed() == ("whsec_3",)
        assert states == [SecretChanged(None)] * 2

    one, two = ("ep_1", "whsec_1"), ("ep_1", "whsec_2")
    await remote(monkeypatch, reveals(one, two, two, two, ("ep_2", "whsec_3")), check, tell=states.append)


@pytest.mark.parametrize("status", [403, 404])
async def test_elsewhere_a_change_that_cannot_be_seen_is_told_and_the_old_one_signs_on(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    states: list[State] = []

    async def check(door: RemoteDoor) -> None:
        await door.open()
        door.expire(told=False)
        assert await door.secrets() == ("whsec_env",)
        assert states == [], "nobody said that it changed"
        door.expire(told=True)
        assert await door.secrets() == ("whsec_env",)
        assert states == [SecretChanged(NOT_SHOWN[status])]
        assert not door.forget()

    await remote(monkeypatch, says(status), check, fallback="whsec_env", tell=states.append)


async def test_a_typed_secret_or_no_receiver_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(door: RemoteDoor) -> None:
        await door.open()

    assert (await remote(monkeypatch, says(200, secret="x"), check, secret="whsec_mine")).received == []
    assert (await remote(monkeypatch, says(200, secret="x"), check, signs=False)).received == []


@pytest.mark.parametrize("status", [403, 404])
async def test_what_is_not_shown_comes_from_the_variable_or_must_be_typed(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    async def falls_back(door: RemoteDoor) -> None:
        await door.open()
        assert await door.secrets() == ("whsec_env",)

    async def refuses(door: RemoteDoor) -> None:
        with pytest.raises(Refused, match="--secret or PAYD_WEBHOOK_SECRET"):
            await door.open()

    await remote(monkeypatch, says(status), falls_back, fallback="whsec_env")
    await remote(monkeypatch, says(status), refuses)


async def test_a_wrong_key_ends_it_and_a_tired_server_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(door: RemoteDoor) -> None:
        with pytest.raises(Refused, match=r"http://pay\.example: This API key is unknown"):
            await door.open()

    async def waits(door: RemoteDoor) -> None:
        with pytest.raises(Unanswered):
            await door.open()

    async def is_no_payd(door: RemoteDoor) -> None:
        with pytest.raises(Refused, match="is no payd"):
            await door.open()

    await remote(monkeypatch, says(401, message="This API key is unknown or was revoked."), refuses)
    await remote(monkeypatch, says(503), waits)
    await remote(monkeypatch, always(Does(resets=True)), waits)
    await remote(monkeypatch, says(200), is_no_payd)


def test_a_url_is_checked() -> None:
    assert server_url("http://127.0.0.1:8420") == "http://127.0.0.1:8420"
    with pytest.raises(click.BadParameter, match="https://"):
        server_url("pay.example.com")
