"""One node: its POSTs of JSON-RPC calls, its health, its back-off, and whether it is of the right chain.

A URL often has a key in it. Nothing here shows more of one than scheme and host.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import structlog
import trio

from payd import __version__
from payd.chains.dialect import Dialect, Identity
from payd.chains.rpc_errors import NodesDown, RpcError
from payd.chains.rpc_wire import (
    AnswerTooLong,
    Call,
    Fault,
    Redactor,
    Results,
    TooManyCalls,
    encode,
    read_results,
)
from payd.core.retry import read_date_s
from payd.net.http import Client, Target

log = structlog.get_logger("payd.rpc")

DEADLINE_S: Final = 10.0
# A node that was down is asked who it is first; it may not keep a payment waiting for long.
CHECK_DEADLINE_S: Final = 5.0
BODY_WAIT_S: Final = 15.0
# Blocks with all their transactions have a few MiB, logs of a wide range more.
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
# Who gets so much of an answer and not all of it asks for less at once: what anybody sends to an account that
# is watched can be answered with a megabyte each, and must not stand in the way of everything else.
LONG_BYTES: Final = 1024 * 1024
# Providers refuse longer batches; some take only a few calls, which is learnt from their refusal.
BATCH_MAX: Final = 100
# So long that is believed. A node in trouble refuses in the same words: of a few such moments in a year, each
# would halve what it is given, and soon leave it one call a POST.
BATCH_LEARNT_S: Final = 3600.0
# Providers count the calls of a batch each for itself. Who has answered some of them is waited for so long,
# at first for a second.
LIMITED_S: Final = 60.0
LIMITED_FIRST_S: Final = 1.0
# Who answered none of them gets shorter ones for so long, which is longer than it is put aside.
LIMITED_LEARNT_S: Final = 600.0
# POSTs at once to one node; more wait their turn.
POSTS_MAX: Final = 32
BACKOFF_MIN_S: Final = 0.5
BACKOFF_MAX_S: Final = 60.0

_HEADERS: Final = (
    ("content-type", "application/json"),
    ("accept", "application/json"),
    ("user-agent", f"payd/{__version__}"),
)


class Node:
    """One URL.

    Args:
        url: http or https; path and query may hold a key.
        dialect: Of the chain that it must be of.
        client: Sends its requests.
        calls: Counts every call by method, here and in whoever gave it.
        name: What logs call it.
        deadline_s: Seconds for one request, up to its answer's status line.

    Attributes:
        failures: In a row, each with a longer back-off; many requests that fail together are one.
        failures_ever: All of them.
        is_verified: Whether it has said since its last failure that it is of the right chain.
        last_error: Why it is not healthy, or was not; empty: it never failed.
        head: The highest block number that it named last; None: none yet.
        head_at_s: When, by Trio's clock.
        clock_ahead_s: Seconds that its clock was ahead of Trio's, by the `Date` of its last answer; None
            where that had none.
        posts: How many requests went to it.

    Raises:
        InvalidParams: The URL cannot be called.
    """

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        *,
        client: Client,
        calls: Counter[str],
        name: str,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._target = Target.of(url)
        self._redact = Redactor(url)
        self._dialect = dialect
        self._client = client
        self._calls = calls
        self._deadline_s = deadline_s
        self._room = trio.Semaphore(POSTS_MAX)
        self._check = trio.Lock()
        self._next_id = 1
        self._batch_max = BATCH_MAX
        self._batch_until_s = -float("inf")
        self._aside_until_s = -float("inf")
        self._rests_until_s = -float("inf")
        self._other_chain: Identity | None = None
        self.name = name
        self.failures = 0
        self.failures_ever = 0
        self.is_verified = False
        self.last_error = ""
        self.head: int | None = None
        self.head_at_s: float | None = None
        self.clock_ahead_s: float | None = None
        self.posts = 0

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    @property
    def is_healthy(self) -> bool:
        """Whether it may be asked like any other: it is not put aside, or not any more."""
        return trio.current_time() >= self._aside_until_s

    @property
    def is_usable(self) -> bool:
        """Whether it may be asked where no other answers: of our chain, and not resting at its own wish."""
        now_s = trio.current_time()
        return now_s >= self._rests_until_s and (self._other_chain is None or self.is_healthy)

    @property
    def is_on_trial(self) -> bool:
        """Whether it is being asked right now who it is: others are quicker."""
        return self._check.locked()

    @property
    def aside_s(self) -> float:
        """How long it stays put aside; 0 for a healthy one."""
        return max(0.0, self._aside_until_s - trio.current_time())

    async def ask(self, calls: Sequence[Call], *, waits: bool = True) -> Results:
        """The results of the calls, in order, in as many POSTs as its batches need.

        Args:
            calls: Of one series of reads.
            waits: Where it answers some and limits the others, they are asked for later, within `LIMITED_S`.

        Raises:
            Fault: It gave no answer, or not to all of them, or it is of another chain; it is put aside.
        """
        if self._other_chain is not None and not self.is_healthy:
            raise Fault(self.last_error)
        failures = self.failures_ever
        try:
            async with self._room:
                await self._verify(failures)
                results = await self._ask(calls, self._deadline_s, LIMITED_S if waits else 0.0)
        except Fault as fault:
            if self.failures_ever == failures:
                self._failed(fault)
            raise
        self._succeeded()
        self._note_heads(calls, results)
        return results

    async def _verify(self, failures: int) -> None:
        """Ask which chain it is of, once for all who wait for that."""
        if self.is_verified:
            return
        async with self._check:
            if self.failures_ever > failures:
                raise Fault(self.last_error)
            if not self.is_verified:
                await self._check_chain()

    async def _check_chain(self) -> None:
        wanted = self._dialect.chain
        [said] = await self._ask([self._dialect.identity_call], min(CHECK_DEADLINE_S, self._deadline_s))
        if isinstance(said, RpcError):
            raise Fault(f"it does not say which chain it is of: {said}")
        chain = self._dialect.identity_in(said)
        if chain is None:
            raise Fault("it does not say which chain it is of")
        if chain != wanted:
            if self._other_chain != chain:
                log.error("rpc.other_chain", node=self.name, chain_id=chain, wanted=wanted)
            self._other_chain = chain
            raise Fault(f"it is of chain {chain}, and not of {wanted}")
        self._other_chain, self.is_verified = None, True

    async def _ask(self, calls: Sequence[Call], deadline_s: float, limited_s: float = LIMITED_S) -> Results:
        results: Results = []
        most, is_refused, wait_s = len(calls), False, LIMITED_FIRST_S
        until_s = trio.current_time() + limited_s
        if trio.current_time() >= self._batch_until_s:
            self._batch_max = BATCH_MAX
        while len(results) < len(calls):
            chunk = calls[len(results) : len(results) + min(most, self._batch_max)]
            try:
                said = await self._post(chunk, deadline_s)
            except AnswerTooLong:
                most = len(chunk) // 2
            except TooManyCalls:
                most, is_refused = len(chunk) // 2, True
            except Fault as fault:
                if fault.patience_s is None:
                    raise
                if not results and len(chunk) > 1:
                    self._shorten(len(chunk) // 2, LIMITED_LEARNT_S)
                wait_s = max(wait_s, fault.patience_s)
                if not results or trio.current_time() + wait_s > until_s:
                    raise
                await trio.sleep(wait_s)
                wait_s *= 2
            else:
                results += said
                # Who refuses each call as well was in trouble, and takes as many as before once that is over.
                if is_refused and not all(isinstance(one, RpcError) for one in said):
                    self._shorten(len(chunk), BATCH_LEARNT_S)
                    is_refused = False
                wait_s = LIMITED_FIRST_S
                if len(said) < len(chunk):
                    if trio.current_time() + wait_s > until_s:
                        raise Fault("it answers too few calls a second", patience_s=0)
                    await trio.sleep(wait_s)
        return results

    def _shorten(self, calls_max: int, learnt_s: float) -> None:
        if self._batch_max == BATCH_MAX:
            self._batch_until_s = trio.current_time() + learnt_s
        if calls_max < self._batch_max:
            self._batch_max = calls_max
            log.info("rpc.batch_shortened", node=self.name, calls_max=calls_max)

    async def _post(self, calls: Sequence[Call], deadline_s: float) -> Results:
        first = self._next_id
        self._next_id += len(calls)
        self._calls.update(method for method, *_ in calls)
        self.posts += 1
        reply = await self._client.send(
            "POST",
            self._target,
            _HEADERS,
            encode(calls, first),
            deadline_s=deadline_s,
            body_bytes_max=BODY_BYTES_MAX,
            body_wait_s=BODY_WAIT_S,
        )
        date_s = read_date_s(reply.header("date"))
        self.clock_ahead_s = None if date_s is None else date_s - trio.current_time()
        if len(calls) > 1 and not reply.is_whole and len(reply.body) >= LONG_BYTES:
            raise AnswerTooLong
        return read_results(reply, calls, first, self._redact, self._dialect.kind_of)

    def _failed(self, fault: Fault) -> None:
        now_s = trio.current_time()
        # Asked though it was put aside, because no other answers: it has nothing more to show for that.
        is_early = now_s < self._aside_until_s and fault.patience_s is None
        if self.failures == 0:
            log.warning("rpc.node_down", node=self.name, chain_id=self._dialect.chain, why=fault.words)
        wait_s = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2.0 ** min(self.failures, 16))
        if fault.patience_s is not None:
            wait_s = max(wait_s, min(BACKOFF_MAX_S, fault.patience_s))
            self._rests_until_s = now_s + wait_s
        self.failures_ever += 1
        self.is_verified = False
        self.last_error = fault.words
        if not is_early:
            self.failures += 1
            self._aside_until_s = now_s + wait_s

    def _succeeded(self) -> None:
        if self.failures:
            log.info("rpc.node_up", node=self.name, chain_id=self._dialect.chain)
        self.failures = 0
        self._aside_until_s = self._rests_until_s = -float("inf")

    def _note_heads(self, calls: Sequence[Call], results: Results) -> None:
        for call, result in zip(calls, results, strict=True):
            number = self._dialect.head_in(call, result)
            if number is not None:
                self.head, self.head_at_s = number, trio.current_time()


def down(faults: Sequence[tuple[Node, str]]) -> NodesDown:
    """The refusal that names each node and what is wrong with it."""
    return NodesDown("; ".join(f"{node.name}: {words}" for node, words in faults) or "there is no node")


def names_of(urls: Sequence[str]) -> list[str]:
    """What logs call each URL: its scheme and host, with a number where two are the same."""
    names: list[str] = []
    for url in urls:
        target = Target.of(url)
        name = f"{target.scheme}://{target.authority}"
        again = sum(one == name or one.startswith(f"{name}#") for one in names)
        names.append(f"{name}#{again + 1}" if again else name)
    return names
