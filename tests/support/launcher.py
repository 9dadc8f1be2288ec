"""The real command line with the puppets among its adapters: `python -m tests.support.launcher serve --stdio`.

Nothing else differs: descriptors, loop, door, stages and exit are those of the program.
"""

from __future__ import annotations

from typing import Any

from trunkline.gateway import serve
from trunkline.gateway.cli import main

from tests.support.puppet import add_puppets

_make_switch = serve.make_switch


def _with_puppets(config: Any) -> Any:
    return add_puppets(_make_switch(config))


if __name__ == "__main__":
    serve.make_switch = _with_puppets
    main()
