"""Several output tracks at once: which frame of each is due when, and with which sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.interface import Audio, Output, ReactorPipeline, Video
from reactor_runtime.testing import Studio
from tests.testing.models import Level


class Three(Output):
    left: Video
    right: Video
    voice: Audio


def pictures(*reds: int, height: int = 2) -> NDArray[np.uint8]:
    return np.stack([np.full((height, 3, 3), red, np.uint8) for red in reds])


class Stereo(ReactorPipeline):
    """Yield what the test gives it, then nothing more."""

    state: Level
    output: Three
    fps = 10

    def inference(self) -> Any:
        if not self.state._steps:
            self.state._steps = 1
            yield self.made()
        while True:
            yield None

    made: Callable[[], Three]


def voice(count: int) -> NDArray[np.int16]:
    return np.repeat(np.arange(count, dtype=np.int16), 4800)


MADE: dict[str, tuple[Callable[[], Three], list[int], list[int]]] = {
    "two batches": (
        lambda: Three(left=pictures(1, 2, 3), right=pictures(4, 5, 6, height=4), voice=voice(3)), [1, 2, 3], [4, 5, 6]
    ),
    "one frame beside a batch": (
        lambda: Three(left=pictures(1, 2, 3), right=pictures(4)[0], voice=voice(3)), [1, 2, 3], [4, 4, 4]
    ),
    "a batch beside one frame": (
        lambda: Three(left=pictures(1)[0], right=pictures(4, 5, 6), voice=voice(3)), [1, 1, 1], [4, 5, 6]
    ),
    "single frames": (lambda: Three(left=pictures(1)[0], right=pictures(4)[0], voice=voice(1)), [1], [4]),
    "a batch of one": (lambda: Three(left=pictures(1), right=pictures(4)[0], voice=voice(1)), [1], [4]),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_each_bundle_has_a_frame_of_each_track_and_its_sound(name: str) -> None:
    made, left, right = MADE[name]

    class Model(Stereo):
        output: Three

        def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.made = made

    with Studio(Model) as studio:
        studio.connect()
        studio.run(2)
        due = [number / 10 for number in range(len(left))]
        for track, values in (("left", left), ("right", right), ("voice", list(range(len(left))))):
            shown = [piece for piece in studio.frames if piece.track == track]
            assert [int(piece.array.flat[0]) for piece in shown] == values
            assert [piece.due_s for piece in shown] == pytest.approx(due)
            assert [piece.seq for piece in shown] == list(range(len(values)))


def test_batches_of_different_length_are_refused_where_they_are_yielded() -> None:
    class Model(Stereo):
        output: Three

        def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.made = lambda: Three(left=pictures(1, 2), right=pictures(1, 2, 3), voice=voice(1))

    with Studio(Model) as studio:
        studio.connect()
        with pytest.raises(ValueError, match="left has 2, right has 3 frames"):
            studio.run(1)
