"""What signs forwarded events: the endpoint's secrets of now, asked for again when they may have changed.

Source: SPEC.md, "Signature"; DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from payd.cli.feed_connection import Unanswered
from payd.cli.following import State, Tell


class SecretChanged(State, frozen=True, tag="secretChanged"):
    """Real deliveries are signed with another secret now.

    Attributes:
        reason: Why events are still signed with the one from before, and what to do; None: they are not.
    """

    reason: str | None


class Unshown(Exception):
    """The secret cannot be had; the message says why, and what to do."""


class Signing:
    """Keeps what signs.

    Args:
        ask: All secrets that sign now, the current one first. Raises Unanswered or Unshown, or Refused when
            there is no use in going on.
        tell: Told of each change.
    """

    def __init__(self, ask: Callable[[], Awaitable[tuple[str, ...]]], tell: Tell) -> None:
        self._ask = ask
        self._tell = tell
        self._secrets: tuple[str, ...] = ()
        self._is_stale = False
        self._was_told = False

    @property
    def current(self) -> str | None:
        """The newest that is known."""
        return self._secrets[0] if self._secrets else None

    def put(self, secrets: tuple[str, ...]) -> None:
        """These sign from now on."""
        before, self._secrets = self.current, secrets
        if before is not None and self.current != before:
            self._tell(SecretChanged(None))

    def expire(self, *, told: bool) -> None:
        """What signs may be another secret by now; `told`: the server said that it is."""
        self._is_stale = True
        self._was_told = self._was_told or told

    async def secrets(self) -> tuple[str, ...]:
        """What signs now; while nobody answers, what did before.

        Raises:
            Refused: There is no use in going on.
        """
        if not self._is_stale:
            return self._secrets
        # First, so that what is told meanwhile counts.
        told, self._is_stale, self._was_told = self._was_told, False, False
        try:
            self.put(await self._ask())
        except Unanswered:
            self.expire(told=told)
        except Unshown as why:
            if told:
                self._tell(SecretChanged(str(why)))
        return self._secrets
