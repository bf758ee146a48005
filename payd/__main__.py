"""`python -m payd`."""

from __future__ import annotations

from payd.cli import main

if __name__ == "__main__":
    main()
