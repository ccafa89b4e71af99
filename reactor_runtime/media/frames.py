"""Check what a model hands over as picture or sound, and say what to change when it is something else.

What passes is a NumPy array whose rank tells what it is: 2 sound, 3 one frame, 4 a batch of frames.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.jpeg import MAX_SIDE

_UINT8 = np.dtype(np.uint8)
_INT16 = np.dtype(np.int16)
_VIDEO = "frames are uint8 0..255, (height, width, 3) or a batch (n, height, width, 3)"
_AUDIO = "sound is int16, (channels, samples) or (samples,)"


def check_video(track: str, payload: object) -> NDArray[np.uint8]:
    """Return the payload as uint8 `(height, width, 3)` or `(n, height, width, 3)`, uncopied unless it is on a device.

    Accepts NumPy arrays and torch tensors. Raises `TypeError` for another type or dtype and `ValueError` for another
    shape; both name the track, what came and the fix.
    """
    array = payload if isinstance(payload, np.ndarray) else _from_tensor(track, payload, _UINT8, _VIDEO)
    if array.dtype != _UINT8:
        raise TypeError(f"{track}: got {array.dtype} {array.shape}; frames are uint8 0..255: {_to_uint8(array.dtype)}")
    shape = array.shape
    if not (3 <= len(shape) <= 4 and shape[-1] == 3 and array.size and max(shape[-3:-1]) <= MAX_SIDE):
        raise ValueError(f"{track}: got uint8 {shape}; {_video_fix(shape)}")
    return array


def check_audio(track: str, payload: object) -> NDArray[np.int16]:
    """Return the payload as int16 `(channels, samples)` with 1 or 2 channels; 1-D is taken as mono.

    Raises as `check_video` does.
    """
    array = payload if isinstance(payload, np.ndarray) else _from_tensor(track, payload, _INT16, _AUDIO)
    if array.dtype != _INT16:
        raise TypeError(f"{track}: got {array.dtype} {array.shape}; sound is int16: {_to_int16(array.dtype)}")
    samples = array[np.newaxis] if array.ndim == 1 else array
    if samples.ndim != 2 or samples.shape[0] not in (1, 2) or not samples.size:
        raise ValueError(f"{track}: got int16 {array.shape}; {_audio_fix(array.shape)}")
    return samples


def _from_tensor(track: str, payload: object, wanted: np.dtype[Any], expected: str) -> NDArray[Any]:
    # A payload can only be a tensor when the author's code has imported torch; importing it here would cost seconds.
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(payload, torch.Tensor):
        raise TypeError(f"{track}: got {type(payload).__name__}; {expected}: pass a NumPy array or a torch tensor")
    tensor: Any = payload
    if str(tensor.dtype) != f"torch.{wanted}":
        fix = "(x * 255).clamp(0, 255).to(torch.uint8)" if wanted == _UINT8 else "(x * 32767).to(torch.int16)"
        kind = "frames are uint8 0..255" if wanted == _UINT8 else "sound is int16"
        raise TypeError(f"{track}: got {tensor.dtype} {tuple(tensor.shape)}; {kind}: for values 0..1 use {fix}")
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def _to_uint8(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return "multiply by 255, clip and .astype(np.uint8)"
    if dtype.kind == "b":
        return "use .astype(np.uint8) * 255"
    return "clip and .astype(np.uint8)"


def _to_int16(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return "clip to -1..1, multiply by 32767 and .astype(np.int16)"
    return "scale to -32768..32767 and .astype(np.int16)"


def _video_fix(shape: tuple[int, ...]) -> str:
    rank = len(shape)
    if 0 in shape:
        return "it is empty: leave the track out or yield Idle when there is nothing to show"
    if rank == 2:
        return f"{_VIDEO}: for gray use np.stack([frame] * 3, axis=-1)"
    if rank not in (3, 4):
        return f"{_VIDEO}: this has {rank} dimensions"
    if shape[-1] == 3:
        return f"a frame is at most {MAX_SIDE}x{MAX_SIDE}: scale it down"
    if shape[-1] == 4:
        return f"{_VIDEO}: drop the alpha channel with frame[..., :3]"
    if shape[-1] == 1:
        return f"{_VIDEO}: for gray use np.repeat(frame, 3, axis=-1)"
    if shape[-3] == 3:
        axes = "(1, 2, 0)" if rank == 3 else "(0, 2, 3, 1)"
        return f"{_VIDEO}: the channels come last: use frame.transpose{axes}"
    return f"{_VIDEO}: the last dimension is red, green, blue"


def _audio_fix(shape: tuple[int, ...]) -> str:
    if 0 in shape:
        return "it is empty: leave the track out when there is nothing to hear"
    if len(shape) == 2 and shape[1] in (1, 2):
        return f"{_AUDIO}: the channels come first: use samples.T"
    return f"{_AUDIO} with 1 or 2 channels"
