"""Suggests changes to a model from what was measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from reactor_cli.bench.figures import ModelCost

# Below this share of a second a figure suggests nothing.
LEAST_MS = 1.0
SLOW_FIRST = 5.0
SLOW_FIRST_MS = 300.0
UNEVEN = 3.0
VARIES = 1.5
CONVERTS = 0.15
ROOM = 2.0
# A loop that waits for a camera of its own rate makes a little less than that.
REACHED = 0.95


def suggest_changes(figures: ModelCost) -> Iterator[str]:
    """Yield sentences, each of which names what was measured and what to change."""
    p50, p95, p99, first = figures.step_p50_ms, figures.step_p95_ms, figures.step_p99_ms, figures.first_step_ms
    if p50 is None or p99 is None:
        return
    if first is not None and first > SLOW_FIRST_MS and first > SLOW_FIRST * p50:
        yield f"the first step takes {first:.0f} ms, the others {p50:.0f}: set warmup = 1 on the class"
    possible, declared = figures.possible_fps, figures.declared_fps
    if possible is not None and declared is not None:
        if possible < REACHED * declared:
            yield (
                f"the model makes {possible:.1f} of the {declared:g} frames a second that it declares: make steps "
                "shorter, or lower fps"
            )
        elif possible > ROOM * declared:
            yield f"the model could make {possible:.0f} frames a second and declares {declared:g}: fps may be raised"
    convert = figures.stages_ms.get("convert", 0.0)
    if convert > LEAST_MS and convert > CONVERTS * p50:
        yield (
            f"checking and copying the output takes {convert / p50:.0%} of a step: yield contiguous uint8 frames, on a "
            "GPU made there with to_frames"
        )
    if p99 > UNEVEN * p50 and p99 - p50 > 1000 / (declared or 30):
        yield (
            f"one step in a hundred takes {p99:.0f} ms, half of them at most {p50:.0f}: `reactor run --trace FILE` "
            "shows which ones"
        )
    fps = declared or figures.shown_fps
    batch = 0 if possible is None else round(possible * p50 / 1000)
    # Frames that are shown during a usual step, and one more.
    room = math.ceil(fps * p50 / 1000) + 1
    if batch > 1 and p95 is not None and p95 > VARIES * p50 and room < 2 * batch:
        yield (
            f"steps of {batch} frames take {p50:.0f} ms, one in 20 {p95:.0f}: with buffer_size = {room} steps "
            "do not start earlier for the long ones, so inputs take effect sooner; gaps after long steps become longer"
        )
    encode = figures.stages_ms.get("encode", 0.0)
    if encode > 1000 / (declared or figures.shown_fps or 30):
        yield f"encoding a frame takes {encode:.0f} ms: make smaller frames, or serve on a machine with more cores"
