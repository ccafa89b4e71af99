"""Everyone who sees the running session: its controller and the viewers, and the picture on their screens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reactor_runtime.server.connection import Connection
from reactor_runtime.server.encoded import EncodedFrame, EncodedSound
from reactor_runtime.server.fanout import Fanout, Said
from reactor_runtime.server.screen import Screen
from reactor_runtime.wire.codec import encode_text
from reactor_runtime.wire.messages import View


class Audience:
    """Pass what is shown and said to every client; one that doesn't keep up skips frames and delays nobody."""

    def __init__(self, fanout: Fanout | None = None, screen: Screen | None = None) -> None:
        self._members = Fanout() if fanout is None else fanout
        self._screen = Screen() if screen is None else screen

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._members)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._members

    def join(self, connection: Connection, *, controls: bool = False, held: bool = True) -> None:
        """See everything from here on, before all others who `controls`, and with `held` at once what is on screen."""
        self._members.join(connection, first=controls)
        for frame in self._screen if held else ():
            if connection.takes(frame):
                connection.outbox.offer(frame.as_held())
            else:
                self._give_whole(frame, connection)

    def look(self, connection: Connection, view: View) -> None:
        """Send the client from here on what it asks for, and at once the picture on screen of what it went without."""
        self._members.catch_up(connection)
        before, connection.view = connection.view, view
        connection.outbox.set_view(view)
        for frame in self._screen:
            if connection in self._members and view.shows(frame.track) and not before.shows(frame.track):
                connection.outbox.offer(frame.as_held())

    def leave(self, connection: Connection) -> None:
        self._members.leave(connection)

    def rungs(self, track: str) -> list[int]:
        """List the rungs of the ladder that someone is on, the best first; the top one where nobody is there."""
        ways = (each.outbox.ways.get(track) for each in self._members if each.view.shows(track))
        return sorted({0 if way is None else way.ladder.rung for way in ways}) or [0]

    def show(self, frame: EncodedFrame) -> None:
        self._screen.show(frame)
        # pixels stay here: a slot of each slow client would keep those of another frame
        self._members.put(frame if frame.pixels is None else replace(frame, pixels=None))
        if not frame.in_full_size:
            for connection in self._members:
                if not connection.takes(frame):
                    self._give_whole(frame, connection)

    async def on_screen(self, track: str) -> EncodedFrame | None:
        """Give the picture on screen in full size, as it is sent to a newcomer."""
        frame = self._screen.get(track)
        if frame is not None and frame.pixels is not None:
            frame = await asyncio.shield(self._screen.grow(track))
        return None if frame is None else frame.as_held()

    def play(self, sound: EncodedSound) -> None:
        self._members.put(sound)

    def hush(self) -> None:
        """Drop the sound that waits for clients: the model has flushed it."""
        self._members.drop(EncodedSound)
        for connection in self._members:
            connection.outbox.hush()

    def tell(self, kind: str, data: Mapping[str, Any], *, but: Collection[Connection] = ()) -> None:
        """Tell all but a few; those in line, say, wait for news of a session of their own."""
        self._members.put(Said(encode_text(kind, data), frozenset(but)))

    def visit(self, each: Callable[[Connection], None]) -> None:
        """Call something for everyone, in the order of what is shown and said."""
        self._members.put(each)

    def clear_screen(self) -> None:
        """Forget the pictures of the session before, those on their way too: the next client must not see them."""
        self._screen.clear()
        self._members.drop(EncodedFrame, EncodedSound)
        for connection in self._members:
            connection.outbox.drop_media()

    def _give_whole(self, frame: EncodedFrame, connection: Connection) -> None:
        """Offer the frame on screen to who doesn't take it as it is, once it is there in full size."""

        def offer(growing: asyncio.Future[EncodedFrame]) -> None:
            whole = growing.result()
            if self._screen.get(whole.track) is whole and connection in self._members and connection.takes(whole):
                connection.outbox.offer(whole.as_held())

        if frame.pixels is not None and connection.view.shows(frame.track):
            self._screen.grow(frame.track).add_done_callback(offer)
