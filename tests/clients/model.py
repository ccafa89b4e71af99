"""A model with one of everything, for clients to use."""

from __future__ import annotations

MODEL = """
from reactor_runtime.interface import CommandError


class Frames(Input):
    camera: Video
    microphone: Audio


class Picture(Output):
    main_video: Video
    tone: Audio


class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)


class Said(ModelMessage):
    words: str


class MyModel(ReactorPipeline):
    state: MyState
    input: Frames
    output: Picture
    fps = 30

    @event(name="say")
    async def say(self, words: str):
        await self.send(Said(words=words))
        return Said(words=words.upper())

    @event(name="refuse")
    def refuse(self):
        raise CommandError("closed", "not on Sundays")

    @event(name="measure")
    def measure(self, file: UploadedFile):
        return Said(words=f"{file.name} {file.read().decode()}")

    def inference(self):
        camera = sent = None
        heard = False
        for frame in range(1_000_000):
            came = self.input.camera.try_read()
            if came:
                camera = int(came[-1].mean())
                if came[-1].metadata is not None:
                    text = came[-1].metadata.decode("latin-1")
                    sent = {"pts": came[-1].pts, "time": came[-1].capture_time_us, "text": text}
                self.send_nowait(Said(words=f"camera {camera}"))
            pieces = self.input.microphone.try_read()
            if pieces and not heard and abs(pieces[-1]).max() > 3000:
                heard = True
                self.send_nowait(Said(words=f"microphone {pieces[-1].shape}"))
            tone = (9000 * np.sin(np.arange(1600 * frame, 1600 * (frame + 1)) / 17)).astype(np.int16)
            image = gray(self.state.level if camera is None else camera)
            yield Picture(main_video=TrackPayload(image, metadata=sent), tone=tone[np.newaxis])
"""
