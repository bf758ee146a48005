"""A server whose merchant takes Solana for real, on a chain that is played: its page needs no node.

`python -m tests.browser.solana_shop FOLDER [BASE_URL]` prints one line of JSON once it serves: its url, and
the headers of the merchant's backend. A price that moves holds for 6 s here, so that a page is soon renewed;
while there is a file `down` in the folder, nobody can say one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import structlog
import trio

from payd.config import load
from payd.server import open_house, serve
from payd.web.house import House
from tests.live.front import furnish
from tests.shop import SOLANA, SOLANA_WALLET, USDC_SOLANA
from tests.web.solana import SOL, TOML, PlayedSolana

MOVING_MS = 6_000
DOWN = "down"


class Moving(PlayedSolana):
    """A coin that costs more each time one asks.

    Args:
        down: The file that says that no node answers.
    """

    volatile_ms = MOVING_MS

    def __init__(self, down: Path) -> None:
        super().__init__()
        self._down = down

    async def _ask(self) -> None:
        self.is_down = self._down.exists()
        self.lamports += 1_000_000
        await super()._ask()


async def main(folder: Path, base_url: str) -> None:
    """Serve until the process is ended."""
    env = {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"}
    config = load(folder / "payd.toml", env | ({"PAYD_BASE_URL": base_url} if base_url else {}))

    async def announce(house: House) -> None:
        wallet = f"{SOLANA}:{SOLANA_WALLET}"
        headers = await furnish(house, {USDC_SOLANA: wallet, SOL: wallet})
        sys.stdout.write(json.dumps({"url": house.own_url, "headers": headers}) + "\n")
        sys.stdout.flush()

    async with open_house(config) as house:
        realm = house.realms["live"]
        realm.payments.chains = (*realm.payments.chains, Moving(folder / DOWN))
        realm.live_chains = ()
        await serve(house, config, trio.Event(), announce)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    (where / "payd.toml").write_text(TOML)
    trio.run(main, where, (sys.argv[2:] or [""])[0])
