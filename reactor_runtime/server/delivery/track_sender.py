"""One video track on its way to one client: its encoding, its send window, its quality and its rate."""

from __future__ import annotations

import math
from collections.abc import Callable

from reactor_runtime.server.delivery.send_window import SendWindow
from reactor_runtime.server.encoding.encoded import EncodedFrame, MediaFile, VideoPiece
from reactor_runtime.server.encoding.ladder import AMPLE, SPARE, Ladder
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.server.encoding.video_rate import VideoRate

# The first rate of a client of whose network nothing is known.
FIRST_BITS_PER_S = 4e6
# The wait before a first climb, where files have shown what the network carries.
AFTER_FILES_S = 4.0


class TrackSender:
    """Decide when the next frame may be sent and on which rung, from what was sent, skipped and acknowledged.

    While the client takes the track as video, its cohort asks instead whether the next piece may be encoded; the send
    window is the same for both.
    """

    def __init__(self, encoding: TrackEncoding, *, may_acknowledge: bool = True) -> None:
        self.encoding = encoding
        self.window = SendWindow(may_acknowledge=may_acknowledge)
        self.ladder = Ladder(encoding.rungs)
        self._not_before = 0.0
        # Between two frames, by the client's choice.
        self._shortest_s = 0.0
        # What the network carries as video; kept when the client returns to files for a while.
        self.rate: VideoRate | None = None
        # The name of its encoding, if it gets pieces of a video stream, from its first key on, and no files.
        self.takes_video: str | None = None
        # The pieces that were published to the client, and that its socket has not taken.
        self.unsent = 0
        # Why a client that can decode video gets files.
        self.why_no_video: str | None = None
        self._on_room: Callable[[], object] = _nothing
        self._on_key_wanted: Callable[[], object] = _nothing
        self._newest_seq = -1
        # The bytes of the newest file.
        self._file_bytes = 0
        self._keeps_size = False

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

    def renew_rate(self) -> None:
        """Allow the next frame at once: the client has chosen another rate."""
        self._not_before = self._shortest_s = 0.0
        self._on_room()

    def send_frame(
        self, frame: EncodedFrame, encoding: TrackEncoding, now: float, max_fps: float | None
    ) -> tuple[int, MediaFile]:
        """Choose the file of an encoding to send, count it as sent, and return its rung and the file."""
        rung, file = frame.file_on(encoding, self.ladder.rung)
        self.window.frame_sent(frame.seq, now, frame.interval_s, len(file.data))
        self.ladder.frame_sent(frame.seq, rung, len(file.data), now)
        self._newest_seq, self._file_bytes = frame.seq, len(file.data)
        self._limit_rate(now, max_fps)
        return rung, file

    def frames_acknowledged(self, seq: int, now: float, held_s: float = 0.0) -> None:
        """Count all frames up to `seq` as shown by the client, the last of them `held_s` after its receipt."""
        self.window.frames_acknowledged(seq, now)
        if self.takes_video is not None and self.rate is not None:
            rate = self.rate.bits_per_s
            self.rate.frames_acknowledged(seq, held_s, now)
            if self.rate.bits_per_s != rate:
                self.window.resize(self.rate.bits_per_s / rate)
            if self.rate.bits_per_s > rate:
                self.window.forget_round_trips()
            self._on_room()
            return
        before = self.ladder.rung
        self.ladder.frames_acknowledged(seq, now)
        if self.ladder.rung != before:
            self.window.resize(self.ladder.relative_size(self.ladder.rung, before))

    def change_encoding(self, encoding: TrackEncoding) -> None:
        """Send files of another encoding; the network is the same."""
        self.encoding = encoding
        self.renew_ladder()

    def renew_ladder(self) -> None:
        """Begin with the best quality again."""
        rungs = self.encoding.rungs
        self.ladder = Ladder(tuple(rung for rung in rungs if rung.scale == 1) if self._keeps_size else rungs)

    def keep_size(self, keeps_size: bool) -> None:
        """Offer files in full size alone, as to a client that takes video instead of smaller frames."""
        if keeps_size != self._keeps_size:
            self._keeps_size = keeps_size
            self.renew_ladder()

    def video_rate(self, now: float) -> VideoRate:
        """Return the rate of the client's network for video, from what it carried of files."""
        if self.ladder.is_limited_by_network and self.ladder.delivered_bytes_per_s:
            carried = 8 * SPARE * self.ladder.delivered_bytes_per_s
            self.rate = VideoRate(carried, now, AFTER_FILES_S)
        elif self.rate is None:
            self.rate = VideoRate(max(FIRST_BITS_PER_S, 8 * SPARE * self.ladder.fastest_bytes_per_s), now)
        return self.rate

    def carries_files(self, interval_s: float) -> bool:
        """Return whether a piece of video has shown a network that carries files of the best quality with ease."""
        needed = 8 * self._file_bytes / self.ladder.relative_size(self.ladder.rung, TOP) / interval_s
        return self.rate is not None and 0 < AMPLE * needed <= self.rate.fastest_bits_per_s

    def begin_video(self, encoding: str, *, on_room: Callable[[], object], on_key_wanted: Callable[[], object]) -> None:
        """Send pieces of video from here on, and call `on_room` when the next one may be encoded."""
        self.takes_video = encoding
        self._on_room, self._on_key_wanted = on_room, on_key_wanted

    def end_video(self) -> None:
        """Send files from here on."""
        self.takes_video = None
        self.unsent = 0
        self._on_room = self._on_key_wanted = _nothing
        self.ladder.begin_session()

    def pace_s(self, interval_s: float) -> float:
        """Return the time between two frames that the client takes, whatever its network carries."""
        painter_s = 0.0 if self.rate is None else self.rate.painter_s
        return max(interval_s, painter_s, self._shortest_s)

    def has_had(self, seq: int) -> bool:
        """Return whether the client was sent this frame or a newer one."""
        return seq <= self._newest_seq

    def request_key(self) -> None:
        """Begin the stream anew, if the client takes video."""
        self._on_key_wanted()

    def room_at(self, now: float) -> float:
        """Return when the next piece of video may be encoded; infinity if that depends on the socket."""
        return math.inf if self.unsent else self.next_send_at(now)

    def piece_skipped(self, now: float) -> str:
        """Count a frame that was replaced before its cohort encoded it, and return what it had waited for."""
        if now < self._not_before:
            return "rate"
        if not self.unsent and self.window.is_open(now):
            return "cohort"
        self.window.frame_skipped()
        if self.rate is not None:
            self.rate.frame_skipped(now)
        return "socket" if self.unsent else "window"

    def drop_pieces(self) -> None:
        """Forget what was published and not sent; a frame with any number may follow, as of another session."""
        self.unsent = 0
        self._newest_seq = -1

    def send_piece(self, piece: VideoPiece, now: float, max_fps: float | None) -> None:
        """Count a piece of video as sent."""
        assert self.rate is not None, "a client gets no video before its rate is known"
        self.unsent = max(0, self.unsent - 1)
        seq = piece.file.header.seq
        # The first pieces may show frames that were sent as files already.
        if seq > self._newest_seq:
            self.window.frame_sent(seq, now, piece.interval_s, len(piece.file.data))
            self.rate.frame_sent(seq, len(piece.file.data), piece.paced_s, now)
            self._newest_seq = seq
        self._limit_rate(now, max_fps)
        self._on_room()

    def _limit_rate(self, now: float, max_fps: float | None) -> None:
        self._shortest_s = 0.0 if max_fps is None else 1 / max_fps
        if max_fps is not None:
            # On a grid of its own: otherwise a frame that is slightly early would halve the rate.
            grid = self._not_before + 1 / max_fps
            self._not_before = grid if grid > now else now + 1 / max_fps


def _nothing() -> None:
    """Do nothing while the client takes no video."""
