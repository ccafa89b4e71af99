from __future__ import annotations

import errno
import importlib.util
import logging
import os
import queue
import random
import re
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.engine.session_file import LastMinute
from reactor_runtime.engine.session_log import ReloadOutcome
from reactor_runtime.interface import Audio, Output, ReactorPipeline, Video
from reactor_runtime.ipc.messages import ClientEvent, Kept, StartSession
from reactor_runtime.recording.entries import EndEntry, ErrorEntry, EventEntry, KeptEntry
from reactor_runtime.recording.file import hash_content, read_recording
from reactor_runtime.testing import Studio, replay
from tests.engine.rig import Bright, Picture, frame
from tests.testing.recorded import recorded
from tests.timeouts import TIMEOUT_S

START = StartSession("s-1", "c-1", 0.0)


class Noise(ReactorPipeline):
    state: Bright
    output: Picture
    fps = 30

    def inference(self) -> Iterator[Any]:
        while True:
            yield np.random.randint(0, 255, (2, 2, 3), np.uint8) + np.uint8(random.randrange(9))


def recorder_in(directory: Path, **options: Any) -> Recorder:
    return Recorder(RecordOptions(directory), {}, directory, **options)


def warnings_in(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


def test_a_session_has_a_file_with_all_that_describes_it(tmp_path: Path) -> None:
    with recorded(Noise, tmp_path, {"width": 64}) as studio:
        studio.run(0.2)
        studio.send_event("set_brightness", brightness=0.5)
        studio.run(0.2)
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert recording.header.model == "tests.engine.test_recorder:Noise"
    assert recording.header.config == '{"width": 64}'
    assert {"reactor-live", "python", "numpy", "machine"} <= recording.header.versions.keys()
    assert recording.header.contract == Contract.of(Noise).to_json()
    assert [(event.name, event.data_json) for event in recording.events] == [("set_brightness", '{"brightness": 0.5}')]
    assert 0 < recording.events[0].step < recording.steps == len(recording.outputs)
    assert recording.end is not None


def test_the_files_of_the_project_have_hashes(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    with recorded(Noise, tmp_path):
        pass
    (file,) = tmp_path.glob("*.mcap")
    assert list(read_recording(file).header.files) == ["reactor.yaml"]


def test_a_file_of_the_project_that_can_not_be_read_has_no_hash_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Reading this one fails for root too.
    (tmp_path / "config.yml").symlink_to("/proc/self/mem")
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    with recorded(Noise, tmp_path):
        pass
    (file,) = tmp_path.glob("*.mcap")
    assert list(read_recording(file).header.files) == ["reactor.yaml"]
    (warning,) = warnings_in(caplog)
    assert warning == "the recording lacks the hash of config.yml: Input/output error"


def test_each_session_has_a_seed_and_a_file(tmp_path: Path) -> None:
    with recorded(Noise, tmp_path) as studio:
        studio.run(0.2)
        studio.disconnect()
        studio.connect()
        studio.run(0.2)
    first, second = (read_recording(file) for file in sorted(tmp_path.iterdir()))
    assert first.header.seed != second.header.seed
    assert first.outputs != second.outputs


def test_the_pixels_are_recorded_without_loss(tmp_path: Path) -> None:
    with recorded(Noise, tmp_path, with_video=True) as studio:
        studio.run(0.5)
        shown = [each.array for each in studio.frames]
    (file,) = tmp_path.iterdir()
    frames = list(read_recording(file).frames())
    assert [each.frame for each in frames] == list(range(len(frames)))
    assert len(frames) >= len(shown)
    assert all(np.array_equal(each.content, array) for each, array in zip(frames, shown, strict=False))


def test_a_directory_that_is_gone_stops_recording_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with recorded(Noise, tmp_path / "file") as studio:
        studio.run(0.2)
        studio.disconnect()
        studio.connect()
        studio.run(0.2)
        assert studio.frames
    (warning,) = warnings_in(caplog)
    assert warning.startswith("the recording has stopped, the session continues")


def test_a_full_disk_stops_recording_with_one_warning_and_leaves_what_was_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    recorder = recorder_in(tmp_path)
    with Studio(Noise, logs=recorder) as studio:
        studio.connect()
        studio.run(0.2)
        # Python ignores SIGXFSZ: a write over the limit raises OSError, as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        try:
            studio.run(10)
            recorder.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert len(studio.frames) > 200
    (warning,) = warnings_in(caplog)
    assert "File too large" in warning
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert 5 < len(recording.outputs) < 200
    assert recording.end is None


class SlowFile(UploadedFile):
    """A file that takes until `written` to read, as on a disk that is slow."""

    reading = threading.Event()
    written = threading.Event()

    def read(self) -> bytes:
        self.reading.set()
        assert self.written.wait(TIMEOUT_S)
        return b""


def hold(log: Any) -> None:
    """Make the recorder wait within a file of a session until `SlowFile.written` is set."""
    SlowFile.reading.clear()
    SlowFile.written.clear()
    log.on_upload(SlowFile(b""))
    assert SlowFile.reading.wait(TIMEOUT_S)


@pytest.mark.parametrize(
    "put",
    [
        lambda log: log.on_event(1, ClientEvent("s-1", "c-1", None, "set_prompt", "x" * 2000), skipped=False),
        lambda log: log.on_message(1, "caption", {"lines": ["x" * 1000, "y" * 1000]}),
        lambda log: log.on_read(1, "camera", 1, [Item.encoded(bytes(2000), lambda _: np.zeros((2, 2, 3), np.uint8))]),
    ],
    ids=["events", "messages", "reads"],
)
def test_a_full_queue_stops_recording_with_one_warning(
    put: Callable[[Any], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = recorder_in(tmp_path, most_queued_bytes=5_000)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    hold(log)
    for _ in range(3):
        put(log)
    (warning,) = warnings_in(caplog)
    assert "the disk is too slow" in warning
    following = recorder.start_log(START, Contract.of(Noise))
    assert following is not None
    following.on_end(0, "")
    SlowFile.written.set()
    recorder.close()
    assert sorted(read_recording(file).end is not None for file in tmp_path.iterdir()) == [False, True]


def test_files_that_are_in_memory_since_before_a_reset_do_not_fill_the_queue(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, most_queued_bytes=5_000)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    hold(log)
    for number in range(3):
        log.on_upload(UploadedFile(bytes([number]) * 4_000), is_kept=True)
    log.on_end(0, "")
    SlowFile.written.set()
    recorder.close()
    (found,) = map(read_recording, tmp_path.iterdir())
    assert found.end is not None
    assert len(found.uploads) == 4


def test_a_full_queue_stops_the_recording_that_has_most_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = recorder_in(tmp_path, most_queued_bytes=5_000)
    former = recorder.start_log(START, Contract.of(Noise))
    assert former is not None
    hold(former)
    for step in range(2):
        former.on_event(step, ClientEvent("s-1", "c-1", None, "set_prompt", "x" * 1500), skipped=False)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    for step in range(3):
        log.on_error(step, "ValueError")
    log.on_end(3, "")
    SlowFile.written.set()
    recorder.close()
    found = sorted((len(each.errors), each.end is not None) for each in map(read_recording, tmp_path.iterdir()))
    assert found == [(0, False), (3, True)]
    assert len(warnings_in(caplog)) == 1


def test_recordings_that_stop_for_another_reason_have_another_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = recorder_in(tmp_path)
    for reason in ("no space left", "no space left", "read-only file system"):
        log = recorder.start_log(START, Contract.of(Noise))
        assert log is not None
        file = UnreadableFile(b"")
        file.reason = OSError(reason)
        log.on_upload(file)
    recorder.close()
    assert [each.rpartition(": ")[2] for each in warnings_in(caplog)] == ["no space left", "read-only file system"]


def test_a_session_of_any_size_is_recorded_while_the_disk_keeps_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers: queue.SimpleQueue[Kept] = queue.SimpleQueue()
    recorder = recorder_in(tmp_path, most_queued_bytes=5_000, on_kept=answers.put)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    for step in range(10):
        log.on_event(step, ClientEvent("s-1", "c-1", None, "set_prompt", "x" * 2000), skipped=False)
        # The answer comes when all before it is written.
        recorder.keep("s-1")
        assert answers.get(timeout=TIMEOUT_S).file
    recorder.close()
    assert warnings_in(caplog) == []
    (file,) = tmp_path.iterdir()
    assert [event.step for event in read_recording(file).events] == list(range(10))


TRACK = Contract.of(Noise).tracks[0]


def test_a_frame_is_recorded_as_it_was_returned_although_the_model_changes_it_later(tmp_path: Path) -> None:
    SlowFile.written.clear()
    options = RecordOptions(tmp_path, video="lossless")
    recorder = Recorder(options, {}, tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_upload(SlowFile(b""))
    canvas = frame(1)
    for step in range(3):
        canvas[:] = step
        log.on_output(step, [{TRACK: canvas}])
    SlowFile.written.set()
    recorder.close()
    (file,) = tmp_path.iterdir()
    assert [int(np.asarray(each.content)[0, 0, 0]) for each in read_recording(file).frames()] == [0, 1, 2]


class Loud(Output):
    video: Video
    sound: Audio


class Singing(Noise):
    output: Loud  # type: ignore[assignment]


def test_sound_beside_recorded_frames_has_hashes_only(tmp_path: Path) -> None:
    recorder = Recorder(RecordOptions(tmp_path, video="lossless"), {}, tmp_path)
    contract = Contract.of(Singing)
    log = recorder.start_log(START, contract)
    assert log is not None
    log.on_output(1, [dict(zip(contract.tracks, (frame(1), np.zeros((1, 800), np.int16)), strict=True))])
    recorder.close()
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert list(recording.outputs[0].hashes) == ["video", "sound"]
    assert [each.track for each in recording.frames()] == ["video"]


def test_an_exception_after_which_the_session_waits_is_recorded(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_error(3, "ValueError: no frame")
    recorder.close()
    (file,) = tmp_path.iterdir()
    assert read_recording(file).errors == [ErrorEntry(3, "ValueError: no frame")]


@pytest.mark.parametrize(
    "go_on",
    [
        lambda log: log.on_step(6),
        lambda log: log.on_error(6, "no frame"),
        lambda log: log.on_event(5, ClientEvent("s-1", "c-1", None, "turn", "{}"), skipped=False),
        lambda log: log.on_end(6, ""),
    ],
    ids=["step", "error", "event", "end"],
)
def test_a_recording_ends_before_what_code_with_another_contract_does(
    go_on: Callable[[Any], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = recorder_in(tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_reload(5, ReloadOutcome("applied", Contract.of(Singing), {}, {}))
    for _ in range(2):
        go_on(log)
    recorder.close()
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert (recording.end, recording.errors, recording.events) == (EndEntry(5), [], [])
    assert warnings_in(caplog) == ["the recording of the session ends: a reload has changed the contract"]


def test_a_recording_that_has_ended_takes_nothing_of_later_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(RecordOptions(tmp_path, video="jpeg"), {}, tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    for step in (5, 7):
        log.on_reload(step, ReloadOutcome("applied", Contract.of(Singing), {}, {}))
        log.on_step(step + 1)
        assert log.on_output(step + 1, [{TRACK: np.zeros((2, 2, 3), np.uint8)}]) == ()
    recorder.close()
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert (recording.end, recording.outputs, recording.reloads) == (EndEntry(5), [], [])
    assert warnings_in(caplog) == ["the recording of the session ends: a reload has changed the contract"]


def test_frames_are_left_out_when_half_of_the_queue_is_full_and_their_hashes_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    SlowFile.written.clear()
    canvas = np.zeros((50, 50, 3), np.uint8)
    recorder = Recorder(RecordOptions(tmp_path, video="lossless"), {}, tmp_path, most_queued_bytes=8 * canvas.nbytes)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_upload(SlowFile(b""))
    for step in range(20):
        log.on_output(step, [{TRACK: canvas}])
    SlowFile.written.set()
    recorder.close()
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert len(recording.outputs) == 20
    assert [each.frame for each in recording.frames()] == [0, 1, 2, 3]
    assert warnings_in(caplog) == []


def test_a_recording_that_is_not_written_in_time_has_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    SlowFile.written.clear()
    recorder = recorder_in(tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_upload(SlowFile(b""))
    log.on_end(1, "")
    recorder.close(timeout_s=0.01)
    assert warnings_in(caplog) == ["the recording lacks its end, which was not written within 0.01 s"]
    SlowFile.written.set()
    recorder.close()
    assert len(warnings_in(caplog)) == 1
    (file,) = tmp_path.iterdir()
    assert read_recording(file).end is not None


def test_threads_that_keep_a_session_at_once_share_the_writer(holding: Holding) -> None:
    before = threading.active_count()
    threads = [threading.Thread(target=holding.recorder.keep, args=("s-1",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [holding.answers.get(timeout=TIMEOUT_S).message for _ in threads] == ["no session has started"] * 8
    assert threading.active_count() == before


class UnreadableFile(UploadedFile):
    """A file whose content can't be read, for this reason."""

    reason: Exception

    def read(self) -> bytes:
        raise self.reason


@pytest.mark.parametrize("reason", [OSError("no space left"), ValueError("no content")], ids=["full disk", "fault"])
def test_a_failure_stops_recording_frees_the_space_and_answers_every_keep(
    reason: Exception, holding: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    log = holding.recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    assert holding.keep().file
    assert open_files_in(tmp_path) != []
    file = UnreadableFile(b"")
    file.reason = reason
    log.on_upload(file)
    for _ in range(2):
        assert str(reason) in holding.keep().message
    assert open_files_in(tmp_path) == []
    assert holding.recorder.start_log(START, Contract.of(Noise)) is not None
    assert holding.keep().file


def open_files_in(directory: Path) -> list[str]:
    """Return the files in a directory that this process has open, deleted ones included."""
    opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [path for path in opened if path.startswith(f"{directory}/")]


def test_a_lazy_module_is_not_imported_for_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy.py").write_text("raise RuntimeError('imported')\n")
    spec = importlib.util.spec_from_file_location("lazy", tmp_path / "lazy.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "lazy", module)
    with recorded(Noise, tmp_path / "sessions", project=tmp_path):
        pass
    (file,) = (tmp_path / "sessions").iterdir()
    assert list(read_recording(file).header.files) == ["lazy.py"]


def test_an_uploaded_file_may_be_larger_than_the_queue(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, most_queued_bytes=5_000)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_upload(UploadedFile(bytes(50_000)))
    recorder.close()
    (file,) = tmp_path.iterdir()
    assert read_recording(file).uploads[0].content == bytes(50_000)


def test_a_read_after_the_end_of_its_session_does_not_stop_recording(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    for _ in range(2):
        log = recorder.start_log(START, Contract.of(Noise))
        assert log is not None
        log.on_end(1, "")
        log.on_read(1, "camera", 1, [])
    recorder.close()
    recordings = [read_recording(file) for file in tmp_path.iterdir()]
    assert [(len(each.reads), each.end is not None) for each in recordings] == [(0, True), (0, True)]


def test_what_comes_after_the_end_of_its_session_is_not_in_the_next_recording(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    first = recorder.start_log(START, Contract.of(Noise))
    assert first is not None
    first.on_end(1, "")
    assert recorder.start_log(START, Contract.of(Noise)) is not None
    first.on_message(1, "caption", {})
    recorder.close()
    assert [read_recording(file).messages for file in tmp_path.iterdir()] == [[], []]


def test_a_session_after_a_reload_has_its_config_its_files_and_the_seats(tmp_path: Path) -> None:
    recorder = Recorder(RecordOptions(tmp_path / "recordings"), {"width": 1}, tmp_path)
    reloaded = ReloadOutcome("loaded", Contract.of(Noise), {"width": 2}, {str(tmp_path / "model.py"): b"new"})
    log = recorder.start_log(StartSession("s-1", "c-1", 0.0, seat=2), Contract.of(Noise), reloaded)
    assert log is not None
    log.on_event(1, ClientEvent("s-1", "c-2", None, "turn", "{}", seat=3), skipped=False)
    recorder.close()
    (file,) = (tmp_path / "recordings").iterdir()
    recording = read_recording(file)
    assert (recording.header.config, recording.header.seat) == ('{"width": 2}', 2)
    assert recording.header.files == {"model.py": hash_content(b"new")}
    assert recording.events == [EventEntry(1, "turn", "{}", client="c-2", seat=3)]


def test_a_reload_has_waited_only_where_a_read_was_cancelled_in_its_step(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    outcome = ReloadOutcome("applied", Contract.of(Noise), {}, {})
    log.on_read(5, "camera", 1, None)
    log.on_reload(5, outcome)
    log.on_reload(5, outcome)
    log.on_read(6, "camera", 1, None)
    log.on_read(6, "camera", 1, [])
    log.on_reload(6, outcome)
    recorder.close()
    (file,) = tmp_path.iterdir()
    assert [each.entry.waiting for each in read_recording(file).reloads] == [True, False, False]


def test_a_return_from_code_on_trial_with_another_contract_is_a_reload_that_failed(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_reload(5, ReloadOutcome("applied", Contract.of(Singing), {}, {}))
    log.on_reload(5, ReloadOutcome("reverted", Contract.of(Noise), {}, {}))
    recorder.close()
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert [each.entry.kind for each in recording.reloads] == ["failed"]
    assert recording.end is None


def test_a_recorder_without_a_session_writes_nothing(tmp_path: Path) -> None:
    recorder_in(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_without_a_recorder_generators_are_not_seeded() -> None:
    random.seed(5)
    expected = random.Random(5).random()
    with Studio(Noise) as studio:
        studio.connect()
    assert random.random() == expected


def test_the_frame_of_a_batch_has_a_hash_each(tmp_path: Path) -> None:
    class Batches(Noise):
        def inference(self) -> Iterator[Any]:
            while True:
                yield np.stack([frame(1), frame(2)])

    with recorded(Batches, tmp_path) as studio:
        studio.run(0.2)
    (file,) = tmp_path.iterdir()
    assert [len(each.hashes["video"]) for each in read_recording(file).outputs[:2]] == [2, 2]


class Holding:
    """A recorder that writes only what is kept, and its answers."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.answers: queue.SimpleQueue[Kept] = queue.SimpleQueue()
        given = RecordOptions(directory, only_kept=True)
        self.recorder = Recorder(given, {}, directory, on_kept=self.answers.put, **options)

    def keep(self) -> Kept:
        self.recorder.keep("s-1")
        return self.answers.get(timeout=TIMEOUT_S)


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Holding]:
    made = Holding(tmp_path / "recordings")
    yield made
    made.recorder.close()


def test_a_session_is_kept_up_to_now_as_often_as_wanted_and_replays(holding: Holding, tmp_path: Path) -> None:
    with Studio(Noise, logs=holding.recorder) as studio:
        studio.connect()
        studio.run(0.5)
        assert not (tmp_path / "recordings").exists()
        first = holding.keep()
        studio.send_event("set_brightness", brightness=0.5)
        studio.run(0.5)
        second = holding.keep()
    assert (second.session, second.message, second.hint) == ("s-1", "", "")
    kept = [read_recording(Path(each.file)) for each in (first, second)]
    assert [len(each.kept) for each in kept] == [1, 2]
    assert kept[1].kept[-1] == KeptEntry(kept[1].steps, 1)
    assert kept[0].steps < kept[1].steps
    assert replay(second.file, Noise).differences == []


def test_a_session_is_held_until_the_next_one_starts(holding: Holding) -> None:
    for name in ("first", "second"):
        log = holding.recorder.start_log(START, Contract.of(Noise))
        assert log is not None
        log.on_event(0, ClientEvent("s-1", "c-1", None, name, "{}"), skipped=False)
    assert read_recording(Path(holding.keep().file)).events == [EventEntry(0, "second", "{}")]


def test_a_recording_that_ended_before_says_why(holding: Holding) -> None:
    for error in ("", "the model failed: ValueError: no frame"):
        log = holding.recorder.start_log(START, Contract.of(Noise))
        assert log is not None
        log.on_end(3, error)
        log.on_event(3, ClientEvent("s-1", "c-1", None, "late", "{}"), skipped=False)
        kept = holding.keep()
        recording = read_recording(Path(kept.file))
        assert recording.events == []
        assert recording.end is not None
        assert recording.end.error == error
        assert re.match(
            f"the recording ended with an error: {error}"
            if error
            else r"the recording ended \d+ s ago, where a reload changed the contract",
            kept.message,
        )


def test_a_session_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    holding = Holding(tmp_path, most_temporary_bytes=1 << 20)
    log = holding.recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    for _ in range(5):
        log.on_upload(UploadedFile(bytes(300_000)))
    kept = holding.keep()
    assert (kept.file, kept.message) == ("", "the session has more than 1 MiB of inputs, the most that is held")
    assert "--record DIR" in kept.hint
    assert holding.recorder.start_log(START, Contract.of(Noise)) is not None
    assert holding.keep().file
    holding.recorder.close()


def test_a_directory_that_can_not_be_written_is_the_answer_and_recording_continues(
    holding: Holding, tmp_path: Path
) -> None:
    assert holding.keep().message == "no session has started"
    (tmp_path / "recordings").write_text("")
    assert holding.recorder.start_log(START, Contract.of(Noise)) is not None
    kept = holding.keep()
    assert kept.file == ""
    assert "File exists" in kept.message
    (tmp_path / "recordings").unlink()
    assert holding.keep().file


def test_a_disk_that_is_full_while_a_session_is_kept_leaves_no_file_and_recording_continues(
    holding: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = holding.recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_event(0, ClientEvent("s-1", "c-1", None, "before", "{}"), skipped=False)

    def copy_half(source: IO[bytes], target: IO[bytes]) -> None:
        target.write(source.read(100))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", copy_half)
        assert "No space left" in holding.keep().message
    assert list((tmp_path / "recordings").iterdir()) == []
    log.on_event(1, ClientEvent("s-1", "c-1", None, "after", "{}"), skipped=False)
    recording = read_recording(Path(holding.keep().file))
    assert [event.name for event in recording.events] == ["before", "after"]
    assert len(recording.kept) == 2


def test_with_a_file_for_each_session_it_is_marked(tmp_path: Path) -> None:
    answers: queue.SimpleQueue[Kept] = queue.SimpleQueue()
    recorder = recorder_in(tmp_path, on_kept=answers.put)
    with Studio(Noise, logs=recorder) as studio:
        studio.connect()
        studio.run(0.5)
        recorder.keep("s-1")
        path = Path(answers.get(timeout=TIMEOUT_S).file)
        assert read_recording(path).steps > 0
        studio.run(0.5)
    recorder.close()
    recording = read_recording(path)
    assert [path] == list(tmp_path.iterdir())
    assert 0 < recording.kept[0].step < recording.steps


def test_the_last_minute_begins_at_most_a_second_before_it() -> None:
    minute = LastMinute()
    assert minute.entry() == KeptEntry(0, 0)
    for step in range(1, 10_001):
        minute.add_step(step, int(step / 30 * 1e9))
    entry = minute.entry()
    assert entry.step == 10_000
    assert 10_000 - 61 * 30 <= entry.since_step <= 10_000 - 60 * 30


def test_without_the_libraries_nothing_is_recorded_and_keep_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "mcap", None)
    holding = Holding(tmp_path)
    assert holding.recorder.start_log(START, Contract.of(Noise)) is None
    assert warnings_in(caplog) == []
    kept = holding.keep()
    assert (kept.message, kept.hint) == ("recordings need mcap", "pip install 'reactor-live[record]'")
    holding.recorder.close()


def test_the_files_of_frames_are_recorded_by_their_number_until_the_session_ends(tmp_path: Path) -> None:
    recorder = Recorder(RecordOptions(tmp_path, video="jpeg"), {}, tmp_path)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    (first, second), (third,) = (
        log.on_output(1, [{TRACK: frame(n)} for n in range(2)]),
        log.on_output(2, [{TRACK: frame(2)}]),
    )
    third["video"](b"third", 85)
    second["video"](b"", 85)
    first["video"](b"first", 85)
    log.on_end(2, "")
    second["video"](b"late", 85)
    recorder.close()
    (file,) = tmp_path.iterdir()
    found = [(each.frame, each.content, each.quality) for each in read_recording(file).frames()]
    assert found == [(2, b"third", 85), (0, b"first", 85)]


def test_a_file_is_left_out_where_the_disk_is_too_slow_and_that_is_recorded(tmp_path: Path) -> None:
    SlowFile.written.clear()
    recorder = Recorder(RecordOptions(tmp_path, video="jpeg"), {}, tmp_path, most_queued_bytes=20_000)
    log = recorder.start_log(START, Contract.of(Noise))
    assert log is not None
    log.on_upload(SlowFile(b""))
    for step in range(3):
        (on_files,) = log.on_output(step, [{TRACK: frame(step)}])
        on_files["video"](bytes(8_000), 85)
    SlowFile.written.set()
    recorder.close()
    (file,) = tmp_path.iterdir()
    assert [(each.frame, len(each.content)) for each in read_recording(file).frames()] == [
        (0, 8_000),
        (1, 8_000),
        (2, 0),
    ]
