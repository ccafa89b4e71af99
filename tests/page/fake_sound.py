"""Pieces of sound as a server sends them."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media import wav
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader


def piece(track: str, seq: int, start_s: float, samples: NDArray[np.int16], sample_rate: int, flags: int = 0) -> bytes:
    """Make the WAV of `samples`, `(channels, samples)`, presented `start_s` after the session's start."""
    header = MediaHeader(track, seq, int(start_s * 1e6), time.time_ns() // 1000, flags=flags)
    return attach(header, wav.encode(samples, sample_rate))


def chord(start: int, end: int, sample_rate: int) -> NDArray[np.int16]:
    """Make the samples from `start` to `end` of a stereo chord that swells."""
    t = np.arange(start, end) / sample_rate
    swell = 0.25 + 0.2 * np.sin(0.8 * t)
    voices = [np.sin(2 * np.pi * pitch * t) / (n + 1) for n, pitch in enumerate((220, 330, 440, 554.4, 880))]
    left, right = np.sum(voices[:3], axis=0), np.sum(voices[1:], axis=0)
    return (np.stack([left, right]) * swell * 12000).astype(np.int16)
