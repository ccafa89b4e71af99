"""The cost of `to_frames`, beside a bare copy of its result to the host."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from reactor_runtime.frames import to_frames
from reactor_runtime.media.frames import check_video

RUNS = 9
FRAMES, HEIGHT, WIDTH = 12, 704, 1280


def conversion() -> Iterator[tuple[str, str, str]]:
    """Measure the conversion of a video on an idle device to frames on the host."""
    if importlib.util.find_spec("torch") is None:
        yield "to_frames", "no torch", ""
        return
    torch: Any = importlib.import_module("torch")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    yield f"{FRAMES} frames of {WIDTH}x{HEIGHT} on {_name(torch, device)}", "", ""
    frames = torch.zeros(FRAMES, HEIGHT, WIDTH, 3, dtype=torch.uint8, device=device)
    floor_ms = _median_ms(torch, _bare_copy(torch, frames))
    yield (
        "  bare copy of the frames to the host" if device == "cuda" else "  bare clone of the frames",
        _ms(floor_ms),
        "",
    )
    yield "  uint8 tensor as it is yielded", _ms(_median_ms(torch, lambda: check_video("video", frames))), ""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        video = torch.rand(1, 3, FRAMES, HEIGHT, WIDTH, device=device).mul_(2).sub_(1).to(dtype)
        taken_ms = _median_ms(torch, lambda video=video: to_frames(video))  # type: ignore[misc]
        yield f"  to_frames of {dtype}, BCTHW, -1..1", _ms(taken_ms), f"{taken_ms / floor_ms:.1f} copies"
        by_hand_ms = _median_ms(torch, lambda video=video: _by_hand(torch, video))  # type: ignore[misc]
        yield "    by hand, in its own dtype", _ms(by_hand_ms), f"{by_hand_ms / floor_ms:.1f} copies"


def _bare_copy(torch: Any, frames: Any) -> Callable[[], object]:
    if not frames.is_cuda:
        return lambda: frames.clone()
    host = torch.empty(frames.shape, dtype=frames.dtype, pin_memory=True)
    return lambda: host.copy_(frames)


def _by_hand(torch: Any, video: Any) -> Any:
    """Convert as authors often do; this rounds down, and a bfloat16 has too few bits for the computation."""
    frames = ((video[0].permute(1, 2, 3, 0) + 1) * 127.5).clamp(0, 255).to(torch.uint8)
    return frames.contiguous().cpu().numpy()


def _median_ms(torch: Any, work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(RUNS):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def _name(torch: Any, device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else f"the CPU, {torch.get_num_threads()} threads"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.2f} ms"
