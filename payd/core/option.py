"""A way to pay: options, quotes, the actions a wallet must do, and whether its results match them.

Source: SPEC.md, "Payment option, action and result (gateway)".
Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from itertools import permutations
from typing import Any, Final, Literal

import base58
import msgspec

# One option never needs more: approve, sign, send. Bounds the search for swapped results.
ACTIONS_MAX: Final = 4

# A transfer still counts against a quote that ended this long before the transfer's block; and against one
# handed out this long after it, because a block's time is its producer's clock and the quote's is ours.
QUOTE_GRACE_MS: Final = 120_000

# A Solana transaction: a packet of 1232 bytes in base64, and each signature in it before the message.
SIGNED_CHARS_MAX: Final = 1644
SIGNATURE_BYTES: Final = 64
SIGNATURES_MAX: Final = 12

ACCOUNTS_MAX: Final = 100
OPTIONS_PER_ANSWER_MAX: Final = 50
OPTIONS_STORED_MAX: Final = 200

# Quotes of an option that are valid at once and say different things; a confirm is checked against them all.
QUOTES_VALID_MAX: Final = 8

_HASH: Final = re.compile("0[xX][0-9a-fA-F]{64}")


class WalletRpc(msgspec.Struct, frozen=True, tag="walletRpc", tag_field="type"):
    """One RPC call for the wallet. `params` is JSON as the wallet's RPC takes it."""

    chain_id: str
    method: str
    params: list[Any]


class Build(msgspec.Struct, frozen=True, tag="build", tag_field="type"):
    """Not executable: to be resolved by the fetch endpoint into one or more `WalletRpc`."""

    data: str


Action = WalletRpc | Build


class Display(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How people read an amount."""

    asset_symbol: str
    asset_name: str
    decimals: int
    icon_url: str | None = None
    network_name: str | None = None
    network_icon_url: str | None = None


class Offer(msgspec.Struct, frozen=True):
    """What a chain would take now, for one asset from one buyer account.

    Attributes:
        eta_s: About how long it takes from confirm to success.
        due: What of the amount reaches the destination; None: all of it.
        bindings: What transfers will carry, 32 bytes each; of chains that are read for them.
    """

    asset: str
    account: str
    amount: int
    actions: tuple[Action, ...]
    eta_s: int
    valid_until_ms: int
    due: int | None = None
    bindings: tuple[bytes, ...] = ()


class Quote(msgspec.Struct, frozen=True):
    """One hand-out of an option; immutable. Amounts are minor units of the asset.

    Attributes:
        due: What of the amount reaches the destination; None: all of it.
        eta_s: As in the offer, for the wallet that asked; None: the store does not keep it.
    """

    option_id: str
    payment_id: str
    asset: str
    account: str
    amount: int
    destination: str
    actions: tuple[Action, ...]
    valid_from_ms: int
    valid_until_ms: int
    due: int | None = None
    eta_s: int | None = None

    @property
    def settlement_value(self) -> int:
        """What reaches the destination when it is paid."""
        return self.amount if self.due is None else self.due

    def covers_transfer_at(self, block_at_ms: int) -> bool:
        """Whether a transfer in a block of this time counts against the quote."""
        return self.valid_from_ms - QUOTE_GRACE_MS <= block_at_ms <= self.valid_until_ms + QUOTE_GRACE_MS

    def says_the_same(self, other: Quote) -> bool:
        """Whether a wallet signs the same for both; how long they hold does not matter."""
        return (self.amount, self.destination, self.actions) == (
            other.amount,
            other.destination,
            other.actions,
        )

    @property
    def resolved(self) -> bool:
        """Whether a wallet can execute it as it is."""
        return all(isinstance(action, WalletRpc) for action in self.actions)


class Result(msgspec.Struct, frozen=True):
    """What a wallet did for one action."""

    type: Literal["walletRpc"]
    data: list[Any]


Alignment = Literal["aligned", "misaligned", "refused"]


def alignment(fits: Sequence[Sequence[bool]]) -> Alignment:
    """Whether results stand where their actions stand.

    Args:
        fits: `fits[a][r]` says whether result `r` verifies for action `a`; one row an action, one column a
        result.

    Returns:
        `aligned` when each result verifies in its own place; `misaligned` when the lengths differ, or all
        verify but in other places; `refused` when some result verifies nowhere it could be meant for.

    Source: SPEC.md, "POST /v1/gateway/payment/{id}/confirm", rule 1.
    """
    count = len(fits)
    if any(len(row) != count for row in fits) or count == 0:
        return "misaligned"
    assert count <= ACTIONS_MAX
    if all(fits[place][place] for place in range(count)):
        return "aligned"
    for order in permutations(range(count)):
        if all(fits[place][order[place]] for place in range(count)):
            return "misaligned"
    return "refused"


def hash_results(option_id: str, results: Sequence[Result]) -> bytes:
    """What identifies a confirm: the option and its results, in order. 32 bytes."""
    return hashlib.sha256(msgspec.json.encode([option_id, list(results)], order="sorted")).digest()


def told_transactions(results: Sequence[Result]) -> tuple[str, ...]:
    """The ids of transactions among results: hashes in lower case, first signatures of signed ones."""
    texts = (item for result in results for item in result.data if isinstance(item, str))
    found = (_told_hash(text) or _first_signature(text) for text in texts)
    return tuple(told for told in found if told is not None)


def _told_hash(text: str) -> str | None:
    """An EVM transaction hash: 0x and 64 hex digits."""
    return text.lower() if _HASH.fullmatch(text) else None


def _first_signature(text: str) -> str | None:
    """What names a signed Solana transaction, of its base64; None where the fee payer has not signed."""
    if len(text) > SIGNED_CHARS_MAX:
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    if not raw or not 1 <= raw[0] <= SIGNATURES_MAX or len(raw) <= 1 + raw[0] * SIGNATURE_BYTES:
        return None
    signature = raw[1 : 1 + SIGNATURE_BYTES]
    return base58.b58encode(signature).decode() if any(signature) else None
