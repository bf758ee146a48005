"""An address that cannot be bound is told in words, with what to type."""

from __future__ import annotations

import errno
import re
import socket
from pathlib import Path

import pytest

from payd.cli import address
from payd.cli.address import check_address, check_ca_file
from payd.cli.failure import Refused
from payd.config import Address
from tests.receiver import CA_FILE


def test_a_free_address_is_let_go_again() -> None:
    check_address(Address("127.0.0.1", 0))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    check_address(Address("127.0.0.1", port))
    check_address(Address("127.0.0.1", port))


def test_a_taken_port_is_named_with_the_next_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused) as caught:
            check_address(Address("127.0.0.1", port))
    assert str(caught.value) == (
        f"Another program serves at 127.0.0.1:{port}."
        f" Choose another with --listen HOST:PORT, such as --listen 127.0.0.1:{min(port + 1, 65535)}"
    )


def test_an_address_of_another_machine_is_told_as_such() -> None:
    with pytest.raises(Refused, match=r"192\.0\.2\.1 is no address of this machine\. Choose another"):
        check_address(Address("192.0.2.1", 8420))


@pytest.mark.parametrize("host", ["a..b", ".", "a" * 70])
def test_a_host_that_can_be_none_is_as_unknown_as_any(host: str) -> None:
    with pytest.raises(Refused, match=f"^{re.escape(host)} is no host that this machine knows\\. Choose"):
        check_address(Address(host, 80))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "shop.example is no host that this machine knows"),
        (OSError(errno.EACCES, "Permission denied"), "may not listen at shop.example:80"),
        (OSError(errno.EAFNOSUPPORT, "No such family"), "cannot listen at shop.example:80: No such family"),
    ],
)
def test_every_other_reason_has_words(error: OSError, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def bind(_address: Address) -> None:
        raise error

    monkeypatch.setattr(address, "_bind", bind)
    with pytest.raises(Refused, match=words) as caught:
        check_address(Address("shop.example", 80))
    assert "--listen HOST:PORT" in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_a_file_of_authorities_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    check_ca_file(None)
    check_ca_file(CA_FILE)
    with pytest.raises(Refused, match=r"nope\.pem: No such file"):
        check_ca_file(tmp_path / "nope.pem")
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(Refused, match=r"junk\.pem: it has no certificate in PEM form"):
        check_ca_file(tmp_path / "junk.pem")
