"""The live demo's wallet signs and sends what a buyer agreed to, on its own chain, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from payd.chains.evm.authorization import Authorization, TokenDomain, typed_data
from payd.chains.evm.dialect import EvmDialect
from payd.chains.keystore import create
from payd.chains.rpc import Rpc, Sent, Verdict
from payd.cli.chain_wallet import Landed
from payd.cli.evm_wallet import EvmWallet, read_wallet
from payd.cli.failure import Refused
from payd.core.caip import parse_asset, parse_chain

KEY = bytes(31) + b"\7"
ADDRESS: str = Account.from_key(KEY).address
SHOP = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
TOKEN = "0x5fbdb2315678afecb367f032d93f642f64180aa3"
CHAIN = 31337
OPTION = {"amount": {"value": "12500000"}}

AUTHORIZATION = Authorization(
    domain=TokenDomain("USD Coin", "2", CHAIN, TOKEN),
    sender=ADDRESS.lower(),
    recipient=SHOP.lower(),
    value=12_500_000,
    valid_before_s=2_000_000_000,
    nonce=bytes(range(32)),
)
TRANSACTION = {"from": ADDRESS, "to": SHOP, "data": "0x" + "ab" * 32, "value": hex(12_500_000)}
ANSWERS = {
    "eth_estimateGas": hex(20_000),
    "eth_gasPrice": hex(1000),
    "eth_maxPriorityFeePerGas": hex(10),
    "eth_getTransactionCount": hex(5),
}


class Nodes(Rpc):
    """Nodes that give these answers, and keep what they are asked and sent."""

    def __init__(self, answers: dict[str, str], verdict: Verdict = "ok") -> None:
        super().__init__(["http://127.0.0.1:1"], EvmDialect(CHAIN))
        self.verdict = verdict
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []
        self.sent: list[bytes] = []

    async def call(self, method: str, *params: Any, node: Any = None) -> Any:
        self.asked.append((method, *params))
        return self.answers[method]

    async def broadcast(self, raw: bytes) -> list[Sent]:
        self.sent.append(raw)
        return [Sent(self.nodes[0], self.verdict, "not this one")]


def wallet(nodes: Nodes | None = None, *, sends: bool = False) -> EvmWallet:
    return EvmWallet(KEY, parse_chain(f"eip155:{CHAIN}"), nodes or Nodes(ANSWERS), sends=sends)


def to_sign(typed: dict[str, Any]) -> dict[str, Any]:
    return {"method": "eth_signTypedData_v4", "params": json.dumps([ADDRESS, json.dumps(typed)])}


def to_send(**changes: Any) -> dict[str, Any]:
    return {"method": "eth_sendTransaction", "params": json.dumps([{**TRANSACTION, **changes}])}


async def test_a_signature_is_that_of_the_wallets_key() -> None:
    typed = typed_data(AUTHORIZATION)
    signature = await wallet().do(OPTION, to_sign(typed))
    assert Account.recover_message(encode_typed_data(full_message=typed), signature=signature) == ADDRESS
    assert wallet().accounts == (f"eip155:{CHAIN}:{ADDRESS}",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda typed: typed["domain"].update(chainId=8453), "for another chain"),
        (lambda typed: typed["message"].update({"from": SHOP}), "for another account"),
        (lambda typed: typed["message"].update(value="12500001"), "for more than the option says"),
        (lambda typed: typed.update(primaryType="Permit"), "to sign Permit, which is no transfer"),
    ],
)
async def test_what_no_buyer_agreed_to_is_not_signed(
    change: Callable[[dict[str, Any]], object], words: str
) -> None:
    typed = copy.deepcopy(typed_data(AUTHORIZATION))
    change(typed)
    with pytest.raises(Refused, match=words):
        await wallet().do(OPTION, to_sign(typed))


async def test_a_transaction_is_sent_on_the_wallets_chain_and_named_by_its_hash() -> None:
    nodes = Nodes(ANSWERS)
    tx_hash = await wallet(nodes).do(OPTION, to_send())
    [raw] = nodes.sent
    assert Account.recover_transaction(raw) == ADDRESS
    sent = decoded(raw)
    assert (sent["chainId"], sent["nonce"], sent["gas"]) == (CHAIN, 5, 25_000)
    assert (sent["maxFeePerGas"], sent["maxPriorityFeePerGas"]) == (2010, 10)
    assert (sent["to"], sent["value"], sent["data"]) == (SHOP.lower(), 12_500_000, "0x" + "ab" * 32)
    assert "0x" + keccak(raw).hex() == tx_hash


def decoded(raw: bytes) -> dict[str, Any]:
    """The fields of a transaction, by the library."""
    fields = dict(TypedTransaction.from_bytes(HexBytes(raw)).as_dict())
    return {**fields, "to": "0x" + bytes(fields["to"]).hex(), "data": "0x" + bytes(fields["data"]).hex()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"from": SHOP}, "from another account"), ({"value": hex(12_500_001)}, "more than the option says")],
)
async def test_what_no_buyer_agreed_to_is_not_sent(changes: dict[str, str], words: str) -> None:
    nodes = Nodes(ANSWERS)
    with pytest.raises(Refused, match=words):
        await wallet(nodes).do(OPTION, to_send(**changes))
    assert nodes.sent == []


async def test_a_transaction_that_no_node_takes_is_no_payment() -> None:
    with pytest.raises(Refused, match="No node took the transaction: not this one"):
        await wallet(Nodes(ANSWERS, "no_funds")).do(OPTION, to_send())


async def test_an_action_of_another_kind_is_refused() -> None:
    with pytest.raises(Refused, match="personal_sign"):
        await wallet().do(OPTION, {"method": "personal_sign", "params": "[]"})


def option(*methods: str) -> dict[str, Any]:
    return {"id": ",".join(methods), "actions": [{"method": method} for method in methods]}


SIGN, SEND, BOTH = (
    option("eth_signTypedData_v4"),
    option("eth_sendTransaction"),
    option("eth_sendTransaction", "eth_signTypedData_v4"),
)


async def test_it_takes_what_is_paid_the_way_it_wants_to_pay() -> None:
    assert await wallet().choose([BOTH, SEND, SIGN]) == SIGN
    assert await wallet(sends=True).choose([BOTH, SIGN, SEND]) == SEND


@pytest.mark.parametrize(
    ("sends", "options", "words"),
    [(False, [SEND], "transaction instead: --send"), (True, [SIGN, BOTH], "Leave --send out")],
)
async def test_without_such_an_option_it_says_what_would_be_one(
    sends: bool, options: Sequence[dict[str, Any]], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        await wallet(sends=sends).choose(options)


async def test_a_balance_is_that_of_the_coin_or_of_the_token() -> None:
    nodes = Nodes({"eth_getBalance": "0x7", "eth_call": "0x" + f"{9:064x}"})
    assert await wallet(nodes).balance(parse_asset(f"eip155:{CHAIN}/slip44:60"), ADDRESS) == 7
    assert await wallet(nodes).balance(parse_asset(f"eip155:{CHAIN}/erc20:{TOKEN}"), ADDRESS) == 9
    method, asked, _ = nodes.asked[-1]
    assert (method, asked["to"]) == ("eth_call", TOKEN)
    assert asked["data"].endswith(ADDRESS[2:].lower())


@pytest.mark.parametrize(
    ("sender", "status", "landed"),
    [
        (ADDRESS.lower(), "0x1", Landed(True, "block 16 has it; the wallet paid the gas")),
        (SHOP.lower(), "0x1", Landed(True, "block 16 has it; the relayer paid the gas")),
        (SHOP.lower(), "0x0", Landed(False, "block 16 has it; the relayer paid the gas")),
    ],
)
async def test_what_the_chain_has_of_a_transaction_is_told(sender: str, status: str, landed: Landed) -> None:
    nodes = Nodes({"eth_blockNumber": "0x11", "eth_getTransactionReceipt": "null"})
    nodes.answers["eth_getTransactionReceipt"] = {  # type: ignore[assignment]
        "from": sender,
        "status": status,
        "blockNumber": "0x10",
    }
    assert await wallet(nodes).landed("0x1") == landed
    assert await wallet(nodes).head() == "at block 17"


async def test_of_a_transaction_that_no_node_knows_nothing_is_told() -> None:
    nodes = Nodes({"eth_getTransactionReceipt": None})  # type: ignore[dict-item]
    assert await wallet(nodes).landed("0x1") is None


@pytest.fixture
def keystore(tmp_path: Path) -> Path:
    """A wallet, and its password beside it."""
    create(tmp_path / "buyer.json", "secret", small=True, entropy=lambda count: KEY[:count])
    (tmp_path / "buyer.password").write_text("secret\n")
    return tmp_path / "buyer.json"


def test_a_wallet_is_opened_with_its_password_or_refused(keystore: Path) -> None:
    assert read_wallet(keystore, keystore.with_suffix(".password")) == KEY
    keystore.with_suffix(".password").write_text("another\n")
    with pytest.raises(Refused, match="does not open"):
        read_wallet(keystore, keystore.with_suffix(".password"))
    with pytest.raises(Refused, match="There is no wallet"):
        read_wallet(keystore.with_name("other.json"), None)


def test_without_a_file_the_password_is_asked_for_and_not_shown(
    keystore: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with CliRunner().isolation(input="secret\n") as (output, *_):
        assert read_wallet(keystore, None) == KEY
    assert b"secret" not in output.getvalue()
