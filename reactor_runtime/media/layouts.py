"""Orders of an array's dimensions: batch, channels, time, height and width, by their first letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

Layout = Literal["BCTHW", "BTCHW", "TCHW", "THWC", "CHW", "HWC"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

_RGB, _GRAY, _RGBA = 3, 1, 4
_LIKELIEST = (_RGB, _GRAY, _RGBA)


def channels_last(layout: Layout) -> list[int]:
    """Return the order of axes, without the batch, that puts the channels last."""
    letters = layout.removeprefix("B")
    return [letters.index(letter) for letter in "THWC" if letter in letters]


def layout_error(shape: tuple[int, ...], layout: Layout) -> str | None:
    """Return why an array of this shape is not frames in this layout; None if it is."""
    if len(shape) != len(layout):
        return f"{layout} has {len(layout)} dimensions"
    if layout[0] == "B" and shape[0] != 1:
        return f"in {layout} that is a batch of {shape[0]}, and a track shows one video"
    channels = shape[layout.index("C")]
    if channels == _RGBA:
        return f"in {layout} these are 4 channels, and a frame has no alpha"
    return None if channels in (_RGB, _GRAY) else f"in {layout} these are {channels} channels, not 3, or 1 for gray"


def suggested_call(shape: tuple[int, ...], value_range: tuple[float, float] | None = None) -> str | None:
    """Return the likeliest call of `to_frames` for an array `x` of this shape; None if no layout is close."""
    likely = [each for each in _interpretations(shape) if _channels(each) in _LIKELIEST]
    if not likely or 0 in shape:
        return None
    x, whole, layout = min(likely, key=lambda each: _LIKELIEST.index(_channels(each)))
    values = "" if value_range is None else f", value_range={value_range}"
    return f'to_frames({x}{_cut(whole, layout)}, layout="{layout}"{values})'


_Interpretation = tuple[str, tuple[int, ...], Layout]


def _interpretations(shape: tuple[int, ...]) -> Iterator[_Interpretation]:
    """Yield the possible interpretations of an array `x`: expression, shape and layout."""
    for layout in LAYOUTS:
        if len(layout) == len(shape):
            yield "x", shape, layout
    if len(shape) == 2:
        yield "x[None]", (1, *shape), "CHW"
    if len(shape) == 4:
        yield "x[None]", (1, *shape), "BCTHW"


def _channels(interpretation: _Interpretation) -> int:
    _, shape, layout = interpretation
    return shape[layout.index("C")]


def _cut(shape: tuple[int, ...], layout: Layout) -> str:
    """Return the index expression that selects one video of the batch without alpha."""
    wanted = {"B": 1, "C": _RGB}
    cuts = [
        f":{wanted[name]}" if name in wanted and size > wanted[name] else ":"
        for name, size in zip(layout, shape, strict=True)
    ]
    while cuts and cuts[-1] == ":":
        cuts.pop()
    return f"[{', '.join(cuts)}]" if cuts else ""
