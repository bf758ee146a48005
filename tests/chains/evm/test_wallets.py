"""What payd hands out is signed by the code of real wallets, and what payd signs is read by it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from eth_keys.constants import SECPK1_N

from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    recover_authorizer,
    transfer_with_authorization_call,
    typed_data,
)
from payd.chains.evm.binding import authorization_nonce
from payd.chains.evm.codec import UINT256_MAX, to_data
from payd.chains.evm.signature import normalise_signature
from payd.chains.evm.signer import SignedTransaction, Signer
from payd.core.caip import to_checksum_address
from tests.chains.evm.json import SHOP, TOKEN
from tests.packages import CACHE, from_npm

PACKAGES: Final = {"ethers": "6.17.0", "@metamask/eth-sig-util": "8.2.0"}
SIGN_MAX_S: Final = 60

KEY = bytes(31) + b"\7"
SIGNER = Signer(KEY)


def asked(value: int, name: str = "USD Coin") -> Authorization:
    return Authorization(
        TokenDomain(name, "2", 8453, TOKEN),
        SIGNER.address,
        SHOP,
        value,
        1_900_000_000,
        authorization_nonce("pay_l1"),
    )


ASKED = [asked(12_340_000), asked(1, "USD₮0"), asked(UINT256_MAX)]


def sent(authorization: Authorization) -> SignedTransaction:
    call = transfer_with_authorization_call(authorization, bytes(64) + b"\x1b")
    return SIGNER.sign(8453, 41, TOKEN, call, gas=120_000, max_fee=2_000_000_000, tip=1_000_000)


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """A folder from which Node finds the wallets' libraries; installed once and kept."""
    return from_npm(CACHE / "wallets", PACKAGES)


@pytest.fixture(scope="session", params=ASKED, ids=["a price", "a name beyond ASCII", "the largest number"])
def signed(request: pytest.FixtureRequest, node_modules: Path) -> tuple[Authorization, dict[str, Any]]:
    """An authorization, and what the wallets' libraries make of it."""
    authorization: Authorization = request.param
    given = {"key": to_data(KEY), "typed": typed_data(authorization), "raw": to_data(sent(authorization).raw)}
    run = subprocess.run(
        ["node", str(Path(__file__).with_name("sign.mjs")), str(node_modules)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=SIGN_MAX_S,
        check=True,
    )
    return authorization, json.loads(run.stdout)


Signed = tuple[Authorization, dict[str, Any]]


@pytest.mark.parametrize("wallet", ["metamask", "ethers", "compact"])
def test_a_wallets_signature_of_what_was_handed_out_is_accepted(signed: Signed, wallet: str) -> None:
    authorization, made = signed
    signature = normalise_signature(bytes.fromhex(made[wallet][2:]))
    assert recover_authorizer(authorization, signature) == SIGNER.address
    assert int.from_bytes(signature[32:64], "big") <= SECPK1_N // 2, "tokens refuse a high s"


def test_all_wallets_sign_the_same(signed: Signed) -> None:
    _, made = signed
    assert made["metamask"] == made["ethers"]
    assert to_data(normalise_signature(bytes.fromhex(made["compact"][2:]))) == made["metamask"]


def test_without_the_domain_among_the_types_metamask_would_sign_something_else(signed: Signed) -> None:
    authorization, made = signed
    signature = bytes.fromhex(made["metamaskWithoutDomain"][2:])
    assert recover_authorizer(authorization, signature) != SIGNER.address


def test_the_calldata_is_what_ethers_writes(signed: Signed) -> None:
    authorization, made = signed
    signature = normalise_signature(bytes.fromhex(made["metamask"][2:]))
    assert to_data(transfer_with_authorization_call(authorization, signature)) == made["calldata"]


def test_the_relayers_transaction_is_what_ethers_reads(signed: Signed) -> None:
    authorization, made = signed
    call = transfer_with_authorization_call(authorization, bytes(64) + b"\x1b")
    assert made["transaction"] == {
        "hash": sent(authorization).hash,
        "from": to_checksum_address(SIGNER.address),
        "to": to_checksum_address(TOKEN),
        "data": to_data(call),
        "type": 2,
        "nonce": 41,
        "chainId": "8453",
        "gas": "120000",
        "maxFee": "2000000000",
        "tip": "1000000",
    }
