"""The file that holds the relayer's key, encrypted: Web3 Secret Storage version 3, as other tools write it.

From the one key in it follow two accounts: the relayer's on EVM chains, and the fee payer's on Solana. The
file says both addresses, so that they can be shown without the password.

The password is stretched with scrypt, which takes half a second and 128 MiB on purpose. Whoever is inside
Trio calls `create` and `unlock` in a thread.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from payd.core.caip import AccountId, account_problem, canonical_chain, parse_chain, to_checksum_address
from payd.entropy import Entropy, system_entropy
from payd.store.durable import hand_over, sync_folder

if TYPE_CHECKING:
    # Each brings what signs on its kind of chain; a server without such a chain does not have it.
    from payd.chains.evm.signer import Signer
    from payd.chains.solana.fee_payer import FeePayer

KEY_BYTES: Final = 32
# Memory is this times a kibibyte. The small one is for machines with less than half a gigabyte.
SCRYPT_N: Final = 2**17
SCRYPT_N_SMALL: Final = 2**14

# A keystore has half a kibibyte. A larger file is something else.
FILE_BYTES_MAX: Final = 16 * 1024
# Memory and time of a keystore that somebody else made: 1 GiB, and what goes with it.
SCRYPT_MEMORY_MAX: Final = 2**30
PBKDF2_ROUNDS_MAX: Final = 10_000_000
# All others write 32: a key for the cipher, and one for the checksum.
DERIVED_BYTES_MAX: Final = 64


PASSWORD_VARIABLE: Final = "PAYD_RELAYER_PASSWORD"
NOT_UTF8: Final = (
    "The password is not UTF-8. Have what it comes from use UTF-8, or take one without such letters."
)


class KeystoreUnusable(Exception):
    """The keystore cannot be made or opened; the message says why and what to do."""


class Addresses(NamedTuple):
    """Whose the accounts of a key are: on EVM chains in lower case, on Solana in base58.

    None stands for what a file does not say.
    """

    evm: str | None
    solana: str | None


class Unlocked:
    """The key of a keystore that was opened; it is asked for what signs with it."""

    def __init__(self, path: Path, key: bytes, solana: str | None) -> None:
        self._path = path
        self._key = key
        self._solana = solana

    def __repr__(self) -> str:
        return f"Unlocked({str(self._path)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be copied to where somebody might keep it."""
        raise TypeError("a key is not pickled")

    def signer(self) -> Signer:
        """The relayer on EVM chains."""
        from payd.chains.evm.signer import Signer

        return Signer(self._key)

    def fee_payer(self) -> FeePayer:
        """The fee payer on Solana.

        Raises:
            KeystoreUnusable: The file says that it has another address.
        """
        from payd.chains.solana.fee_payer import fee_payer_from

        payer = fee_payer_from(self._key)
        if self._solana not in (None, str(payer.address)):
            raise _other_key(self._path)
        return payer


class _Crypto(msgspec.Struct):
    """What is checked before the library reads the rest."""

    kdf: Literal["scrypt", "pbkdf2"]
    kdfparams: dict[str, Any]


class _Keystore(msgspec.Struct):
    version: Literal[3]
    crypto: _Crypto
    address: str | None = None
    # Our own: other programs leave it alone.
    solana_address: str | None = None


def create(path: Path, password: str, *, small: bool = False, entropy: Entropy = system_entropy) -> Addresses:
    """Make a key and write it to a new file that its owner alone can read; gives its addresses.

    Args:
        path: Where; never overwritten.
        password: What opens it again.
        small: Whether opening has to work on a machine with little memory, at the price of a password that
            is sooner guessed by whoever has the file.
        entropy: Where the key comes from; salt and initialisation vector are the library's.

    Raises:
        KeystoreUnusable: There is a file already, or the password is empty or no text.
        OSError: It cannot be written.
    """
    # Here, because it takes half a second: only who has a relayer pays for it.
    from eth_keyfile.keyfile import create_keyfile_json

    if not password:
        raise KeystoreUnusable("An empty password protects nothing. Choose another.")
    key = _new_key(entropy)
    addresses = addresses_of(key)
    n = SCRYPT_N_SMALL if small else SCRYPT_N
    made = create_keyfile_json(key, _encoded(password), version=3, kdf="scrypt", iterations=n)
    said = {"address": (addresses.evm or "").removeprefix("0x"), "solana_address": addresses.solana}
    _write(path, msgspec.json.encode({**made, **said}))
    return addresses


def unlock(path: Path, password: str) -> Unlocked:
    """The key in the file, for who signs with it. Raises what `read_key` does."""
    return Unlocked(path, read_key(path, password), addresses_in(path).solana)


def addresses_of(key: bytes) -> Addresses:
    """Both addresses of a key.

    Raises:
        ValueError: No key has these bytes.
    """
    from payd.chains.evm.signer import Signer
    from payd.chains.solana.fee_payer import fee_payer_from

    return Addresses(Signer(key).address, str(fee_payer_from(key).address))


def read_key(path: Path, password: str) -> bytes:
    """The 32 bytes of the key in the file.

    Raises:
        KeystoreUnusable: There is no such file, others may read it, it is no keystore, or the password is
            another one.
        OSError: It cannot be read.
    """
    from eth_keyfile.keyfile import decode_keyfile_json

    from payd.chains.evm.signer import Signer

    raw = _read(path)
    keystore = _parse(path, raw)
    secret = _encoded(password)
    try:
        _check_cost(path, keystore.crypto)
        key = bytes(decode_keyfile_json(msgspec.json.decode(raw), secret))
        address = Signer(key).address
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        # The library's own words for it; every other error of it is about the file.
        if str(error) == "MAC mismatch":
            raise KeystoreUnusable(f"The password does not open {path}.") from None
        raise KeystoreUnusable(f"{path} is damaged. Restore it from a backup.") from None
    if keystore.address is not None and _address(path, keystore.address) != address:
        raise _other_key(path)
    return key


def addresses_in(path: Path) -> Addresses:
    """The addresses that the file says its key has; needs no password.

    A file of another program, or of an earlier payd, does not say the one on Solana.

    Raises:
        KeystoreUnusable: There is no such file, others may read it, it is no keystore, or what it says is no
            address.
        OSError: It cannot be read.
    """
    keystore = _parse(path, _read(path))
    evm = None if keystore.address is None else _address(path, keystore.address)
    if keystore.solana_address is not None:
        solana = AccountId(canonical_chain(parse_chain("solana:mainnet")), keystore.solana_address)
        if account_problem(solana) is not None:
            raise _no_address(path)
    return Addresses(evm, keystore.solana_address)


def read_password(file: Path | None, variables: Mapping[str, str]) -> str | None:
    """What opens a keystore: the first line of the file, or else the variable; None where neither is given.

    Raises:
        KeystoreUnusable: There is no such file, or it is no text.
        OSError: It cannot be read.
    """
    if file is None:
        return variables.get(PASSWORD_VARIABLE)
    try:
        return file.read_text("utf-8").partition("\n")[0].removesuffix("\r")
    except FileNotFoundError:
        raise KeystoreUnusable(
            f"There is no password file {file}. Make one: "
            f"(umask 077; head -c 24 /dev/urandom | base64 > {file})"
        ) from None
    except UnicodeDecodeError:
        raise KeystoreUnusable(f"{file} holds no password: it is no text.") from None


def _encoded(password: str) -> bytes:
    try:
        return password.encode()
    except UnicodeEncodeError:
        # Not as its cause: it holds the password.
        raise KeystoreUnusable(NOT_UTF8) from None


def _new_key(entropy: Entropy) -> bytes:
    while True:
        key = entropy(KEY_BYTES)
        try:
            addresses_of(key)
        except ValueError:
            continue  # zero, or beyond the order of the curve: once in 2^128
        return key


def _write(path: Path, content: bytes) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeystoreUnusable(
            f"{path} is there already, and a key is never overwritten. Choose another name, or move it away."
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            hand_over(handle, path.parent)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _read(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise KeystoreUnusable(f"There is no keystore {path}. Make one: payd relayer create {path}") from None
    with os.fdopen(handle, "rb") as file:
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o077:
            raise KeystoreUnusable(f"{path} can be read by others. Run: chmod 600 {path}")
        return file.read(FILE_BYTES_MAX + 1)


def _parse(path: Path, raw: bytes) -> _Keystore:
    try:
        if len(raw) <= FILE_BYTES_MAX:
            return msgspec.json.decode(raw, type=_Keystore)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    raise KeystoreUnusable(
        f"{path} is no keystore of version 3, as `payd relayer create` and other Ethereum programs write it."
    )


def _check_cost(path: Path, crypto: _Crypto) -> None:
    params = crypto.kdfparams
    if crypto.kdf == "scrypt":
        if min(params["n"], params["r"], params["p"]) < 1:
            raise ValueError("scrypt counts from 1")
        dear = 128 * params["n"] * params["r"] * params["p"] > SCRYPT_MEMORY_MAX
    else:
        dear = params["c"] > PBKDF2_ROUNDS_MAX
    if dear or params["dklen"] > DERIVED_BYTES_MAX:
        raise KeystoreUnusable(f"{path} takes more memory or time to open than payd allows. Make another.")


def _address(path: Path, text: str) -> str:
    address = "0x" + text.removeprefix("0x").lower()
    try:
        to_checksum_address(address)
    except ValueError:
        raise _no_address(path) from None
    return address


def _no_address(path: Path) -> KeystoreUnusable:
    return KeystoreUnusable(f"{path} has an address in it that is none.")


def _other_key(path: Path) -> KeystoreUnusable:
    return KeystoreUnusable(f"{path} holds another key than it says. Restore it from a backup.")
