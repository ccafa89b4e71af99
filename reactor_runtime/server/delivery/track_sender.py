"""One video track's way to one client: how many frames ahead, how good, and how often."""

from __future__ import annotations

from reactor_runtime.server.delivery.send_window import SendWindow
from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.server.encoding.ladder import Ladder, relative_size


class TrackSender:
    """Say when the next frame may be sent and on which rung; told what was sent, skipped and acknowledged."""

    def __init__(self) -> None:
        self.window = SendWindow()
        self.ladder = Ladder()
        self._not_before = 0.0

    def opens_at(self, now: float) -> float:
        """Say when a frame may be sent without any news; not after `now` if it may be already."""
        if self.window.is_open(now):
            return self._not_before
        return max(self._not_before, self.window.reopens_at())

    def begin_session(self) -> None:
        """Expect no acknowledgement of what was sent before: the client sees another session from here on."""
        self.window.begin_session()
        self.ladder.begin_session()

    def skipped(self, now: float) -> str:
        """Learn that a frame was replaced before it could be sent; returns what it had waited for."""
        if now < self._not_before:
            return "rate"  # that is all the client wants: it says nothing of the network
        why = "socket" if self.window.is_open(now) else "window"
        self.window.skipped()
        self.ladder.skipped(now)
        return why

    def send(self, frame: EncodedFrame, now: float, max_fps: float | None) -> tuple[int, bytes]:
        """Choose the file to be sent, at once, and count it as sent; returns its rung too."""
        rung, data = frame.nearest(self.ladder.rung)
        self.window.sent(frame.seq, now, frame.interval_s)
        self.ladder.sent(frame.seq, rung, len(data), now)
        if max_fps is not None:
            # on a grid of its own, or a frame that is a hair early would halve the rate
            grid = self._not_before + 1 / max_fps
            self._not_before = grid if grid > now else now + 1 / max_fps
        return rung, data

    def acknowledged(self, seq: int, now: float) -> None:
        """Take the client's word that it has shown all frames up to `seq`."""
        self.window.acknowledged(seq, now)
        before = self.ladder.rung
        self.ladder.acknowledged(seq, now)
        if self.ladder.rung != before:
            self.window.resize(relative_size(self.ladder.rung, before))
