"""The queue of one client: messages and sound in order, and the newest frame of each video track."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.track_sender import TrackSender
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, MediaFile, VideoPiece
from reactor_runtime.server.encoding.encodings import DEFAULT, choose_encoding
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.wire.codec import size_bytes_of
from reactor_runtime.wire.containers import MP4, Container
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View

# An item for a client: a text, a binary message that is never replaced, or a frame or piece of sound.
Item: TypeAlias = str | bytes | MediaFile
MOST_MESSAGES = 1000
MOST_MESSAGE_BYTES = 4 << 20
MOST_SOUND_S = 1.0
MOST_KEPT = 8
# How long a raw frame waits before it is tried again, while viewers leave too many bytes of such frames unread.
RAW_RETRY_S = 0.25
# Sums of durations are inexact.
ROUNDING_S = 1e-6


@dataclass(slots=True)
class Counters:
    """Frames offered to a client, sent to it, and skipped because the client or its network was slow."""

    offered: int = 0
    sent: int = 0
    skipped: int = 0
    # Of the frames that were sent.
    sent_bytes: int = 0
    sent_by_track: dict[str, int] = field(default_factory=dict)


class _KeptFrame(NamedTuple):
    """A frame that nothing replaces, with the name of its encoding and its rung."""

    file: MediaFile
    encoding: str
    rung: int


class SoundQueue:
    """Keep waiting sound in order; above one second a track, drop the oldest of that track.

    If the dropped piece was the first after a flush, the next one gets its flag.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, EncodedSound]] = deque()
        self._seconds: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def oldest_order(self) -> int | None:
        """Return the order number of the oldest piece."""
        return self._waiting[0][0] if self._waiting else None

    def put_sound(self, order: int, sound: EncodedSound) -> None:
        """Add a piece; keep a piece longer than a second as the only one of its track."""
        track = sound.track
        self._waiting.append((order, sound))
        self._seconds[track] = self._seconds.get(track, 0.0) + sound.duration_s
        while self._seconds[track] > MOST_SOUND_S + ROUNDING_S:
            oldest, *others = (item for item in self._waiting if item[1].track == track)
            if not others:
                return
            if oldest[1].header.is_after_flush:
                order, next_oldest = others[0]
                self._waiting[self._waiting.index(others[0])] = (order, next_oldest.as_after_flush())
            self._waiting.remove(oldest)
            self._seconds[track] -= oldest[1].duration_s

    def take_sound(self) -> MediaFile:
        """Remove and return the oldest piece."""
        _, sound = self._waiting.popleft()
        self._seconds[sound.track] -= sound.duration_s
        return MediaFile("audio", sound.header, sound.data)

    def drop_tracks(self, unwanted: Callable[[str], bool] = lambda _: True) -> list[MediaHeader]:
        """Drop the sound of the tracks that are `unwanted`, without an argument of all; return the headers."""
        waiting, self._waiting = self._waiting, deque()
        self._seconds.clear()
        for order, sound in waiting:
            if not unwanted(sound.track):
                self.put_sound(order, sound)
        return [sound.header for _, sound in waiting if unwanted(sound.track)]


class Outbox:
    """Hold what one client is still to be sent; its sender takes from it as fast as the socket allows.

    Messages: at most 1,000 and 4 MiB; further ones are refused. Sound: at most one second a track; then the oldest is
    dropped. Video: one frame a track, which a newer one replaces. Video streams: the pieces that the client's cohort
    has encoded; the cohort encodes no further piece until these are taken. Items are sent in the order in which they
    were queued, but a frame that waits for an acknowledgement, or for the rate of the view, holds back no other item.
    The first frame and piece of sound that are sent after a flush have the flag for that.

    With `full_size_only` the client is sent no frame that was scaled down; without `may_acknowledge` it acknowledges
    none. After `keep_media` no frame is replaced and no sound dropped: both are sent in order with the messages.
    """

    def __init__(
        self,
        options: ClientOptions,
        view: View | None = None,
        *,
        full_size_only: bool = False,
        may_acknowledge: bool = True,
    ) -> None:
        # The address whose limit counts the raw frames of this client, None for a controller; and how many of their
        # bytes the socket has not taken.
        self._raw_address: str | None = None
        self._raw_bytes = options.raw_bytes
        self._unread_bytes = 0
        self._may_acknowledge = may_acknowledge
        self._metrics = options.metrics
        self.counters = Counters()
        # Nothing is queued any more.
        self.finished = False
        self.view = view or View()
        self._full_size_only = full_size_only
        self._encodings = options.encodings
        # The encoding of the client's files; a video stream has one of its own.
        self.encoding = choose_encoding(self.view.codecs or (), self._encodings)
        self.sounds = SoundQueue()
        # By track; they stay when the view leaves a track out, since they know the network.
        self.track_senders: dict[str, TrackSender] = {}
        # Wakes the socket sender.
        self._on_queued: Callable[[], object] = _nothing
        self._clock = options.clock
        # Each queued item gets the next number; the item with the lowest one is sent first.
        self._orders = itertools.count(1)
        # Messages with their sizes, and frames and sound that are kept, whose size here is 0.
        self._messages: deque[tuple[int, str | bytes | MediaFile | _KeptFrame, int]] = deque()
        self._message_bytes = 0
        # How many frames and pieces of sound are kept, and what is called when there is room for more; None while
        # newer ones replace older ones.
        self._kept = 0
        self._on_room: Callable[[], object] | None = None
        # The frame of each track that waits, and the encoding that the client takes it in.
        self._newest: dict[str, tuple[int, EncodedFrame, TrackEncoding]] = {}
        # The tracks whose first frame or piece of sound after a flush was not sent, with its number.
        self._after_flush: dict[str, int] = {}
        # The pieces of all video streams.
        self._pieces: deque[tuple[int, VideoPiece]] = deque()

    def notify_queued(self, on_queued: Callable[[], object] | None) -> None:
        """Call `on_queued`, on the loop's thread, whenever there may be something new to take; None ends that."""
        self._give_back_bytes()
        self._on_queued = on_queued or _nothing

    def limit_raw(self, address: str | None) -> None:
        """Count the raw frames that the socket has not taken against the limit of `address`; None ends that.

        A controller has no limit: there is one for each seat, and it holds one unread frame at most.
        """
        if address != self._raw_address:
            self._give_back_bytes()
            self._raw_address = address

    def keep_media(self, on_room: Callable[[], object]) -> None:
        """Send all frames and sound from here on; they are offered while the outbox `has_room`.

        `on_room` is called when the outbox has room again; it must not offer frames or sound before it has returned.
        """
        self._on_room = on_room

    @property
    def keeps_media(self) -> bool:
        """Return whether all frames and sound are sent."""
        return self._on_room is not None

    @property
    def has_room(self) -> bool:
        """Return whether frames and sound may be offered without keeping too many."""
        return self._kept < MOST_KEPT or self.finished

    def queue_message(self, message: str | bytes) -> bool:
        """Queue a message; return False, and do not queue it, when the queue is full."""
        size = size_bytes_of(message)
        if self._message_bytes + size > MOST_MESSAGE_BYTES or len(self._messages) >= MOST_MESSAGES:
            return False
        self._message_bytes += size
        self._messages.append((next(self._orders), message, size))
        self._on_queued()
        return True

    def accepts(self, frame: EncodedFrame) -> bool:
        """Return whether the frame has a file for the client, in full size if it needs that."""
        return self._encoding_of(frame) is not None

    def _encoding_of(self, frame: EncodedFrame) -> TrackEncoding | None:
        """Return the encoding in which the client gets a frame; None if the frame has no file for it.

        It is its own, or the default one for a frame that was encoded before the client chose another.
        """
        sender = self.track_sender(frame.track)
        if sender.takes_video is not None:
            return None
        encoding = sender.encoding if sender.encoding in frame.files else DEFAULT
        if encoding not in frame.files or (self._full_size_only and not frame.is_full_size(encoding)):
            return None
        return encoding

    def offer_frame(self, frame: EncodedFrame) -> None:
        """Queue a frame in place of an older one of its track, if the view has the track and the frame is accepted."""
        track = frame.track
        if self._unwanted(track) or (encoding := self._encoding_of(frame)) is None:
            self._note_skipped(frame.header)
            return
        self.counters.offered += 1
        sender = self.track_senders[track]
        if self._on_room is not None:
            rung, file = frame.file_on(encoding, sender.ladder.rung)
            if track in self._after_flush:
                file = self._flagged(file, encoding.container)
            self._keep(_KeptFrame(file, encoding.name, rung))
            return
        if track in self._newest:
            self._replace(track)
            self.counters.skipped += 1
            self._metrics.skipped.add(sender.frame_skipped(self._clock.now()))
        self._newest[track] = (next(self._orders), frame, encoding)
        self._on_queued()

    def put_piece(self, piece: VideoPiece) -> None:
        """Queue a piece of a video stream; it takes the place of a file that waits."""
        track = piece.file.header.track
        if self._unwanted(track) or self.track_sender(track).takes_video is None:
            # The client may have been sent the frame as a file.
            if not self.track_sender(track).has_had(piece.file.header.seq):
                self._note_skipped(piece.file.header)
            return
        if track in self._newest:
            self._replace(track)
        self._pieces.append((next(self._orders), piece))
        self._on_queued()

    def track_sender(self, track: str) -> TrackSender:
        """Return the track sender of a track, which is made when it is needed first."""
        sender = self.track_senders.get(track)
        if sender is None:
            sender = self.track_senders[track] = TrackSender(self.encoding, may_acknowledge=self._may_acknowledge)
        return sender

    def skip_frame(self, header: MediaHeader, reason: str) -> None:
        """Count a frame of a track in the view that is skipped for `reason` instead of being offered."""
        self._note_skipped(header)
        if not self._unwanted(header.track):
            self.counters.offered += 1
            self.counters.skipped += 1
            self._metrics.skipped.add(reason)

    def queue_sound(self, sound: EncodedSound) -> None:
        """Queue a piece of sound, unless the view leaves its track out."""
        if self._unwanted(sound.track):
            self._note_skipped(sound.header)
            return
        if self._after_flush.pop(sound.track, None) is not None:
            sound = sound.as_after_flush()
        if self._on_room is not None:
            self._keep(MediaFile("audio", sound.header, sound.data))
            return
        self.sounds.put_sound(next(self._orders), sound)
        self._on_queued()

    def acknowledge(self, track: str, seq: int, held_s: float = 0.0) -> None:
        """Count all frames of `track` up to `seq` as shown by the client, the last of them `held_s` after receipt."""
        if track in self.track_senders:
            self.track_senders[track].frames_acknowledged(seq, self._clock.now(), held_s)
            self._on_queued()

    def request_key(self, track: str) -> None:
        """Begin the video stream of a track anew, as the client can't decode it; it gets files until then."""
        if track in self.track_senders:
            self.track_senders[track].request_key()

    def set_view(self, view: View) -> None:
        """Change what the client is sent and its encoding, and drop what waits of other tracks.

        A frame that waits is sent in the encoding before. A view without `codecs` or `seat` keeps the last ones.
        """
        has_other_rate = view.max_fps != self.view.max_fps
        codecs = self.view.codecs if view.codecs is None else view.codecs
        self.view = replace(view, codecs=codecs, seat=self.view.seat if view.seat is None else view.seat)
        encoding = choose_encoding(self.view.codecs or (), self._encodings)
        if encoding is not self.encoding:
            self.encoding = encoding
            for sender in self.track_senders.values():
                sender.change_encoding(encoding)
        if has_other_rate:
            for sender in self.track_senders.values():
                sender.renew_rate()
        for track in [track for track in self._newest if self._unwanted(track)]:
            self._replace(track)
        for header in self.sounds.drop_tracks(self._unwanted):
            self._note_skipped(header)
        self._on_queued()

    def finish(self) -> None:
        """Drop the media and refuse new items; messages that wait are still sent."""
        self.finished = True
        self.drop_media()
        self._on_queued()

    def drop_media(self) -> None:
        """Drop the frames and the sound that wait."""
        self._newest.clear()
        self._after_flush.clear()
        self._pieces.clear()
        for sender in self.track_senders.values():
            sender.drop_pieces()
        self.sounds.drop_tracks()

    def leave_session(self) -> None:
        """Drop the media that waits, and expect no acknowledgement of what was sent."""
        self.drop_media()
        for track_sender in self.track_senders.values():
            track_sender.begin_session()

    def take_next(self) -> tuple[Item | None, float | None]:
        """Remove and return the oldest item that may be sent; if there is none, return None and when to retry.

        The socket has taken the item before it.
        """
        self._give_back_bytes()
        now = self._clock.now()
        track, retry_at = self._sendable_track(now)
        frame_order = self._newest[track][0] if track is not None else None
        message_order = self._messages[0][0] if self._messages else None
        piece_order = self._pieces[0][0] if self._pieces else None
        orders = [
            order for order in (message_order, self.sounds.oldest_order, frame_order, piece_order) if order is not None
        ]
        if not orders:
            return None, retry_at
        oldest = min(orders)
        if track is not None and oldest == frame_order:
            return self._take_frame(track, now), None
        if oldest == piece_order:
            return self._take_piece(now), None
        if message_order == oldest:
            _, message, size = self._messages.popleft()
            self._message_bytes -= size
            return self._take_kept(message) if isinstance(message, MediaFile | _KeptFrame) else message, None
        return self.sounds.take_sound(), None

    def _keep(self, media: _KeptFrame | MediaFile) -> None:
        """Queue a frame or sound that nothing replaces."""
        self._kept += 1
        self._messages.append((next(self._orders), media, 0))
        self._on_queued()

    def _take_kept(self, media: _KeptFrame | MediaFile) -> MediaFile:
        """Count a frame or sound that is sent and was not to be replaced; return its file."""
        self._kept -= 1
        if isinstance(media, _KeptFrame):
            self._count_sent(*media)
        if self._on_room is not None and self._kept == MOST_KEPT - 1:
            self._on_room()
        return media.file if isinstance(media, _KeptFrame) else media

    def _sendable_track(self, now: float) -> tuple[str | None, float | None]:
        best, retry_at = None, None
        for track, (order, _, encoding) in self._newest.items():
            at = self.track_senders[track].next_send_at(now)
            if (
                self._raw_address is not None
                and encoding is not DEFAULT
                and not self._raw_bytes.has_room(self._raw_address)
            ):
                at = max(at, now + RAW_RETRY_S)
            if at > now:
                retry_at = at if retry_at is None else min(at, retry_at)
            elif best is None or order < self._newest[best][0]:
                best = track
        return best, retry_at

    def _take_frame(self, track: str, now: float) -> MediaFile:
        _, frame, encoding = self._newest.pop(track)
        rung, file = self.track_senders[track].send_frame(frame, encoding, now, self.view.max_fps)
        if track in self._after_flush:
            file = self._flagged(file, encoding.container)
        self._count_sent(file, encoding.name, rung)
        if self._raw_address is not None and encoding is not DEFAULT:
            self._unread_bytes = len(file.data)
            self._raw_bytes.add(self._raw_address, self._unread_bytes)
        return file

    def _give_back_bytes(self) -> None:
        if self._raw_address is not None and self._unread_bytes:
            self._raw_bytes.add(self._raw_address, -self._unread_bytes)
            self._unread_bytes = 0

    def _take_piece(self, now: float) -> MediaFile:
        _, piece = self._pieces.popleft()
        track = piece.file.header.track
        self._count_sent(piece.file, piece.encoding, TOP)
        self.track_senders[track].send_piece(piece, now, self.view.max_fps)
        return self._flagged(piece.file, MP4) if track in self._after_flush else piece.file

    def _replace(self, track: str) -> None:
        """Drop the frame of a track that waits."""
        _, frame, _ = self._newest.pop(track)
        self._note_skipped(frame.header)

    def _note_skipped(self, header: MediaHeader) -> None:
        if header.is_after_flush:
            self._after_flush[header.track] = header.seq

    def _flagged(self, file: MediaFile, container: Container) -> MediaFile:
        """Return a file that is sent, with the flag of a frame that was skipped before it.

        A piece of video may have waited since before the flush.
        """
        if file.header.seq < self._after_flush[file.header.track]:
            return file
        del self._after_flush[file.header.track]
        return file if file.header.is_after_flush else file.as_after_flush(container)

    def _count_sent(self, file: MediaFile, encoding: str, rung: int) -> None:
        track = file.header.track
        self.counters.sent += 1
        self.counters.sent_bytes += len(file.data)
        self._metrics.frames.sent[track, encoding, rung] += 1
        self.counters.sent_by_track[track] = self.counters.sent_by_track.get(track, 0) + 1

    def _unwanted(self, track: str) -> bool:
        return self.finished or not self.view.shows(track)


def _nothing() -> None:
    """Do nothing while no sender runs."""
