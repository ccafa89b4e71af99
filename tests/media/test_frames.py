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
        [
            "float32 (480, 640, 3) from 0 to 0; frames are uint8 0..255: use reactor_runtime.frames."
            'to_frames(x, layout="HWC", value_range=(0, 1))'
        ],
    ),
    "bool": (np.zeros((4, 4, 3), np.bool_), TypeError, ["bool (4, 4, 3)", "* 255"]),
    "int64": (np.zeros((4, 4, 3), np.int64), TypeError, ["int64 (4, 4, 3)", "use x.clip(0, 255).astype(np.uint8)"]),
    "object": (np.array([None]), TypeError, ["object (1,)"]),
    "gray": (
        np.zeros((480, 640), np.uint8),
        ValueError,
        ["(480, 640)", 'use reactor_runtime.frames.to_frames(x[None], layout="CHW")'],
    ),
    "gray with axis": (np.zeros((4, 4, 1), np.uint8), ValueError, ["(4, 4, 1)", 'to_frames(x, layout="HWC")']),
    "RGBA": (np.zeros((4, 4, 4), np.uint8), ValueError, ["(4, 4, 4)", "x[..., :3]"]),
    "channels first": (np.zeros((3, 48, 64), np.uint8), ValueError, ["(3, 48, 64)", 'to_frames(x, layout="CHW")']),
    "batch, channels first": (np.zeros((2, 3, 8, 9), np.uint8), ValueError, ['to_frames(x, layout="TCHW")']),
    "one video of a batch": (np.zeros((1, 3, 2, 8, 9), np.uint8), ValueError, ['to_frames(x, layout="BCTHW")']),
    "two channels": (np.zeros((6, 5, 2), np.uint8), ValueError, ["red, green, blue"]),
    "rank 5": (np.zeros((1, 2, 5, 5, 3), np.uint8), ValueError, ["5 dimensions"]),
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
    "float": (
        np.zeros((1, 960), np.float32),
        TypeError,
        ["float32 (1, 960)", "(x.clip(-1, 1) * 32767).astype(np.int16)"],
    ),
    "int32": (np.zeros(960, np.int32), TypeError, ["int32 (960,)", "x.astype(np.int16)"]),
    "channels last": (np.zeros((960, 2), np.int16), ValueError, ["(960, 2)", "x.T"]),
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


FLOAT_PICTURES = {
    "a video of a diffusion model": ((1, 3, 2, 8, 9), (-1.0, 1.0), "-1 to 1", 'layout="BCTHW", value_range=(-1, 1))'),
    "overshooting a little": ((2, 3, 8, 9), (-0.1, 1.2), "-0.1 to 1.2", 'layout="TCHW", value_range=(0, 1))'),
    "as bright as bytes": ((8, 9, 3), (0.0, 255.0), "0 to 255", 'layout="HWC", value_range=(0, 255))'),
    "not finite": ((3, 8, 9), (-1.0, np.nan), "with NaN or infinity", 'to_frames(x, layout="CHW")'),
    "infinite": ((3, 8, 9), (-np.inf, 1.0), "with NaN or infinity", 'to_frames(x, layout="CHW")'),
    "no pixels": ((0, 3, 8, 9), (), "(0, 3, 8, 9); frames are", "(n, height, width, 3)"),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", FLOAT_PICTURES)
def test_float_pictures_are_refused_with_what_they_hold_and_the_call_to_make(name: str, dtype: str, torch: Any) -> None:
    shape, values, *parts = FLOAT_PICTURES[name]
    tensor = torch.zeros(shape, dtype=getattr(torch, dtype))
    tensor.flatten()[: len(values)] = torch.tensor(values, dtype=tensor.dtype)
    given = [tensor.requires_grad_(), tensor.detach().float().numpy()]
    for payload in given:
        with pytest.raises(TypeError, match="main_video: got ") as raised:
            check_video("main_video", payload)
        assert all(part in str(raised.value) for part in parts) or dtype == "bfloat16"


def test_tensors_pass_as_arrays(torch: Any) -> None:
    frame = check_video("main_video", torch.full((2, 4, 6, 3), 7, dtype=torch.uint8))
    assert isinstance(frame, np.ndarray)
    assert np.array_equal(frame, np.full((2, 4, 6, 3), 7, np.uint8))
    assert check_audio("main_audio", torch.zeros(5, dtype=torch.int16)).shape == (1, 5)


def test_permuted_tensor_passes(torch: Any) -> None:
    tensor = torch.arange(3 * 4 * 6, dtype=torch.uint8).reshape(3, 4, 6)
    frame = check_video("main_video", tensor.permute(1, 2, 0))
    assert np.array_equal(frame[..., 1], tensor[1].numpy())


def test_whole_numbers_in_a_tensor_are_refused_with_the_fix(torch: Any) -> None:
    with pytest.raises(TypeError, match=r"got torch.int64 \(4, 4, 3\); .* use x.clip\(0, 255\).to\(torch.uint8\)"):
        check_video("main_video", torch.zeros((4, 4, 3), dtype=torch.int64))
    with pytest.raises(TypeError, match=r"got torch.bool \(4, 4, 3\); .* use x.to\(torch.uint8\) \* 255"):
        check_video("main_video", torch.zeros((4, 4, 3), dtype=torch.bool))


def test_sound_in_a_tensor_of_another_dtype_is_refused_with_the_fix(torch: Any) -> None:
    with pytest.raises(TypeError, match=r"main_audio: got torch.float32 \(5,\); .*\* 32767\).to\(torch.int16\)"):
        check_audio("main_audio", torch.zeros(5))
    with pytest.raises(ValueError, match=r"main_audio: got int16 \(5, 2\); .*x.T"):
        check_audio("main_audio", torch.zeros((5, 2), dtype=torch.int16))


def test_something_else_beside_torch_is_refused_all_the_same(torch: Any) -> None:
    assert torch
    with pytest.raises(TypeError, match="main_video: got str"):
        check_video("main_video", "frame")
