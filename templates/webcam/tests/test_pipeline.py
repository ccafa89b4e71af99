"""Tests of the model without a server: PipelineExecutor makes its steps and pushes frames of a camera."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import CommandError, PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from card import draw_card
from filters import FILTERS, fit
from pipeline import MyModel
from send_frames import drawn, piped

SMALL = {"width": 96, "height": 64}


@pytest.fixture
def ex():
    """Return a small model with a client."""
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        yield ex


def camera(red=200):
    """Return a frame of a camera, red on the left."""
    frame = np.zeros((48, 72, 3), np.uint8)
    frame[:, :36, 0] = red
    return frame


def test_without_a_camera_frames_are_drawn(ex):
    first, second = next(ex).output.main_video, next(ex).output.main_video
    assert first.shape == (64, 96, 3)
    assert not np.array_equal(first, second)


def test_frames_of_the_camera_are_mirrored(ex):
    ex.send_event("set_filter", filter="plain")
    ex.push_media("camera", camera())
    shown = next(ex).output.main_video
    assert shown[:, 48:, 0].min() == 200
    assert shown[:, :48].max() == 0
    ex.send_event("set_mirror", mirror=False)
    assert np.array_equal(next(ex).output.main_video, shown[:, ::-1])


def test_the_newest_frame_is_shown_until_the_next(ex):
    ex.send_event("set_filter", filter="plain")
    ex.push_media("camera", np.stack([camera(red) for red in range(100)]))
    assert next(ex).output.main_video.max() == 99
    assert next(ex).output.main_video.max() == 99


def test_a_message_reports_the_camera_once(ex):
    for _ in range(3):
        ex.push_media("camera", camera())
        next(ex)
    assert [(message.type, message.data) for message in ex.messages] == [("camera_on", {"width": 72, "height": 48})]


def test_the_next_client_starts_without_a_camera(ex):
    card = next(ex).output.main_video
    ex.push_media("camera", camera())
    next(ex)
    ex.disconnect()
    ex.connect()
    assert np.array_equal(next(ex).output.main_video, card)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_is_shown_instead_of_the_camera(ex, kind):
    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.new("RGB", (90, 60), (0, 0, 250)).save(file, kind)
    ex.send_event("set_filter", filter="plain")
    ex.push_media("camera", camera())
    ex.send_event("set_image", image=file.getvalue())
    assert next(ex).output.main_video[..., 2].min() > 240
    ex.send_event("set_image", image=None)
    assert next(ex).output.main_video[..., 2].max() == 0


@pytest.mark.parametrize("wrong", [b"", b"hello"])
def test_a_file_that_is_no_image_is_refused(ex, wrong):
    pytest.importorskip("PIL.Image")
    with pytest.raises(CommandError, match="no image"):
        ex.send_event("set_image", image=wrong)
    assert ex.state._image is None


@pytest.mark.parametrize("name", [name for name in FILTERS if name != "plain"])
def test_a_filter_changes_the_frame_by_its_strength(name):
    weak, strong = FILTERS[name](96, 64), FILTERS[name](96, 64)
    for idx in range(12):
        frame = draw_card(96, 64, idx / 10)
        shown = weak(frame, 0.1), strong(frame, 1.0)
    assert all(each.dtype == np.uint8 and each.shape == frame.shape for each in shown)
    assert not np.array_equal(shown[0], frame)
    assert not np.array_equal(*shown)


@pytest.mark.parametrize("shape", [(480, 640), (720, 1280), (50, 20), (1, 1)])
def test_frames_of_any_size_fit(shape):
    assert fit(np.zeros((*shape, 3), np.uint8), 96, 64).shape == (64, 96, 3)


def test_a_frame_of_the_right_size_is_not_copied():
    frame = np.zeros((64, 96, 3), np.uint8)
    assert fit(frame, 96, 64) is frame


@pytest.mark.parametrize("size", [(320, 240), (40, 30), (8, 8)])
def test_the_sun_has_any_size(size):
    assert draw_card(*size, 0.0).shape == (size[1], size[0], 3)


def test_the_sender_draws_frames():
    assert next(drawn()).shape == (480, 640, 3)


def test_the_sender_splits_the_output_of_ffmpeg(tmp_path):
    sent = [b"\xff\xd8one\xff\xd9", b"\xff\xd8two\xff\xd9"]
    (tmp_path / "pipe").write_bytes(b"".join(sent))
    with (tmp_path / "pipe").open("rb") as pipe:
        assert list(piped(pipe.fileno())) == sent
        assert list(piped(pipe.fileno())) == []
