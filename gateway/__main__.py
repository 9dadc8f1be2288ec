"""`trunkline` and `python -m trunkline.gateway`."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
