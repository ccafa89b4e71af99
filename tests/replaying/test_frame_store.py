from __future__ import annotations

import contextlib

import numpy as np

from reactor_runtime.replaying.frame_store import FrameStore

GRAY = np.full((48, 64, 3), 120, np.uint8)
SOUND = np.arange(-400, 400, dtype=np.int16).reshape(2, 400)


def test_a_frame_comes_back_as_a_jpeg_shows_it_and_sound_unchanged() -> None:
    with contextlib.closing(FrameStore()) as store:
        store.append({"main_video": GRAY, "main_audio": SOUND})
        store.append({"main_video": GRAY // 2})
        first, second = store.read(0), store.read(1)
    assert np.abs(first["main_video"].data.astype(int) - GRAY).max() <= 2
    assert np.array_equal(first["main_audio"].data, SOUND)
    assert second.keys() == {"main_video"}
    assert abs(float(second["main_video"].data.mean()) - 60) <= 2


def test_a_full_store_keeps_what_it_has_and_says_why() -> None:
    with contextlib.closing(FrameStore(most_bytes=SOUND.nbytes * 2)) as store:
        for _ in range(5):
            store.append({"main_audio": SOUND})
        assert len(store) == 2
        assert store.full.startswith("they would take more than")
        assert np.array_equal(store.read(1)["main_audio"].data, SOUND)
