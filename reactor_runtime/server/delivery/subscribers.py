"""Everyone who sees the running session: its controller and the viewers, and the picture on their screens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.fanout import Broadcast, Fanout
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.wire.codec import encode_text
from reactor_runtime.wire.messages import View


class Subscribers:
    """Pass what is shown and said to every client; one that doesn't keep up skips frames and delays nobody."""

    def __init__(self, fanout: Fanout | None = None, screen: LatestFrames | None = None) -> None:
        self._members = Fanout() if fanout is None else fanout
        self._screen = LatestFrames() if screen is None else screen

    def __iter__(self) -> Iterator[Client]:
        return iter(self._members)

    def __contains__(self, client: Client) -> bool:
        return client in self._members

    def join(self, client: Client, *, controls: bool = False, held: bool = True) -> None:
        """See everything from here on, before all others who `controls`, and with `held` at once what is on screen."""
        self._members.join(client, first=controls)
        for frame in self._screen if held else ():
            if client.takes(frame):
                client.outbox.offer(frame.as_held())
            else:
                self._give_whole(frame, client)

    def set_view(self, client: Client, view: View) -> None:
        """Send the client from here on what it asks for, and at once the picture on screen of what it went without."""
        self._members.catch_up(client)
        before = client.outbox.view
        client.outbox.set_view(view)
        for frame in self._screen:
            if client in self._members and view.shows(frame.track) and not before.shows(frame.track):
                client.outbox.offer(frame.as_held())

    def leave(self, client: Client) -> None:
        self._members.leave(client)

    def rungs(self, track: str) -> list[int]:
        """List the rungs of the ladder that someone is on, the best first; the top one where nobody is there."""
        track_senders = (
            each.outbox.track_senders.get(track) for each in self._members if each.outbox.view.shows(track)
        )
        return sorted({0 if track_sender is None else track_sender.ladder.rung for track_sender in track_senders}) or [
            0
        ]

    def show(self, frame: EncodedFrame) -> None:
        self._screen.show(frame)
        # pixels stay here: a slot of each slow client would keep those of another frame
        self._members.put(frame if frame.pixels is None else replace(frame, pixels=None))
        if not frame.in_full_size:
            for client in self._members:
                if not client.takes(frame):
                    self._give_whole(frame, client)

    async def on_screen(self, track: str) -> EncodedFrame | None:
        """Give the picture on screen in full size, as it is sent to a newcomer."""
        frame = self._screen.get(track)
        if frame is not None and frame.pixels is not None:
            frame = await asyncio.shield(self._screen.grow(track))
        return None if frame is None else frame.as_held()

    def play(self, sound: EncodedSound) -> None:
        self._members.put(sound)

    def drop_sound(self) -> None:
        """Drop the sound that waits for clients: the model has flushed it."""
        self._members.drop(EncodedSound)
        for client in self._members:
            client.outbox.sounds.drop()

    def send_message(self, kind: str, data: Mapping[str, Any], *, but: Collection[Client] = ()) -> None:
        """Tell all but a few; those in line, say, wait for news of a session of their own."""
        self._members.put(Broadcast(encode_text(kind, data), frozenset(but)))

    def for_each(self, each: Callable[[Client], None]) -> None:
        """Call something for everyone, in the order of what is shown and said."""
        self._members.put(each)

    def clear_screen(self) -> None:
        """Forget the pictures of the session before, those on their way too: the next client must not see them."""
        self._screen.clear()
        self._members.drop(EncodedFrame, EncodedSound)
        for client in self._members:
            client.outbox.drop_media()

    def _give_whole(self, frame: EncodedFrame, client: Client) -> None:
        """Offer the frame on screen to who doesn't take it as it is, once it is there in full size."""

        def offer(growing: asyncio.Future[EncodedFrame]) -> None:
            whole = growing.result()
            if self._screen.get(whole.track) is whole and client in self._members and client.takes(whole):
                client.outbox.offer(whole.as_held())

        if frame.pixels is not None and client.outbox.view.shows(frame.track):
            self._screen.grow(frame.track).add_done_callback(offer)
