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
from payd.chains.evm.binding import transfer_call
from payd.chains.evm.codec import to_data
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
OPTION = {"amount": {"unit": f"caip19/eip155:{CHAIN}/erc20:{TOKEN}", "value": "12500000"}}
COINS = {"amount": {"unit": f"caip19/eip155:{CHAIN}/slip44:60", "value": "12500000"}}
MAX_FEE = 5000

AUTHORIZATION = Authorization(
    domain=TokenDomain("USD Coin", "2", CHAIN, TOKEN),
    sender=ADDRESS.lower(),
    recipient=SHOP.lower(),
    value=12_500_000,
    valid_before_s=2_000_000_000,
    nonce=bytes(range(32)),
)
TRANSACTION = {"from": ADDRESS, "to": SHOP, "data": "0x" + "ab" * 32, "value": hex(12_500_000)}
TOKENS = {"to": TOKEN, "value": "0x0", "data": to_data(transfer_call(SHOP, 12_500_000))}
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
    chain, nodes = parse_chain(f"eip155:{CHAIN}"), nodes or Nodes(ANSWERS)
    return EvmWallet(KEY, chain, nodes, sends=sends, max_fee_wei=MAX_FEE)


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
        (lambda typed: typed["domain"].update(verifyingContract=SHOP), "to pay in another token"),
    ],
)
async def test_what_no_buyer_agreed_to_is_not_signed(
    change: Callable[[dict[str, Any]], object], words: str
) -> None:
    typed = copy.deepcopy(typed_data(AUTHORIZATION))
    change(typed)
    with pytest.raises(Refused, match=words):
        await wallet().do(OPTION, to_sign(typed))


async def test_what_the_actions_of_one_option_pay_is_agreed_to_in_sum() -> None:
    buyer, typed = wallet(), copy.deepcopy(typed_data(AUTHORIZATION))
    for value in (12_000_000, 500_000):
        typed["message"]["value"] = str(value)
        await buyer.do(OPTION, to_sign(typed))
    for value in (1, -1):
        typed["message"]["value"] = str(value)
        with pytest.raises(Refused, match="for more than the option says"):
            await buyer.do(OPTION, to_sign(typed))

    await buyer.do({**OPTION}, to_sign(typed_data(AUTHORIZATION)))


async def test_a_transaction_is_sent_on_the_wallets_chain_and_named_by_its_hash() -> None:
    nodes = Nodes(ANSWERS)
    tx_hash = await wallet(nodes).do(COINS, to_send())
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


async def test_tokens_are_sent_as_the_option_says() -> None:
    nodes = Nodes(ANSWERS)
    await wallet(nodes).do(OPTION, to_send(**TOKENS))
    [raw] = nodes.sent
    assert (decoded(raw)["to"], decoded(raw)["value"]) == (TOKEN, 0)


@pytest.mark.parametrize(
    ("option", "changes", "words"),
    [
        (COINS, {"from": SHOP}, "from another account"),
        (COINS, {"value": hex(12_500_001)}, "more than the option says"),
        (COINS, {**TOKENS, "value": hex(1)}, "to call a contract"),
        (OPTION, {**TOKENS, "data": to_data(transfer_call(SHOP, 12_500_001))}, "more than the option says"),
        (OPTION, {**TOKENS, "to": SHOP}, "in another token"),
        (OPTION, {**TOKENS, "value": hex(1)}, "no transfer of tokens"),
        (OPTION, {**TOKENS, "data": "0x095ea7b3" + "ff" * 64}, "no transfer of tokens"),
    ],
)
async def test_what_no_buyer_agreed_to_is_not_sent(
    option: dict[str, Any], changes: dict[str, str], words: str
) -> None:
    nodes = Nodes(ANSWERS)
    with pytest.raises(Refused, match=words):
        await wallet(nodes).do(option, to_send(**changes))
    assert nodes.sent == []


@pytest.mark.parametrize("dear", ["eth_gasPrice", "eth_maxPriorityFeePerGas"])
async def test_no_node_has_the_wallet_offer_more_for_gas_than_its_chain_allows(dear: str) -> None:
    nodes = Nodes({**ANSWERS, dear: hex(MAX_FEE + 1)})
    with pytest.raises(Refused, match="max_fee_gwei"):
        await wallet(nodes).do(COINS, to_send())
    assert nodes.sent == []

    nodes = Nodes({**ANSWERS, dear: hex(MAX_FEE)})
    await wallet(nodes).do(COINS, to_send())
    assert decoded(nodes.sent[0])["maxFeePerGas"] == MAX_FEE


async def test_a_transaction_that_no_node_takes_is_no_payment() -> None:
    with pytest.raises(Refused, match="No node took the transaction: not this one"):
        await wallet(Nodes(ANSWERS, "no_funds")).do(COINS, to_send())


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
