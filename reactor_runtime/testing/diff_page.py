"""The page of `reactor replay --diff`: one HTML file without scripts and without requests."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media import jpeg
from reactor_runtime.recording.file import SessionRecording
from reactor_runtime.testing.comparison import Replay
from reactor_runtime.testing.frame_diff import FrameDiff, FramePair, FrameSimilarity

MOST_LINES = 100
# The size of a chart in pixels; it has at most one point for each column.
WIDTH, HEIGHT = 900, 160
# Equal frames are drawn at the top.
MOST_DB = 60.0
QUALITY = 92

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2rem; } td, th { padding: 2px 14px 2px 0; text-align: left; vertical-align: top; }
svg { display: block; width: 100%; overflow: visible; } svg text { font-size: 11px; fill: currentColor; }
.pair { display: grid; grid-template-columns: repeat(3, 1fr); gap: 8px; margin: .3rem 0 1.2rem; }
figure { margin: 0; } img { width: 100%; image-rendering: auto; } li, code { overflow-wrap: anywhere; }
.same { color: #1a7f37; } .different { color: #cf222e; }
"""


def diff_page(recording: SessionRecording, replay: Replay, diff: FrameDiff | None, changed_files: Sequence[str]) -> str:
    """Return the page; `diff` is None for a recording without frames."""
    name = escape(recording.path.name)
    title = f"Replay of {name}"
    parts = [
        f"<h1>{title}</h1>",
        _verdict(replay),
        _facts(recording, replay, changed_files),
        _charts(diff),
        _pairs([] if diff is None else diff.worst),
        _differences(replay),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _verdict(replay: Replay) -> str:
    if not replay.differences:
        return f'<p class="same">All {replay.frames} frames and pieces of sound are equal.</p>'
    first = escape(str(replay.differences[0]))
    return f'<p class="different">{replay.different} of {replay.frames} frames and pieces of sound differ. {first}</p>'


def _facts(recording: SessionRecording, replay: Replay, changed_files: Sequence[str]) -> str:
    header = recording.header
    rows = {
        "model": header.model,
        "recorded": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(header.started_at)),
        "steps": f"{replay.steps} of {recording.steps}",
        "recorded with": ", ".join(f"{name} {version}" for name, version in header.versions.items()),
        "files changed since": ", ".join(changed_files) or "none",
    }
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table>{cells}</table>"


def _charts(diff: FrameDiff | None) -> str:
    if diff is None:
        return (
            "<p>The recording has hashes, not frames: it shows which frames differ, not by how much. "
            "<code>reactor run --record DIR --record-video</code> records frames too.</p>"
        )
    tracks = sorted({each.track for each in diff.similarities})
    return "\n".join(
        _track_charts(track, [each for each in diff.similarities if each.track == track]) for track in tracks
    )


def _track_charts(track: str, similarities: Sequence[FrameSimilarity]) -> str:
    ratios = [min(each.psnr, MOST_DB) / MOST_DB for each in similarities]
    last = similarities[-1].frame
    return (
        f"<h2>{escape(track)}</h2>"
        f"{_chart('PSNR', ratios, top=f'{MOST_DB:.0f} dB or equal', bottom='0 dB', last=last)}"
        f"{_chart('SSIM', [max(each.ssim, 0.0) for each in similarities], top='1', bottom='0', last=last)}"
    )


def _chart(name: str, values: Sequence[float], *, top: str, bottom: str, last: int) -> str:
    """Draw values from 0 to 1; of many, the lowest of each column of pixels."""
    size = max(1, math.ceil(len(values) / WIDTH))
    lowest = [min(values[at : at + size]) for at in range(0, len(values), size)]
    step = WIDTH / max(1, len(lowest) - 1)
    points = " ".join(f"{number * step:.1f},{HEIGHT * (1 - value):.1f}" for number, value in enumerate(lowest))
    return (
        f'<figure><figcaption>{name} of frames 0 to {last}</figcaption><svg viewBox="0 -14 {WIDTH} {HEIGHT + 28}" '
        f'role="img" aria-label="{name}, lowest {min(values):.3f} of 1">'
        f'<path d="M0 0H{WIDTH}M0 {HEIGHT}H{WIDTH}" stroke="currentColor" stroke-opacity=".25"/>'
        f'<text x="0" y="-3">{top}</text><text x="0" y="{HEIGHT + 12}">{bottom}</text>'
        f'<polyline points="{points}" fill="none" stroke="#0969da" stroke-width="1.5"/></svg></figure>'
    )


def _pairs(pairs: Iterable[FramePair]) -> str:
    shown = "\n".join(map(_pair, pairs))
    return f"<h2>Frames that differ most</h2>\n{shown}" if shown else ""


def _pair(pair: FramePair) -> str:
    each = pair.similarity
    images = [("recorded", pair.recorded), ("replayed", pair.replayed)]
    if pair.recorded.shape == pair.replayed.shape:
        difference = np.abs(pair.recorded.astype(np.int16) - pair.replayed)
        gain = 255 // max(1, int(difference.max()))
        name = "difference" if gain == 1 else f"difference, {gain} times as bright"
        images.append((name, (difference * gain).astype(np.uint8)))
    figures = "".join(
        f'<figure><img src="{_data_url(image)}" alt="{name}"><figcaption>{name}</figcaption></figure>'
        for name, image in images
    )
    caption = f"step {each.step}, frame {each.frame} of {escape(each.track)}: {each.psnr:.1f} dB, SSIM {each.ssim:.3f}"
    return f'<p>{caption}</p><div class="pair">{figures}</div>'


def _data_url(image: NDArray[np.uint8]) -> str:
    file = jpeg.encode(np.ascontiguousarray(image), quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file).decode()}"


def _differences(replay: Replay) -> str:
    if not replay.differences:
        return ""
    lines = "".join(f"<li>{escape(str(each))}</li>" for each in replay.differences[:MOST_LINES])
    more = replay.total - MOST_LINES
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<h2>Differences</h2><ol>{lines}</ol>{rest}"
