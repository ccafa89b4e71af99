"""`examples/matte` with the weights of the package mediapipe, which needs NumPy 1 and so an environment of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reactor_runtime.testing import Studio
from tests.examples.example_modules import import_from

pytest.importorskip("mediapipe", reason="pip install mediapipe==0.10.21 brings its weights")


def test_an_empty_room_is_all_background(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = import_from("matte", "pipeline", monkeypatch).Matte
    room = np.full((120, 160, 3), 90, np.uint8)
    with Studio(model) as studio:
        studio.connect()
        studio.send_event("set_background", background="colour")
        for _ in range(5):
            studio.push_media("camera", room)
            studio.run(0.1)
        assert not studio.model.state.seen
        assert np.all(studio.frames[-1].array == (0x2F, 0x7D, 0x5B))
        assert studio.messages[-1].data["segmentation_ms"] > 0
