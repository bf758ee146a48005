"""What a wallet is asked to do in the test realm: the same calls as for real funds, by the kind of asset.

Every action is bound to its payment by a domain-separated hash of the payment's id, never by the id itself,
which is a capability. ABI words are written by hand: they have a fixed width, so no library is needed.

Source: DESIGN.md, "9. Test realm"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec

from payd.chains.assets import Asset, find_asset
from payd.chains.simulated_solana import U64_MAX, SplToken, decode_key, transfer_transaction
from payd.core.caip import AccountId, AssetId, canonical_asset, parse_asset
from payd.core.errors import InvalidParams
from payd.core.option import Action, Build, WalletRpc
from payd.core.payment import Payment

# What a simulated asset has when payd does not know it.
UNKNOWN_DECIMALS: Final = 6

# A signature outlives its payment by this long, so that a confirm in the last second can still be relayed.
SIGNATURE_GRACE_S: Final = 300

PERMIT2: Final = "0x000000000022D473030F116dDEE9F6B43aC78BA3"

_UINT256_MAX: Final = 2**256 - 1
_EVM_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{40}")
_TRANSFER: Final = "a9059cbb"  # transfer(address,uint256)
_APPROVE: Final = "095ea7b3"  # approve(address,uint256)
_PERMIT2_BUILD: Final = "permit2:"


class Transfer(msgspec.Struct, frozen=True):
    """A transfer that a wallet is asked to make. `amount` in minor units of the asset."""

    payment: Payment
    asset: AssetId
    buyer: AccountId
    destination: AccountId
    amount: int


def binding(payment_id: str, purpose: str) -> bytes:
    """32 bytes that stand for the payment wherever its id must not be seen."""
    return hashlib.sha256(f"payd:{purpose}:v1:{payment_id}".encode()).digest()


def actions_for(transfer: Transfer) -> tuple[Action, ...] | None:
    """What the wallet must do, in order; None when no transaction can carry the amount."""
    asset = _canonical(transfer.asset)
    known = find_asset(transfer.asset)
    match asset.chain.namespace:
        case "eip155":
            return _evm_actions(transfer, asset, known)
        case "solana":
            return _solana_actions(transfer, asset, known)
        case _:
            return (_message(transfer, asset),)


def resolve_build(transfer: Transfer, data: str) -> tuple[WalletRpc, ...]:
    """The calls behind a build action: an approval, and the signature that uses it.

    Raises:
        InvalidParams: `data` belongs to no build action of this transfer.
    """
    if data != _build_data(transfer.payment.id):
        raise InvalidParams(
            "This is not the data of the option's build action. Send it as it was handed out."
        )
    asset = _canonical(transfer.asset)
    approval = "0x" + _APPROVE + _address_word(PERMIT2) + _word(transfer.amount)
    call = {"from": transfer.buyer.address, "to": _contract(asset), "data": approval, "value": "0x0"}
    return (_rpc(asset, "eth_sendTransaction", [call]), _permit(transfer, asset))


def executed_actions(transfer: Transfer, actions: tuple[Action, ...]) -> tuple[WalletRpc, ...]:
    """The actions a wallet has results for: each build action is replaced by what it resolves into.

    Raises:
        InvalidParams: A build action is not one of this transfer.
    """
    executed: list[WalletRpc] = []
    for action in actions:
        executed += resolve_build(transfer, action.data) if isinstance(action, Build) else (action,)
    return tuple(executed)


def _evm_actions(transfer: Transfer, asset: AssetId, known: Asset | None) -> tuple[Action, ...] | None:
    destination = transfer.destination.address
    token = asset.namespace == "erc20" and _is_evm_address(asset.reference)
    coin = asset.namespace == "slip44"
    if not (token or coin) or not _is_evm_address(destination) or not _is_evm_address(transfer.buyer.address):
        return (_message(transfer, asset),)
    if transfer.amount > _UINT256_MAX:
        return None
    if known is not None and known.kind == "eip3009":
        return (_authorization(transfer, asset, known),)
    if known is not None and known.permit2:
        return (Build(_build_data(transfer.payment.id)),)
    tag = binding(transfer.payment.id, "tag").hex()
    to, data, value = destination, "0x" + tag, transfer.amount
    if token:
        to, value = _contract(asset), 0
        data = "0x" + _TRANSFER + _address_word(destination) + _word(transfer.amount) + tag
    call = {"from": transfer.buyer.address, "to": to, "data": data, "value": hex(value)}
    return (_rpc(asset, "eth_sendTransaction", [call]),)


def _solana_actions(transfer: Transfer, asset: AssetId, known: Asset | None) -> tuple[Action, ...] | None:
    buyer = decode_key(transfer.buyer.address)
    destination = decode_key(transfer.destination.address)
    coin = asset.namespace == "slip44"
    mint = decode_key(asset.reference) if asset.namespace == "token" else None
    if buyer is None or destination is None or not (coin or mint):
        return (_message(transfer, asset),)
    if transfer.amount > U64_MAX:
        return None
    token = None
    if mint is not None:
        decimals = UNKNOWN_DECIMALS if known is None else known.decimals
        token = SplToken(mint, decimals, token_2022=known is not None and known.token_2022)
    transaction = transfer_transaction(
        buyer,
        destination,
        transfer.amount,
        token,
        tag=binding(transfer.payment.id, "tag"),
        blockhash=binding(transfer.payment.id, "blockhash"),
    )
    return (_rpc(asset, "solana_signTransaction", [{"transaction": transaction}]),)


def _message(transfer: Transfer, asset: AssetId) -> WalletRpc:
    """A message to sign, for what payd knows no transaction of."""
    words = (
        f"Pay {transfer.amount} minor units of {transfer.asset} to {transfer.destination}\n"
        f"Reference: {binding(transfer.payment.id, 'message').hex()}"
    )
    return _rpc(asset, "personal_sign", ["0x" + words.encode().hex(), transfer.buyer.address])


def _authorization(transfer: Transfer, asset: AssetId, known: Asset) -> WalletRpc:
    """EIP-3009: a signed transfer to the destination itself; whoever submits it can change nothing."""
    assert known.domain is not None
    typed = {
        "types": {
            "EIP712Domain": _fields(
                "string name, string version, uint256 chainId, address verifyingContract"
            ),
            "TransferWithAuthorization": _fields(
                "address from, address to, uint256 value, "
                "uint256 validAfter, uint256 validBefore, bytes32 nonce"
            ),
        },
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": known.domain.name,
            "version": known.domain.version,
            "chainId": int(asset.chain.reference),
            "verifyingContract": _contract(asset),
        },
        "message": {
            "from": transfer.buyer.address,
            "to": transfer.destination.address,
            "value": str(transfer.amount),
            "validAfter": "0",
            "validBefore": str(_signature_until_s(transfer.payment)),
            "nonce": "0x" + binding(transfer.payment.id, "eip3009").hex(),
        },
    }
    return _sign_typed(transfer, asset, typed)


def _permit(transfer: Transfer, asset: AssetId) -> WalletRpc:
    """Permit2, with the destination as the only one who can use the signature."""
    typed = {
        "types": {
            "EIP712Domain": _fields("string name, uint256 chainId, address verifyingContract"),
            "PermitTransferFrom": _fields(
                "TokenPermissions permitted, address spender, uint256 nonce, uint256 deadline"
            ),
            "TokenPermissions": _fields("address token, uint256 amount"),
        },
        "primaryType": "PermitTransferFrom",
        "domain": {"name": "Permit2", "chainId": int(asset.chain.reference), "verifyingContract": PERMIT2},
        "message": {
            "permitted": {"token": _contract(asset), "amount": str(transfer.amount)},
            "spender": transfer.destination.address,
            "nonce": str(int.from_bytes(binding(transfer.payment.id, "permit2"), "big")),
            "deadline": str(_signature_until_s(transfer.payment)),
        },
    }
    return _sign_typed(transfer, asset, typed)


def _sign_typed(transfer: Transfer, asset: AssetId, typed: dict[str, Any]) -> WalletRpc:
    text = msgspec.json.encode(typed).decode()
    return _rpc(asset, "eth_signTypedData_v4", [transfer.buyer.address, text])


def _rpc(asset: AssetId, method: str, params: list[Any]) -> WalletRpc:
    return WalletRpc(str(asset.chain), method, params)


def _fields(declaration: str) -> list[dict[str, str]]:
    """The fields of an EIP-712 struct, written as Solidity writes them: a type and a name each."""
    pairs = (field.split(" ") for field in declaration.split(", "))
    return [{"name": name, "type": kind} for kind, name in pairs]


def _contract(asset: AssetId) -> str:
    """The token's address, with its checksum where payd knows the token."""
    known = find_asset(asset)
    return asset.reference if known is None else parse_asset(known.asset).reference


def _canonical(asset: AssetId) -> AssetId:
    return parse_asset(canonical_asset(asset))


def _build_data(payment_id: str) -> str:
    return _PERMIT2_BUILD + binding(payment_id, "permit2").hex()


def _signature_until_s(payment: Payment) -> int:
    return payment.expires_at_ms // 1000 + SIGNATURE_GRACE_S


def _is_evm_address(text: str) -> bool:
    return _EVM_ADDRESS.fullmatch(text) is not None


def _address_word(address: str) -> str:
    return address[2:].lower().rjust(64, "0")


def _word(value: int) -> str:
    return f"{value:064x}"
