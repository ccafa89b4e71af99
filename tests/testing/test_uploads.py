from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from reactor_runtime import InputState, Output, PipelineExecutor, ReactorPipeline, UploadedFile, Video, event


@dataclass(frozen=True)
class Masked:
    image: UploadedFile
    mask: UploadedFile | None = None


class Picture(Output):
    main_video: Video


class State(InputState):
    image: UploadedFile | None = None


class Model(ReactorPipeline):
    state: State
    fps = 30

    @event(name="paint")
    def paint(self, files: list[UploadedFile], masked: Masked | None = None) -> None:
        self.sizes = [file.size_bytes for file in files]
        self.mask = masked and masked.mask

    def inference(self) -> Iterator[Picture]:
        while True:
            level = 0 if self.state.image is None else self.state.image.read()[0]
            yield Picture(main_video=np.full((8, 8, 3), level, np.uint8))


def test_bytes_and_files_are_sent_as_a_client_would() -> None:
    with PipelineExecutor(Model) as ex:
        ex.connect()
        ex.send_event("set_image", image=b"\x20rest")
        assert next(ex).output.main_video[0, 0, 0] == 0x20
        assert isinstance(ex.state.image, UploadedFile)
        file = UploadedFile(b"\x30", name="cat.png")
        ex.send_event("set_image", image=file)
        assert ex.state.image is file
        ex.send_event("paint", files=[b"1", bytearray(b"12"), file], masked=Masked(file, file))
        assert (ex.model.sizes, ex.model.mask) == ([1, 2, 1], file)
        ex.send_event("paint", files=[], masked={"image": b"1"})
        ex.disconnect()
        ex.connect()
        assert ex.state.image is None


def test_a_file_of_the_session_before_is_not_found() -> None:
    with PipelineExecutor(Model) as ex:
        ex.connect()
        file = UploadedFile(b"1")
        ex.send_event("set_image", image=file)
        ex.disconnect()
        ex.connect()
        with pytest.raises(ValueError, match="there is no file"):
            ex.send_event("set_image", image={"upload": file.id})
