"""Whether this run is the short one, of `scripts/test` without arguments: fewer of what is much alike."""

from __future__ import annotations

import os
from typing import Final

IS_SHORT: Final = os.environ.get("PAYD_TESTS") == "short"
