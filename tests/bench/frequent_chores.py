"""payd whose hour is short: what it does each hour it does again and again while a soak goes on."""

from __future__ import annotations

from typing import Final

import payd.actors.maintenance
from payd.cli import main

EVERY_S: Final = 20.0

if __name__ == "__main__":
    for name in ("FIRST_S", "EVERY_S"):
        setattr(payd.actors.maintenance, name, EVERY_S)
    main()
