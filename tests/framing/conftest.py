"""Every framing test runs once for the reference and once for the compiled twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.twins import NAMES, load

if TYPE_CHECKING:
    from tests.support.twins import Twin


@pytest.fixture(scope="session", params=NAMES)
def twin(request: pytest.FixtureRequest) -> Twin:
    return load(str(request.param))
