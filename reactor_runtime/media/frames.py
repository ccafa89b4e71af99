"""Checks the frames and sound that a model emits; errors name the fix.

The result is a NumPy array whose rank gives its kind: 2 sound, 3 one frame, 4 a batch of frames.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.jpeg import MAX_SIDE
from reactor_runtime.media.layouts import suggested_call
from reactor_runtime.media.tensors import to_host, torch_of

_UINT8 = np.dtype(np.uint8)
_INT16 = np.dtype(np.int16)
_VIDEO = "frames are uint8 0..255, (height, width, 3) or a batch (n, height, width, 3)"
_AUDIO = "sound is int16, (channels, samples) or (samples,)"
_NAN_FIX = "look for what computes the first NaN: float16 overflows above 65504, bfloat16 and float32 do not"
_WHERE = "reactor_runtime.frames."

# A 0..1 frame that overshoots a little stays above this.
_NEGATIVE = -0.25
# And below this.
_BRIGHT = 2.0


def check_video(track: str, payload: object) -> NDArray[np.uint8]:
    """Return the payload as uint8 `(height, width, 3)` or `(n, height, width, 3)`, copied only from a device.

    Accepts NumPy arrays and torch tensors; waits for a tensor on a device and copies it after all checks.
    Raises `TypeError` for another type or dtype and `ValueError` for another shape; both name the track, the value
    and the fix.
    """
    if isinstance(payload, np.ndarray):
        _check_frames(track, payload, _UINT8)
        return payload
    torch = torch_of(payload)
    if torch is None:
        raise TypeError(_no_array(track, payload, _VIDEO))
    _check_frames(track, payload, torch.uint8)
    return to_host(torch, payload)


def check_audio(track: str, payload: object) -> NDArray[np.int16]:
    """Return the payload as int16 `(channels, samples)` with 1 or 2 channels; 1-D is mono.

    Accepts the types and raises the errors of `check_video`.
    """
    if isinstance(payload, np.ndarray):
        _check_samples(track, payload, _INT16)
        samples = payload
    else:
        torch = torch_of(payload)
        if torch is None:
            raise TypeError(_no_array(track, payload, _AUDIO))
        _check_samples(track, payload, torch.int16)
        samples = to_host(torch, payload)
    return samples[np.newaxis] if samples.ndim == 1 else samples


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape as a tuple if it is that of a frame or a batch; raise ValueError with the fix if not."""
    checked = tuple(operator.index(size) for size in shape)
    if min(checked, default=0) < 0 or not _fits(checked):
        raise ValueError(f"got {checked}; {_VIDEO}, each side from 1 to {MAX_SIDE}")
    return checked


def _check_frames(track: str, frames: Any, uint8: object) -> None:
    shape = tuple(frames.shape)
    if frames.dtype != uint8:
        raise TypeError(f"{track}: got {frames.dtype} {shape}{_to_uint8(frames, shape)}")
    if not _fits(shape):
        raise ValueError(f"{track}: got uint8 {shape}; {_video_fix(shape)}")


def _fits(shape: tuple[int, ...]) -> bool:
    return 3 <= len(shape) <= 4 and shape[-1] == 3 and 0 not in shape and max(shape[-3:-1]) <= MAX_SIDE


def _check_samples(track: str, samples: Any, int16: object) -> None:
    shape = tuple(samples.shape)
    if samples.dtype != int16:
        raise TypeError(f"{track}: got {samples.dtype} {shape}; sound is int16: {_to_int16(samples)}")
    if len(shape) not in (1, 2) or 0 in shape or (len(shape) == 2 and shape[0] not in (1, 2)):
        raise ValueError(f"{track}: got int16 {shape}; {_audio_fix(shape)}")


def _no_array(track: str, payload: object, expected: str) -> str:
    return f"{track}: got {type(payload).__name__}; {expected}: pass a NumPy array or a torch tensor"


def _to_uint8(frames: Any, shape: tuple[int, ...]) -> str:
    if _is_float(frames):
        if _is_all_nan(frames):
            return f" and every value is NaN; {_NAN_FIX}"
        described, value_range = _values(frames)
        call = suggested_call(shape, value_range)
        fix = _VIDEO if call is None else f"frames are uint8 0..255: use {_WHERE}{call}"
        return f"{described}; {fix}"
    cast = ".astype(np.uint8)" if isinstance(frames, np.ndarray) else ".to(torch.uint8)"
    fix = f"x{cast} * 255" if "bool" in str(frames.dtype) else f"x.clip(0, 255){cast}"
    return f"; frames are uint8 0..255: use {fix}"


def _values(frames: Any) -> tuple[str, tuple[int, int] | None]:
    """Describe the values and guess their intended range; slow, so only called for an error."""
    if 0 in frames.shape:
        return "", None
    with np.errstate(invalid="ignore"):
        low, high = frames.min().item(), frames.max().item()
    if not math.isfinite(high - low):
        return " with NaN or infinity", None
    value_range = (0, 255) if high > _BRIGHT else (-1, 1) if low < _NEGATIVE else (0, 1)
    return f" from {low:.3g} to {high:.3g}", value_range


def _is_all_nan(frames: Any) -> bool:
    return 0 not in frames.shape and bool((frames != frames).all())


def _to_int16(samples: Any) -> str:
    cast = ".astype(np.int16)" if isinstance(samples, np.ndarray) else ".to(torch.int16)"
    if _is_float(samples):
        return f"for values -1..1 use (x.clip(-1, 1) * 32767){cast}"
    return f"scale to -32768..32767 and use x{cast}"


def _is_float(media: Any) -> bool:
    return str(media.dtype).removeprefix("torch.") in ("float16", "bfloat16", "float32", "float64")


def _video_fix(shape: tuple[int, ...]) -> str:
    if 0 in shape:
        return "it is empty: yield Idle, or emit nothing, when there is nothing to show"
    if len(shape) in (3, 4) and shape[-1] == 3:
        return f"a frame is at most {MAX_SIDE}x{MAX_SIDE}: scale it down"
    if len(shape) in (3, 4) and shape[-1] == 4 and shape[-3] not in (1, 3):
        return f"{_VIDEO}: drop the alpha channel with x[..., :3]"
    call = suggested_call(shape)
    if call is not None:
        return f"{_VIDEO}: use {_WHERE}{call}"
    if len(shape) in (3, 4):
        return f"{_VIDEO}: the last dimension is red, green, blue"
    return f"{_VIDEO}: this has {len(shape)} dimensions"


def _audio_fix(shape: tuple[int, ...]) -> str:
    if 0 in shape:
        return "it is empty: give it silence, as in np.zeros(1600, np.int16), when there is nothing to hear"
    if len(shape) == 2 and shape[1] in (1, 2):
        return f"{_AUDIO}: the channels come first: use x.T"
    return f"{_AUDIO} with 1 or 2 channels"
