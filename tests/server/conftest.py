"""What the tests of the server share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.server.house import House


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    os.close(house.memory)
