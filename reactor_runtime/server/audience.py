"""Everyone who sees the running session: its controller and the viewers, and the picture on their screens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from reactor_runtime.server.connection import Connection
from reactor_runtime.server.encoded import EncodedFrame, EncodedSound
from reactor_runtime.wire.codec import encode_text
from reactor_runtime.wire.messages import View


class Audience:
    """Pass what is shown and said to every client; one that doesn't keep up skips frames and delays nobody."""

    def __init__(self) -> None:
        self._members: dict[Connection, None] = {}
        self._held: dict[str, EncodedFrame] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._members))

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._members

    def join(self, connection: Connection) -> None:
        """See everything from here on, and at once the picture on screen."""
        self._members[connection] = None
        for frame in self._held.values():
            connection.outbox.offer(frame.as_held())

    def look(self, connection: Connection, view: View) -> None:
        """Send the client from here on what it asks for, and at once the picture on screen of what it went without."""
        before, connection.view = connection.view, view
        connection.outbox.set_view(view)
        for frame in self._held.values():
            if connection in self._members and _shows(view, frame.track) and not _shows(before, frame.track):
                connection.outbox.offer(frame.as_held())

    def leave(self, connection: Connection) -> None:
        self._members.pop(connection, None)

    def rungs(self, track: str) -> list[int]:
        """List the rungs of the ladder that someone is on, the best first; the top one where nobody is there."""
        ways = (each.outbox.ways.get(track) for each in self._members if _shows(each.view, track))
        return sorted({0 if way is None else way.ladder.rung for way in ways}) or [0]

    def show(self, frame: EncodedFrame) -> None:
        self._held[frame.track] = frame
        for connection in self._members:
            connection.outbox.offer(frame)

    def on_screen(self, track: str) -> EncodedFrame | None:
        """Give the picture on screen, as it is sent to a newcomer."""
        frame = self._held.get(track)
        return None if frame is None else frame.as_held()

    def play(self, sound: EncodedSound) -> None:
        for connection in self._members:
            connection.outbox.put_sound(sound)

    def hush(self) -> None:
        """Drop the sound that waits for clients: the model has flushed it."""
        for connection in self._members:
            connection.outbox.hush()

    def tell(self, kind: str, data: Mapping[str, Any], *, but: Collection[Connection] = ()) -> None:
        """Tell all but a few; those in line, say, wait for news of a session of their own."""
        text = encode_text(kind, data)
        for connection in self:
            if connection not in but:
                connection.put_text(text)

    def clear_screen(self) -> None:
        """Forget the pictures of the session before, those on their way too: the next client must not see them."""
        self._held.clear()
        for connection in self._members:
            connection.outbox.drop_media()


def _shows(view: View, track: str) -> bool:
    return not view.paused and (view.tracks is None or track in view.tracks)
