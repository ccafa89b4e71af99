from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reactor_runtime.media.frames import check_audio, check_video


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [(480, 640, 3), (4, 480, 640, 3), (1, 1, 3), (3, 5, 3), (1, 4096, 4096, 3)], ids=str)
def test_good_frames_pass_uncopied(shape: tuple[int, ...]) -> None:
    payload = np.empty(shape, np.uint8)
    assert check_video("main_video", payload) is payload


def test_views_and_read_only_frames_pass() -> None:
    payload = np.zeros((10, 10, 3), np.uint8)[::2, ::-1, ::-1]
    payload.setflags(write=False)
    assert check_video("main_video", payload) is payload


WRONG_FRAMES: dict[str, tuple[object, type[Exception], list[str]]] = {
    "None": (None, TypeError, ["NoneType", "NumPy array or a torch tensor"]),
    "list": ([[1, 2, 3]], TypeError, ["list"]),
    "float": (
        np.zeros((480, 640, 3), np.float32),
        TypeError,
        ["float32 (480, 640, 3)", "multiply by 255, clip and .astype(np.uint8)"],
    ),
    "bool": (np.zeros((4, 4, 3), np.bool_), TypeError, ["bool (4, 4, 3)", "* 255"]),
    "int64": (np.zeros((4, 4, 3), np.int64), TypeError, ["int64 (4, 4, 3)", "clip and .astype(np.uint8)"]),
    "object": (np.array([None]), TypeError, ["object (1,)"]),
    "gray": (np.zeros((480, 640), np.uint8), ValueError, ["(480, 640)", "np.stack([frame] * 3, axis=-1)"]),
    "gray with axis": (np.zeros((4, 4, 1), np.uint8), ValueError, ["(4, 4, 1)", "np.repeat"]),
    "RGBA": (np.zeros((4, 4, 4), np.uint8), ValueError, ["(4, 4, 4)", "frame[..., :3]"]),
    "channels first": (np.zeros((3, 48, 64), np.uint8), ValueError, ["(3, 48, 64)", "transpose(1, 2, 0)"]),
    "batch, channels first": (np.zeros((2, 3, 8, 9), np.uint8), ValueError, ["transpose(0, 2, 3, 1)"]),
    "two channels": (np.zeros((4, 4, 2), np.uint8), ValueError, ["red, green, blue"]),
    "rank 5": (np.zeros((1, 1, 4, 4, 3), np.uint8), ValueError, ["5 dimensions"]),
    "rank 0": (np.uint8(3) + np.zeros((), np.uint8), TypeError, ["uint8"]),
    "empty batch": (np.zeros((0, 4, 4, 3), np.uint8), ValueError, ["(0, 4, 4, 3)", "empty"]),
    "no pixels": (np.zeros((4, 0, 3), np.uint8), ValueError, ["empty"]),
    "too high": (np.zeros((4097, 1, 3), np.uint8), ValueError, ["at most 4096x4096"]),
    "too wide": (np.zeros((2, 1, 4097, 3), np.uint8), ValueError, ["at most 4096x4096"]),
}


@pytest.mark.parametrize("name", WRONG_FRAMES)
def test_wrong_frame_is_refused_naming_track_what_came_and_fix(name: str) -> None:
    payload, kind, parts = WRONG_FRAMES[name]
    with pytest.raises(kind) as caught:
        check_video("main_video", payload)
    message = str(caught.value)
    assert message.startswith("main_video: got ")
    for part in parts:
        assert part in message


def test_mono_from_one_dimension_is_a_view() -> None:
    payload = np.arange(5, dtype=np.int16)
    checked = check_audio("main_audio", payload)
    assert checked.shape == (1, 5)
    assert np.shares_memory(checked, payload)


@pytest.mark.parametrize("channels", [1, 2])
def test_channels_first_sound_passes_uncopied(channels: int) -> None:
    payload = np.zeros((channels, 960), np.int16)
    assert check_audio("main_audio", payload) is payload


WRONG_SOUND: dict[str, tuple[object, type[Exception], list[str]]] = {
    "None": (None, TypeError, ["NoneType"]),
    "bytes": (b"\0\0", TypeError, ["bytes"]),
    "float": (np.zeros((1, 960), np.float32), TypeError, ["float32 (1, 960)", "multiply by 32767"]),
    "int32": (np.zeros(960, np.int32), TypeError, ["int32 (960,)", ".astype(np.int16)"]),
    "channels last": (np.zeros((960, 2), np.int16), ValueError, ["(960, 2)", "samples.T"]),
    "six channels": (np.zeros((6, 960), np.int16), ValueError, ["1 or 2 channels"]),
    "rank 3": (np.zeros((1, 2, 960), np.int16), ValueError, ["(1, 2, 960)"]),
    "empty": (np.zeros((2, 0), np.int16), ValueError, ["empty"]),
    "empty mono": (np.zeros(0, np.int16), ValueError, ["empty"]),
}


@pytest.mark.parametrize("name", WRONG_SOUND)
def test_wrong_sound_is_refused_naming_track_what_came_and_fix(name: str) -> None:
    payload, kind, parts = WRONG_SOUND[name]
    with pytest.raises(kind) as caught:
        check_audio("main_audio", payload)
    message = str(caught.value)
    assert message.startswith("main_audio: got ")
    for part in parts:
        assert part in message


def test_tensors_pass_as_arrays(torch: Any) -> None:
    frame = check_video("main_video", torch.full((2, 4, 6, 3), 7, dtype=torch.uint8))
    assert isinstance(frame, np.ndarray)
    assert np.array_equal(frame, np.full((2, 4, 6, 3), 7, np.uint8))
    assert check_audio("main_audio", torch.zeros(5, dtype=torch.int16)).shape == (1, 5)


def test_permuted_tensor_passes(torch: Any) -> None:
    tensor = torch.arange(3 * 4 * 6, dtype=torch.uint8).reshape(3, 4, 6)
    frame = check_video("main_video", tensor.permute(1, 2, 0))
    assert np.array_equal(frame[..., 1], tensor[1].numpy())


def test_tensor_of_another_dtype_is_refused_with_the_fix(torch: Any) -> None:
    with pytest.raises(TypeError, match=r"main_video: got torch.float16 \(4, 4, 3\); .*clamp\(0, 255\)"):
        check_video("main_video", torch.zeros((4, 4, 3), dtype=torch.float16, requires_grad=True))
    with pytest.raises(TypeError, match=r"main_audio: got torch.float32 \(5,\); .*torch.int16"):
        check_audio("main_audio", torch.zeros(5))


def test_something_else_beside_torch_is_refused_all_the_same(torch: Any) -> None:
    assert torch
    with pytest.raises(TypeError, match="main_video: got str"):
        check_video("main_video", "frame")
