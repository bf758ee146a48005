"""What several nodes show of a transfer, each by its own data; a proof takes two, where there are two.

A status alone proves nothing. The transfer must follow from the balances in the node's own copy of the
transaction, in the slot where it was found, and with the commitment that is asked for.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import structlog
from solders.pubkey import Pubkey

from payd.chains.asking import answered
from payd.chains.following import is_account
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.answers import Landed, decode_count, decode_landed, decode_statuses
from payd.chains.solana.asking import FIRST_SLOT_CALL, slot_call, statuses_call, transaction_call
from payd.chains.solana.proof import Watched, paid_by
from payd.chains.solana.terms import Commitment
from payd.chains.solana.track import Track
from payd.chains.witnesses import Proof, View, Witnesses
from payd.core.caip import parse_account, parse_asset
from payd.store.sightings import Sighting

log = structlog.get_logger("payd.chains")

NATIVE: Final = "slip44"


class Evidence(Witnesses):
    """The evidence on one chain."""

    async def prove(
        self, sighting: Sighting, track: Track, depth: Commitment, payer: str | None = None
    ) -> Proof:
        """Whether a stored transfer is what a payment was committed to, and has come so far.

        Where the nodes that are asked first do not agree, all are; then enough of them must.

        Args:
            sighting: The transfer.
            track: The notes of the commitment.
            depth: So far.
            payer: CAIP-10 of who must have paid, where the chain alone tells of it; None: whoever.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        calls = [transaction_call(sighting.tx_id, "confirmed")]
        if depth == "finalized":
            calls.append(transaction_call(sighting.tx_id, "finalized"))
        return await self.weigh(
            sighting.tx_id, calls, lambda results: self._view(sighting, track, payer, results)
        )

    async def deny(self, sighting: Sighting) -> bool:
        """Whether enough nodes have what came after a stored transfer as final, and not the transfer.

        Then whoever showed it was wrong, or a fork took it. It may land again, and is then found again.
        """
        calls = [
            slot_call("finalized"),
            FIRST_SLOT_CALL,
            transaction_call(sighting.tx_id, "confirmed"),
            statuses_call([sighting.tx_id]),
        ]
        answers = await self._rpc.ask_all(calls)
        return sum(self._denies(sighting, results) for _, results in answers) >= self.witnesses

    def _denies(self, sighting: Sighting, results: Results) -> bool:
        try:
            final = decode_count(answered(results[0]), "the slot")
            first = decode_count(answered(results[1]), "the first slot")
            if not first <= sighting.block_number <= final:
                return False
            landed = decode_landed(answered(results[2]), sighting.tx_id)
            known_at, [status] = decode_statuses(answered(results[3]), 1)
            if landed is None or status is None:
                # Behind one address may be several nodes: one that lags knows no status yet.
                return landed is None and status is None and known_at >= final
            if status.commitment != "finalized" or status.slot != landed.slot:
                return False
            return not self._has_paid(sighting, landed)
        except BadAnswer:
            return False

    def _has_paid(self, sighting: Sighting, landed: Landed) -> bool:
        """Whether a transaction moved what is stored of it, where it is stored."""
        if landed.slot != sighting.block_number:
            return False
        paid = paid_by(self._chain, landed, watched_for(sighting.asset, sighting.recipient), set())
        return any((one.account_index, one.value) == (sighting.log_index, sighting.value) for one in paid)

    def _view(self, sighting: Sighting, track: Track, payer: str | None, results: Results) -> View:
        try:
            landed = decode_landed(answered(results[0]), sighting.tx_id)
            if landed is None or not self._shows(sighting, track, payer, landed):
                return View(False, False)
            last = landed if len(results) == 1 else _landed_or_none(results[1])
            return View(True, last is not None and last.slot == landed.slot)
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=str(self._chain), why=str(bad))
            return View(False, False)

    def _shows(self, sighting: Sighting, track: Track, payer: str | None, landed: Landed) -> bool:
        """Whether it has the transfer that was committed, where it is stored."""
        if landed.slot != sighting.block_number:
            return False
        watched = watched_for(track.asset, track.recipient)
        for one in paid_by(self._chain, landed, watched, {(track.reference, track.asset)}):
            same = (one.asset, one.recipient, str(one.value)) == (track.asset, track.recipient, track.value)
            is_bound = one.binding == track.reference or sighting.assigned
            if same and one.account_index == sighting.log_index and is_bound:
                return payer is None or is_account(payer, one.sender)
        return False


def watched_for(asset: str, recipient: str) -> Watched:
    """One asset and one recipient, both canonical."""
    parsed, owners = parse_asset(asset), {Pubkey.from_string(parse_account(recipient).address)}
    if parsed.namespace == NATIVE:
        return Watched(owners=owners, mints={}, native=asset)
    return Watched(owners=owners, mints={Pubkey.from_string(parsed.reference): asset}, native=None)


def _landed_or_none(result: object) -> Landed | None:
    # A node without that commitment shows the transfer all the same.
    try:
        return decode_landed(answered(result))
    except BadAnswer:
        return None
