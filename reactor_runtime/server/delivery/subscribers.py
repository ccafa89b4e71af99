"""The clients that receive a session's tracks: its controller and its viewers, and the latest frames for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.cohorts import Cohorts, VideoDelivery
from reactor_runtime.server.delivery.fanout import Broadcast, CohortPiece, Fanout
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, Snapshot
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.wire.codec import encode_text
from reactor_runtime.wire.messages import View


class Subscribers:
    """Pass frames, sound and messages to every client; a slow client skips frames and delays no other.

    With `video` clients may take a track as video.
    """

    def __init__(
        self,
        fanout: Fanout | None = None,
        latest_frames: LatestFrames | None = None,
        *,
        video: VideoDelivery | None = None,
    ) -> None:
        self._fanout = Fanout() if fanout is None else fanout
        self._latest_frames = LatestFrames() if latest_frames is None else latest_frames
        self._cohorts = Cohorts(video, self._fanout.publish, self._offer_latest)

    def __iter__(self) -> Iterator[Client]:
        return iter(self._fanout)

    def __contains__(self, client: Client) -> bool:
        return client in self._fanout

    @property
    def has_clients(self) -> bool:
        return self._fanout.has_members

    def join(self, client: Client, *, controls: bool = False, held: bool = True) -> None:
        """Add a client, before all others if it `controls`; with `held` offer it the latest frames at once."""
        self._fanout.join(client, first=controls)
        self._cohorts.update(client)
        for frame in self._latest_frames if held else ():
            self._offer_held(frame, client)

    def set_view(self, client: Client, view: View) -> None:
        """Change what a client is sent, and offer it at once the latest frames that its old view left out.

        A client that changes its encoding gets the next frame of each track in it, and until then the default one.
        """
        self._fanout.catch_up(client)
        before = client.outbox.view
        client.outbox.set_view(view)
        if client in self._fanout:
            self._cohorts.update(client)
        for frame in self._latest_frames:
            is_new = view.shows(frame.track) and not before.shows(frame.track)
            if is_new and client in self._fanout:
                self._offer_held(frame, client)

    def leave(self, client: Client) -> None:
        """Pass a client what was published before, and remove it."""
        self._fanout.leave(client)
        self._cohorts.leave(client)

    def rungs_in_use(self, track: str) -> dict[TrackEncoding, list[int]]:
        """Return the rungs that clients of a track are on, the best first, by encoding, the default one first.

        Without a client that is the top rung of the default encoding; none if all clients take the track as video.
        """
        outboxes = [client.outbox for client in self._fanout if client.outbox.view.shows(track)]
        if not outboxes:
            return {DEFAULT: [TOP]}
        all_senders = [outbox.track_senders.get(track) or outbox.track_sender(track) for outbox in outboxes]
        senders = [sender for sender in all_senders if sender.takes_video is None]
        encodings = {sender.encoding for sender in senders}
        return {
            encoding: sorted({sender.ladder.rung for sender in senders if sender.encoding is encoding})
            for encoding in sorted(encodings, key=lambda each: each is not DEFAULT)
        }

    def needs_pixels(self, track: str) -> bool:
        """Return whether clients take a track as video."""
        return self._cohorts.needs_pixels(track)

    def show_frame(self, frame: EncodedFrame) -> None:
        """Keep a frame as the latest of its track and offer it to all clients."""
        self._latest_frames.put_frame(frame)
        # Without pixels: the outbox of each slow client would keep those of another frame.
        self._fanout.publish(frame if frame.pixels is None else replace(frame, pixels=None))
        if frame.pixels is not None:
            for client in self._fanout:
                if not client.outbox.accepts(frame):
                    self._offer_full_size(frame, client)
        self._cohorts.offer_frame(frame)

    @property
    def has_room(self) -> bool:
        """Return whether another frame may be shown: the controller of a stepped session takes every frame in time."""
        controller = self._fanout.first
        return controller is None or controller.outbox.has_room

    async def snapshot(self, track: str) -> Snapshot | None:
        """Return the latest frame of a track in full size, as it is sent to a client that joins."""
        frame = self._latest_frames.get(track)
        if frame is not None and frame.pixels is not None:
            frame = await asyncio.shield(self._latest_frames.encode_full_size(track))
        if frame is None or DEFAULT not in frame.files:
            return None
        return Snapshot(DEFAULT.container.media_type, frame.as_held().file_on(DEFAULT, TOP)[1].data)

    def play_sound(self, sound: EncodedSound) -> None:
        self._fanout.publish(sound)

    def drop_sound(self) -> None:
        """Drop the sound that waits for clients: the model has flushed it."""
        self._fanout.drop_items(EncodedSound)
        for client in self._fanout:
            client.outbox.sounds.drop_tracks()

    def send_message(self, kind: str, data: Mapping[str, Any], *, but: Collection[Client] = ()) -> None:
        """Send a message to all clients except those in `but`, such as those that wait for a session of their own."""
        self._fanout.publish(Broadcast(encode_text(kind, data), frozenset(but)))

    def send_text(self, text: str) -> None:
        """Send an encoded message to all clients."""
        self._fanout.publish(Broadcast(text, ()))

    def for_each(self, each: Callable[[Client], None]) -> None:
        """Call `each` with every client, after the frames and messages published before."""
        self._fanout.publish(each)

    def clear_frames(self) -> None:
        """Drop the frames and sound of the session before, so that no client of the next one sees them."""
        self._latest_frames.clear()
        self._cohorts.reset()
        self._fanout.drop_items(EncodedFrame, EncodedSound, CohortPiece)
        for client in self._fanout:
            client.outbox.drop_media()

    def _offer_latest(self, client: Client, track: str) -> None:
        """Offer a client that takes files of a track again the latest frame, if it has not had that as video."""
        frame = self._latest_frames.get(track)
        if frame is None or client not in self._fanout or client.outbox.track_sender(track).has_had(frame.seq):
            return
        self._offer_held(frame, client)

    def _offer_held(self, frame: EncodedFrame, client: Client) -> None:
        """Offer a client the latest frame of a track, which is encoded first if there is no file for the client."""
        if client.outbox.accepts(frame):
            client.outbox.offer_frame(frame.as_held())
        else:
            self._offer_full_size(frame, client)

    def _offer_full_size(self, frame: EncodedFrame, client: Client) -> None:
        """Encode the latest frame in full size for a client that accepts none of its files, and offer it then."""

        def offer(encoding: asyncio.Future[EncodedFrame]) -> None:
            full = encoding.result()
            if self._latest_frames.get(full.track) is full and client in self._fanout and client.outbox.accepts(full):
                client.outbox.offer_frame(full.as_held())

        outbox = client.outbox
        takes_files = outbox.track_sender(frame.track).takes_video is None
        if frame.pixels is not None and takes_files and outbox.view.shows(frame.track):
            self._latest_frames.encode_full_size(frame.track).add_done_callback(offer)
