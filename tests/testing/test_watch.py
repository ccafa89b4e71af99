from __future__ import annotations

import numpy as np

from reactor_runtime.testing.watch import kept
from tests.testing.models import Picture
from tests.torched import torch


def test_what_a_step_made_is_kept_though_the_author_goes_on_with_it() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    copies = [kept(array), kept(tensor), kept(Picture(video=array)), kept(Picture(video=tensor))]
    array += 1
    tensor += 1
    assert [np.asarray(getattr(copy, "video", copy)).tolist() for copy in copies] == [[0, 0, 0]] * 4


def test_what_is_neither_array_nor_output_is_kept_as_it_is() -> None:
    assert kept("frame") == "frame"
