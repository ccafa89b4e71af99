from __future__ import annotations

from reactor_runtime.authoring.styles.styles import STYLES
from reactor_runtime.engine.drivers.registry import DRIVERS


def test_each_style_has_a_driver() -> None:
    assert DRIVERS.keys() == {style.base for style in STYLES}
