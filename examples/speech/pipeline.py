"""Who speaks? Silero's detector of speech, on the sound of a microphone; its weights are in the package of pip."""

from collections import deque

import numpy as np
import torch
from silero_vad import load_silero_vad

from reactor_runtime.interface import Audio, Input, InputField, InputState, Output, ReactorPipeline, ReadMode, Video

RATE = 16_000
# The detector takes 32 ms at once.
WINDOW = 512
HEIGHT, WIDTH = 180, 320


class Speech16(Audio):
    sample_rate = RATE


class Ears(Input):
    microphone: Speech16


class Curve(Output):
    main_video: Video


class Heard(InputState):
    threshold: float = InputField(default=0.5, ge=0.05, le=0.95, description="From where on it counts as speech")
    speaking: bool = InputField(default=False, read_only=True)
    probability: float = InputField(default=0.0, ge=0.0, le=1.0, read_only=True, widget="bar")
    spoken_s: float = InputField(default=0.0, read_only=True, widget="clock", label="Spoken")


class Speech(ReactorPipeline):
    state: Heard
    input: Ears
    fps = 30

    def load(self, _config):
        torch.set_num_threads(1)
        self.detector = load_silero_vad()

    async def inference(self):
        state, waiting, curve = self.state, np.empty(0, np.int16), deque([0.0] * WIDTH, maxlen=WIDTH)
        self.detector.reset_states()
        yield draw(curve, state.threshold)
        while True:
            pieces = await self.input.microphone.read(mode=ReadMode.ALL)
            waiting = np.concatenate([waiting, *(piece.mean(0).astype(np.int16) for piece in pieces)])
            while len(waiting) >= WINDOW:
                window, waiting = waiting[:WINDOW], waiting[WINDOW:]
                state.probability = self.detector(torch.from_numpy(window / np.float32(32768)), RATE).item()
                state.speaking = state.probability >= state.threshold
                state.spoken_s += state.speaking * WINDOW / RATE
                curve.append(state.probability)
            yield draw(curve, state.threshold)


def draw(curve, threshold) -> np.ndarray:
    """Return the probabilities of the last 10 s as columns, those of speech in green."""
    heights = np.array(curve)
    frame = np.full((HEIGHT, WIDTH, 3), 24, np.uint8)
    rows = 1 - np.arange(HEIGHT)[:, None] / HEIGHT
    frame[rows <= heights] = (90, 110, 140)
    frame[(rows <= heights) & (heights >= threshold)] = (79, 209, 139)
    frame[round((1 - threshold) * (HEIGHT - 1))] = 255
    return frame
