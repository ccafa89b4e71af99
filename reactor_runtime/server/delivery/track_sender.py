"""One video track on its way to one client: its encoding, its send window, its quality and its rate."""

from __future__ import annotations

from reactor_runtime.server.delivery.send_window import SendWindow
from reactor_runtime.server.encoding.encoded import EncodedFrame, MediaFile
from reactor_runtime.server.encoding.ladder import Ladder
from reactor_runtime.server.encoding.track_encoding import TrackEncoding


class TrackSender:
    """Decide when the next frame may be sent and on which rung, from what was sent, skipped and acknowledged."""

    def __init__(self, encoding: TrackEncoding) -> None:
        self.encoding = encoding.for_client()
        self.window = SendWindow()
        self.ladder = Ladder(encoding.rungs)
        self._not_before = 0.0

    def next_send_at(self, now: float) -> float:
        """Return when a frame may be sent if nothing else happens; at most `now` if it may be sent already."""
        if self.window.is_open(now):
            return self._not_before
        return max(self._not_before, self.window.reopens_at())

    def begin_session(self) -> None:
        """Expect no acknowledgement of what was sent before: the client sees another session from here on."""
        self.window.begin_session()
        self.ladder.begin_session()

    def frame_skipped(self, now: float) -> str:
        """Count a frame that was replaced before it was sent, and return what it had waited for."""
        if now < self._not_before:
            # The client has chosen this rate, so the skip is no sign of a slow network.
            return "rate"
        why = "socket" if self.window.is_open(now) else "window"
        self.window.frame_skipped()
        self.ladder.frame_skipped(now)
        return why

    def send_frame(self, frame: EncodedFrame, now: float, max_fps: float | None) -> tuple[int, MediaFile]:
        """Choose the file to send, count it as sent, and return its rung and the file."""
        rung, file = frame.file_on(self.encoding, self.ladder.rung)
        self.window.frame_sent(frame.seq, now, frame.interval_s)
        self.ladder.frame_sent(frame.seq, rung, len(file.data), now)
        if max_fps is not None:
            # On a grid of its own: otherwise a frame that is slightly early would halve the rate.
            grid = self._not_before + 1 / max_fps
            self._not_before = grid if grid > now else now + 1 / max_fps
        return rung, file

    def frames_acknowledged(self, seq: int, now: float) -> None:
        """Count all frames up to `seq` as shown by the client."""
        self.window.frames_acknowledged(seq, now)
        before = self.ladder.rung
        self.ladder.frames_acknowledged(seq, now)
        if self.ladder.rung != before:
            self.window.resize(self.ladder.relative_size(self.ladder.rung, before))
