"""Whether a wallet's results pay a quote on an EVM chain: signatures or a transaction, by what was asked for.

The actions that were stored with the quote decide, and not what the configuration says today.

Source: SPEC.md, "POST /v1/gateway/payment/{id}/confirm"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence

from payd.chains.base import Misaligned, Refused, Verdict
from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.results import read_signature, read_tx_hash
from payd.chains.evm.signed import Signed
from payd.chains.evm.told import Sent
from payd.core.errors import InvalidParams
from payd.core.option import Quote, Result
from payd.core.payment import Payment


class Checks:
    """The checks of one chain.

    Args:
        signed: Checks signatures.
        sent: Checks transactions.
    """

    def __init__(self, signed: Signed, sent: Sent) -> None:
        self._signed = signed
        self._sent = sent

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay a quote; has no effect on the chain.

        Raises:
            ChainUnavailable: No node answers.
        """
        if len(results) != len(quote.actions):
            return Misaligned()
        asked = read_actions(quote.actions)
        try:
            if isinstance(asked, Sending):
                tx_hash = read_tx_hash(results[0])
                return await self._sent.check(payment, quote, asked, tx_hash, now_ms)
            signatures = [read_signature(result) for result in results]
            return await self._signed.check(payment, quote, asked, signatures, now_ms)
        except InvalidParams as unusable:
            return Refused(unusable)
