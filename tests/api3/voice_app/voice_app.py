"""A voice without a picture: pieces of sound at 12.5 a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from reactor_runtime import Audio, InputState, Output, ReactorApp


class Speech(Audio):
    sample_rate = 24_000


class Spoken(Output):
    voice: Speech


class VoiceState(InputState):
    _piece: int = 0


class VoiceApp(ReactorApp):
    state: VoiceState
    fps = 12.5

    async def process_input(self) -> int:
        self.state._piece += 1
        return self.state._piece

    def generate(self, input: Any) -> Spoken:
        return Spoken(voice=np.full((1, 1920), input, np.int16))
