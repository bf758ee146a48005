"""What a landed transaction paid, and for which payment: changes of balances, each with its binding.

What counts is what a wallet has more of afterwards, summed over its token accounts, and not what instructions
say. A binding is a reference key among the accounts together with its memo at the top of the transaction.
Both are the word of who sent it, who can name more than one; yet no transfer has more than one binding, and
no binding more than one transfer. What was minted for a wallet has no payer, and takes none: a bridge mints
for whoever brings it its message, and with whatever beside it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
from solders.pubkey import Pubkey

from payd.chains.solana.answers import Landed, TokenBalance
from payd.chains.solana.binding import memo_of
from payd.chains.solana.keys import MEMO, MEMO_V1, SYSTEM, TOKEN_PROGRAMS
from payd.core.caip import AccountId, ChainId

Known: TypeAlias = Collection[tuple[bytes, str]]
"""Bindings that were handed out, each with the canonical asset that it was handed out for."""

_MEMO_PROGRAMS: Final = (MEMO, MEMO_V1)
# `Transfer` and `TransferChecked` of the token programs, each with how many accounts stand between the one
# that it takes from and who signs; and `Transfer` of the System program.
_TOKEN_TRANSFERS: Final = {b"\x03": 1, b"\x0c": 2}
_SOL_TRANSFER: Final = b"\x02\x00\x00\x00"


class Watched(msgspec.Struct, frozen=True):
    """What is looked for on a chain.

    Attributes:
        owners: Wallets that are paid.
        mints: Tokens, each with its canonical CAIP-19.
        native: The canonical CAIP-19 of SOL; None: it is not looked for.
    """

    owners: Collection[Pubkey]
    mints: Mapping[Pubkey, str]
    native: str | None = None


class Paid(msgspec.Struct, frozen=True):
    """What a wallet has more of.

    Attributes:
        asset: Canonical CAIP-19.
        sender: Canonical CAIP-10 of the wallet that the transfer with the binding takes from; where the
            transaction itself has no such one, of who has the most less of it, fees aside.
        recipient: Canonical CAIP-10.
        value: Smallest units, more than 0.
        account_index: The place, among the transaction's keys, of the account that received: a token account
            or the wallet itself, and of several the first.
        binding: The payment's, if something binds it to one.
    """

    asset: str
    sender: str
    recipient: str
    value: int
    account_index: int
    binding: bytes | None = None


class _Moved(msgspec.Struct, frozen=True):
    """Paid, before it is bound: `places` are all accounts that received; `is_minted`: nobody gave it."""

    asset: str
    sender: Pubkey
    recipient: Pubkey
    value: int
    places: tuple[int, ...]
    is_minted: bool = False


def candidate_bindings(landed: Landed) -> tuple[bytes, ...]:
    """What could bind a transfer of it to a payment: keys whose memo it has, in the order of its keys."""
    memos = _memos(landed)
    if not memos:
        return ()
    return tuple(key for one in landed.keys if memo_of(key := bytes(one)).encode() in memos)


def paid_by(chain: ChainId, landed: Landed, watched: Watched, known: Known) -> list[Paid]:
    """What watched wallets have more of, tokens first, each in the order of the transaction's keys.

    Nothing where it failed: then only its fee has moved.
    """
    if landed.err is not None:
        return []
    moved = [*_tokens(landed, watched), *_native(landed, watched)]
    bindings = _bindings(landed, moved, known)
    return [
        Paid(
            asset=one.asset,
            sender=str(AccountId(chain, str(_payer(landed, one, bindings.get(place)) or one.sender))),
            recipient=str(AccountId(chain, str(one.recipient))),
            value=one.value,
            account_index=one.places[0],
            binding=bindings.get(place),
        )
        for place, one in enumerate(moved)
    ]


def _tokens(landed: Landed, watched: Watched) -> list[_Moved]:
    """Of each token and owner, by the owners that the chain shows before and after."""
    found = []
    for mint, asset in watched.mints.items():
        changes, places = _changes(landed, mint)
        is_more = _total(landed.post_tokens, mint) > _total(landed.pre_tokens, mint)
        for owner, value in changes.items():
            if owner in watched.owners and value > 0:
                sender, own = _sender(changes, landed), tuple(sorted(places[owner]))
                is_minted = is_more and _given(landed, own) < value
                found.append(_Moved(asset, sender, owner, value, own, is_minted))
    return sorted(found, key=lambda one: one.places)


def _total(balances: Iterable[TokenBalance], mint: Pubkey) -> int:
    return sum(one.amount for one in balances if one.mint == mint)


def _given(landed: Landed, places: Collection[int]) -> int:
    """What transfers at the top of the transaction bring to token accounts.

    So somebody may have what he then pays with minted, or wrapped, on the way.
    """
    given = 0
    for instruction in landed.message.instructions:
        if landed.keys[instruction.program_id_index] not in TOKEN_PROGRAMS:
            continue
        data, accounts = bytes(instruction.data), tuple(instruction.accounts)
        # Right before who signs stands where it goes; what else is named behind gets nothing.
        at = _TOKEN_TRANSFERS.get(data[:1], len(accounts))
        if at < len(accounts) and accounts[at] in places:
            given += int.from_bytes(data[1:9], "little")
    return given


def _changes(landed: Landed, mint: Pubkey) -> tuple[dict[Pubkey, int], dict[Pubkey, list[int]]]:
    """What each owner of a token has more or less of it, and in which accounts the more arrived."""
    changes: dict[Pubkey, int] = defaultdict(int)
    places: dict[Pubkey, list[int]] = defaultdict(list)
    before = {(one.index, one.owner): one.amount for one in landed.pre_tokens if one.mint == mint}
    for sign, balances in ((-1, landed.pre_tokens), (1, landed.post_tokens)):
        for one in _owned(balances, mint):
            assert one.owner is not None
            changes[one.owner] += sign * one.amount
            if sign == 1 and one.amount > before.get((one.index, one.owner), 0):
                places[one.owner].append(one.index)
    return changes, places


def _owned(balances: Iterable[TokenBalance], mint: Pubkey) -> list[TokenBalance]:
    return [one for one in balances if one.mint == mint and one.owner is not None]


def _native(landed: Landed, watched: Watched) -> list[_Moved]:
    if watched.native is None:
        return []
    changes = {
        key: after - before for key, before, after in zip(landed.keys, landed.pre, landed.post, strict=True)
    }
    found = [
        _Moved(watched.native, landed.keys[0], key, changes[key], (place,))
        for place, key in enumerate(landed.keys)
        if key in watched.owners and changes[key] > 0
    ]
    changes[landed.keys[0]] += landed.fee
    sender = _sender(changes, landed)
    return [msgspec.structs.replace(one, sender=sender) for one in found]


def _sender(changes: Mapping[Pubkey, int], landed: Landed) -> Pubkey:
    """Who has the most less; whoever sent the transaction, where nobody has: then it was minted."""
    least = min(changes, key=lambda key: changes[key])
    return least if changes[least] < 0 else landed.keys[0]


def _bindings(landed: Landed, moved: list[_Moved], known: Known) -> dict[int, bytes]:
    """Bindings by the places of what they bind, each once.

    First to what its own instruction pays, then to whatever else its asset fits.
    """
    found: dict[int, bytes] = {}
    handed_out = set(known)
    named = _named_with(landed)
    for is_sure in (True, False):
        for binding in candidate_bindings(landed):
            if binding in found.values():
                continue
            for place, one in enumerate(moved):
                is_free = place not in found and not one.is_minted
                is_tied = bool(named[binding] & set(one.places))
                if is_free and (binding, one.asset) in handed_out and is_tied >= is_sure:
                    found[place] = binding
                    break
    return found


def _payer(landed: Landed, moved: _Moved, binding: bytes | None) -> Pubkey | None:
    """Whose account the transfers with a binding take the most from; None where no instruction is such.

    Who has the most less may be another payer of the same transaction, or the pool of an exchange that gave
    the payer what was paid with.
    """
    if binding is None:
        return None
    owners = {one.index: one.owner for one in (*landed.post_tokens, *landed.pre_tokens)}
    taken: dict[Pubkey, int] = defaultdict(int)
    for instruction in landed.message.instructions:
        source, *others = tuple(instruction.accounts) or (len(landed.keys),)
        names = {bytes(landed.keys[place]) for place in others if place < len(landed.keys)}
        if source >= len(landed.keys) or binding not in names or not set(others) & set(moved.places):
            continue
        program, data = landed.keys[instruction.program_id_index], bytes(instruction.data)
        if program in TOKEN_PROGRAMS and data[:1] in _TOKEN_TRANSFERS:
            # An account that came and went in the transaction shows no owner: who signs for it is that one.
            signer = next((landed.keys[place] for place in others[_TOKEN_TRANSFERS[data[:1]] :]), None)
            payer, amount = owners.get(source) or signer, data[1:9]
        elif program == SYSTEM and data[:4] == _SOL_TRANSFER:
            payer, amount = landed.keys[source], data[4:12]
        else:
            continue
        if payer is not None:
            taken[payer] += int.from_bytes(amount, "little")
    return max(taken, key=lambda payer: taken[payer], default=None)


def _named_with(landed: Landed) -> dict[bytes, set[int]]:
    """By each key, the places of the accounts that an instruction names together with it."""
    found: dict[bytes, set[int]] = defaultdict(set)
    for instruction in landed.message.instructions:
        places = set(instruction.accounts)
        for place in places:
            if place < len(landed.keys):
                found[bytes(landed.keys[place])] |= places
    return found


def _memos(landed: Landed) -> set[bytes]:
    """What memos at the top of the transaction say."""
    return {
        bytes(one.data)
        for one in landed.message.instructions
        if landed.keys[one.program_id_index] in _MEMO_PROGRAMS
    }
