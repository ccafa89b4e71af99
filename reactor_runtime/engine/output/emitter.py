"""Checks the model's output, splits it into bundles, sets their due times and sends them to the sink.

`buffer_size` bundles may be outstanding; a credit comes back for each that was shown or dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.tracks import TrackSpec, key_of
from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.engine.first_step import FirstStep
from reactor_runtime.engine.output.outstanding import Outstanding, OutstandingBundle
from reactor_runtime.engine.output.pace import Pace
from reactor_runtime.engine.output.sink import Black, OutgoingBundle, Payload, Piece, Sink
from reactor_runtime.engine.output.unpack import NOTHING, Beside, Unpack, UnpackedBundle, metadata_by_track
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session import Applied, ModelSession
from reactor_runtime.errors import MOST_MESSAGE, shortened
from reactor_runtime.ipc.credits import CreditReader
from reactor_runtime.ipc.messages import Credit, Flush, Preparing
from reactor_runtime.media.tensors import synchronize

Bundles = Sequence[UnpackedBundle]
# Returns memory of so many bytes for frames that the author writes; any thread calls it.
Lend = Callable[[int], NDArray[np.uint8]]


class StepTime(NamedTuple):
    """Hold how long the author's code has worked for an output, in seconds.

    `compute_s` is the time of the step, None if it is not known. With `adapts` the rate follows
    `compute_s + between_s`; `between_s` is other work since the previous step. `author_s` is how long the code has run
    or waited for the output, None for the time since the last output.
    """

    compute_s: float | None = None
    between_s: float = 0.0
    author_s: float | None = None
    adapts: bool = True

    @classmethod
    def given(cls, compute_time: float | None) -> Self:
        """Return the time of a step that the author gives, in any type of number."""
        return cls(None if compute_time is None else float(compute_time))


class _Emission(NamedTuple):
    """Hold what all bundles of one output share. With `alone` they have sound and no frames."""

    session: ModelSession
    applied: Applied
    compute_s: float = 0.0
    alone: bool = False


def np_memory(size: int) -> NDArray[np.uint8]:
    """Return memory of this process, where no server reads frames."""
    return np.empty(size, np.uint8)


class Emitter:
    """Hand over the model's output, at most `buffer_size` bundles ahead; belongs to the model's thread.

    `frames_in` returns how many frames of clients have arrived, and how many of them the model has read: while it reads
    all of them, its output follows the camera. `works_ahead` is false for a clock that stands still while the model
    computes. An output then plays almost to its end before the author's code continues: what is left is as long as the
    code took for this output, so that the code has all events until then.
    """

    def __init__(
        self,
        served: ServedModel,
        clock: Clock,
        sink: Sink,
        first_step: FirstStep | None = None,
        *,
        lend: Lend = np_memory,
        credits: CreditReader | None = None,
        frames_in: Callable[[], tuple[int, int]] = lambda: (0, 0),
        works_ahead: bool = True,
    ) -> None:
        self._works_ahead = works_ahead
        # When the last output of the session was handed over, and the author's code continued.
        self._returned_at: float | None = None
        self._served, contract = served, served.contract
        self._clock = clock
        self._sink = sink
        self.lend = lend
        # None if all credits come by `credit`.
        self._credits = credits
        self._unpack = Unpack(contract)
        self.first_step = first_step or FirstStep(served, lambda _: None)
        self._session: ModelSession | None = None
        self._meanwhile: Callable[[], Awaitable[None]] | None = None
        # What the author reported last; None after the first output of the session.
        self._preparing: Preparing | None = None
        self._numbers = 0
        self.pace = Pace(served)
        self._flushes = 0
        self.outstanding = Outstanding(contract.buffer_size)
        # The bundles whose files the server has not encoded yet.
        self._awaits_files: set[int] = set()
        self._credit_alarm = Alarm(clock)
        # By the key of the track: each seat has numbers of its own.
        self._seqs: dict[str, int] = {}
        self._keys = _numbered_by(contract)
        self._sizes: dict[TrackSpec, Black] = {}
        self._paused = False
        self._frames_in = frames_in
        self._arrived_before = self._taken_before = 0
        # Seconds of waiting for room since the engine started.
        self.waited_s = 0.0
        self._sound_alarm_without_session, self._alarm_without_session = Alarm(clock), Alarm(clock)

    def on_new_version(self) -> None:
        """Emit for another version of the model from now on; tracks that stay keep their sequence numbers."""
        contract = self._served.contract
        self._unpack = Unpack(contract)
        self.outstanding.set_most(contract.buffer_size)
        self.pace.on_new_version()
        self._keys = _numbered_by(contract)
        self._seqs = {track.key: self._seqs.get(track.key, 0) for track in contract.output_tracks}
        self._sizes = {track: size for track, size in self._sizes.items() if track in contract.output_tracks}

    @property
    def next_seqs(self) -> dict[str, int]:
        """Return the number of the next frame or piece of sound of each track."""
        return dict(self._seqs)

    def open(self, session: ModelSession, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        """Start a session with sequence numbers from 0, the declared rate and nothing outstanding.

        `meanwhile` is awaited after each wait for room, to handle events before the end of a batch.
        """
        self._session, self._meanwhile = session, meanwhile
        self._preparing = Preparing(session.id)
        self._returned_at = None
        self.outstanding.clear()
        # For its clients, a session that was reset goes on.
        before = {} if session.reset_by is None else self._seqs
        self._seqs = {track.key: before.get(track.key, 0) for track in self._served.contract.output_tracks}
        self._sizes.clear()
        self.pace.begin(media_time_from=session.started_at if session.stepped else None)
        self._sound_alarm_without_session.ring()
        self._alarm_without_session.ring()

    def close(self) -> None:
        """End the session: drop what is queued; what is emitted from here on is discarded."""
        self.flush()
        self._session = self._preparing = self._meanwhile = None
        self.pace.end()

    def report_progress(self, fraction: float | None, message: str) -> None:
        """Send how far the model is with the first output of the session; do nothing after it. Any thread."""
        before = self._preparing
        if before is not None:
            rounded = None if fraction is None else round(fraction, 2)
            self._send_progress(before, Preparing(before.session, shortened(message.strip(), MOST_MESSAGE), rounded))

    def _send_progress(self, before: Preparing, now: Preparing) -> None:
        if now != before:
            self._preparing = now
            self._sink.send(now)

    def credit(self, credit: Credit) -> None:
        """Free the room of a bundle, also after the end of its session, and wake what waits for room."""
        if self._credits is not None:
            self._credits.message_received()
        self.take_credits()
        self._free(credit.bundle, credit.ready_at)
        if self._session is not None:
            self._session.wake()
        self._credit_alarm.ring()

    async def receive_files(self, *, within_s: float) -> None:
        """Wait until the server has encoded all frames whose files are needed, for so long at most."""
        until = self._clock.now() + within_s
        self.take_credits()
        while self._awaits_files and self._clock.now() < until:
            self.await_credit()
            await self._credit_alarm.wait(until)
            self.take_credits()
        self._awaits_files.clear()

    def take_credits(self) -> None:
        """Free the room of the bundles whose credits are in shared memory."""
        if self._credits is not None:
            for bundle, ready_at in self._credits.take_credits():
                self._free(bundle, ready_at)

    def await_credit(self) -> None:
        """Have the next credit wake the session, because the caller is about to wait for room."""
        if self._credits is not None:
            self._credits.await_message()

    def _free(self, number: int, ready_at: float) -> None:
        self._sink.release(number)
        self._awaits_files.discard(number)
        bundle = self.outstanding.take(number)
        if self._session is not None and bundle is not None and bundle.compute_s is not None and ready_at:
            self.pace.learn(bundle.compute_s, ready_at - bundle.handed_over)

    def pause(self, paused: bool) -> None:
        """Ask for no steps while `paused`; events are still handled."""
        self._paused = paused
        self._sound_alarm_without_session.ring()
        self._alarm_without_session.ring()
        if self._session is not None:
            self._session.wake()

    def step_at(self, *, at_once: bool = False) -> float | None:
        """Return when the next step should start so that its frames are ready when due; None while there is no room.

        With `at_once` that is now, unless steps pause.
        """
        if self._paused or (self._session is not None and self._session.paused):
            return None
        if at_once:
            return self._clock.now()
        # Where a batch fits, it may fill the queue, and the next step computes meanwhile; its output waits for room.
        more = 1 if self._served.contract.batches == 1 else 0
        if self._full(alone=False, more=more) or self._full(alone=True, more=more):
            return None
        return self.pace.step_at(self._clock.now())

    def unpack(self, output: object) -> Bundles:
        """Check output and split it into bundles; TypeError or ValueError names the track, the payload and the fix."""
        session = self._session
        if session is None:
            return self._unpack(output)
        began = 0.0
        if session.trace is not None:
            # Work that is queued on a GPU belongs to the step, not to the conversion.
            synchronize()
            began = session.trace.now()
        bundles = self._unpack(output)
        if session.trace is not None:
            session.trace.span(session.id, "conversion", "convert", began)
        # The loop may end the log meanwhile.
        log = session.log
        if log is not None:
            arrays = [bundle.arrays for bundle in bundles]
            on_files = log.on_output(session.steps, arrays, metadata_by_track(bundles))
            for bundle, of_bundle in zip(bundles, on_files, strict=False):
                bundle.beside = bundle.beside._replace(on_files=of_bundle)
        return bundles

    async def emit(
        self,
        output: object,
        *,
        compute_time: float | None = None,
        drop: bool = False,
    ) -> None:
        """Hand over a frame or a batch, and wait while the queue is full; `compute_time` adapts the rate.

        Raises TypeError or ValueError for a payload that can't be shown, naming track, what came and the fix.
        """
        await self.emit_bundles(self.unpack(output), StepTime.given(compute_time), drop=drop)

    async def emit_bundles(
        self,
        bundles: Bundles,
        time: StepTime,
        *,
        applied: Applied | None = None,
        drop: bool = False,
        whole: bool = False,
    ) -> None:
        """Hand over unpacked bundles.

        With `whole` all bundles are handed over at once, however many are queued; the caller limits them.
        `applied` is the number of events of each seat handled before the output was computed; by default all so far,
        including the one whose handler calls this.
        Without a session nothing is handed over, and the wait is as long as in a session.
        """
        session = self._session
        alone = is_sound_alone(bundles)
        if not alone:
            self._update_follows_input()
        if session is None:
            await self._pace_without_session(bundles, alone=alone, drop=drop)
            return
        compute_s, between_s, author_s, adapts = time
        if author_s is None and self._returned_at is not None:
            author_s = self._clock.now() - self._returned_at
        if compute_s is not None and adapts and not alone:
            self.pace.adapt(len(bundles), compute_s + between_s)
        if self._served.contract.batches and not alone:
            self.outstanding.make_room(len(bundles), batches=self._served.contract.batches)
        # A model of single frames has no reserve, and where computing takes no time, no block is late.
        has_reserve = len(bundles) > 1 or self.pace.reserve_s > 0
        if has_reserve and compute_s is not None and not alone and self._works_ahead:
            has_sound = any(track.kind == "audio" for bundle in bundles for track in bundle)
            self.pace.begin_block(
                self._clock.now(),
                len(bundles),
                compute_s + between_s,
                room=self.outstanding.most_frames,
                has_sound=has_sound,
            )
        emission = _Emission(session, _applied(session) if applied is None else applied, compute_s or 0.0, alone)
        for index, bundle in enumerate(bundles):
            full = not whole and self._full(alone=alone)
            if full and (drop or not await self._wait_for_room(session, alone)):
                self.skip(bundles[index:])
                return
            self._hand_over(emission, bundle, bundle.beside, first=index == 0)
        if not self._works_ahead and author_s is not None:
            await self._wait_until_over(session, alone, early_s=author_s)
        self._returned_at = self._clock.now()

    async def _wait_for_room(self, session: ModelSession, alone: bool) -> bool:
        """Wait while the queue is full; return False if the session stops or its output is flushed meanwhile."""
        flushes = self._flushes
        while self._full(alone=alone):
            waits_from = self._clock.now()
            self.await_credit()
            await (session.sound_room if alone else session.room).wait()
            self.waited_s += self._clock.now() - waits_from
            if self._meanwhile is not None:
                await self._meanwhile()
            if session.stopping or flushes != self._flushes:
                return False
        return True

    async def _wait_until_over(self, session: ModelSession, alone: bool, *, early_s: float) -> None:
        """Wait until `early_s` before the newest bundle has been shown for its duration, or the session stops."""
        room = session.sound_room if alone else session.room
        while not session.stopping and self._clock.now() < (until := self.pace.over_at(alone=alone) - early_s):
            await room.wait(until)
            if self._meanwhile is not None:
                await self._meanwhile()

    def _update_follows_input(self) -> None:
        """Set whether the frames that are handed over next follow a camera."""
        arrived, taken = self._frames_in()
        read = taken - self._taken_before
        self.pace.follows_input = read > 0 and arrived - self._arrived_before <= read
        self._arrived_before, self._taken_before = arrived, taken

    async def _pace_without_session(self, bundles: Bundles, *, alone: bool, drop: bool) -> None:
        """Discard output at the rate at which it would be shown; return when a session begins."""
        alarm = self._sound_alarm_without_session if alone else self._alarm_without_session
        if not self._works_ahead:
            while self._paused or self._session is None:
                await alarm.wait()
            return
        for bundle in () if drop else bundles:
            due = self.pace.next(self._clock.now(), bundle)
            while self._session is None and self._clock.now() < due:
                await alarm.wait(due)
            if self._session is not None:
                return

    def skip(self, bundles: Bundles) -> None:
        """Discard unpacked bundles as `drop` does with a full queue; they take sequence numbers."""
        if self._session is None:
            return
        for bundle in bundles:
            for track in bundle:
                self._next_seqs(track.key)

    def flush(self, *, hold: bool = False) -> None:
        """Drop all that is queued and the rest of a batch that waits in `emit`; unless `hold`, show one black frame.

        Do nothing in a stepped session, of which clients get every frame.
        """
        session = self._session
        if session is None or session.stepped:
            return
        self.drop_queued()
        if self._sizes and not hold:
            self._hand_over(_Emission(session, _applied(session)), self._sizes)
        session.wake()

    def drop_queued(self) -> None:
        """Drop all that is queued and the rest of a batch that waits in `emit`; clients keep the newest frame.

        Do nothing in a stepped session.
        """
        if self._session is not None and not self._session.stepped:
            self._flushes += 1
            self._sink.send(Flush(self._session.id, before=self._numbers))
            self.pace.restart()

    def _hand_over(
        self,
        emission: _Emission,
        bundle: Mapping[TrackSpec, Payload],
        beside: Beside = NOTHING,
        *,
        first: bool = False,
    ) -> None:
        session, applied, compute_s, alone = emission
        if self._preparing is not None:
            self._send_progress(self._preparing, Preparing(session.id))
            self._preparing = None
        now = self._clock.now()
        number = self._numbers
        self._numbers += 1
        due = self.pace.next(now, bundle)
        self.outstanding.add(number, OutstandingBundle(due, now, compute_s if first else None, alone))
        pieces = tuple([self._piece(track, payload, due, beside) for track, payload in bundle.items()])
        outgoing = OutgoingBundle(
            session=session.id,
            number=number,
            due=due,
            interval_s=self.pace.length_s,
            handed_over=now,
            wall_us=session.wall_us(now),
            applied=applied,
            step_s=compute_s,
            pieces=pieces,
            first=first,
            inputs=() if alone else session.shown_by(applied),
            reserve_s=0.0 if alone else self.pace.reserve_s,
        )
        try:
            self._sink.send_bundle(outgoing)
        except BaseException:
            self.outstanding.take(number)
            raise
        if beside.on_files:
            self._awaits_files.add(number)
        if session.trace is not None:
            has_frame = not alone and bundle is not self._sizes
            session.trace.span(session.id, "model", "hand over", now, bundle=number, has_frame=has_frame)

    def _piece(self, track: TrackSpec, payload: Payload, due: float, beside: Beside) -> Piece:
        key = track.key
        seqs = self._next_seqs(key)
        if isinstance(payload, Black):
            return Piece(track, seqs[0], payload, due, others_seqs=seqs[1:])
        if track.kind == "audio":
            at = self.pace.begins(track, due, payload.shape[1])
            return Piece(track, seqs[0], payload, at, others_seqs=seqs[1:])
        self._sizes[track] = Black(*payload.shape[:2])
        if beside is NOTHING:
            return Piece(track, seqs[0], payload, due, others_seqs=seqs[1:])
        return Piece(track, seqs[0], payload, due, beside.metadata.get(key, ""), beside.on_files.get(key), seqs[1:])

    def _full(self, *, alone: bool, more: int = 0) -> bool:
        self.take_credits()
        if self._session is not None and self._session.paused:
            return True
        return self.outstanding.full(self._clock.now(), alone=alone, more=more)

    def _next_seqs(self, track: str) -> tuple[int, ...]:
        """Return the number of the next piece of the track with this key, in each seat that it is for."""
        keys = self._keys[track]
        seqs = tuple(map(self._seqs.__getitem__, keys))
        for key in keys:
            self._seqs[key] += 1
        return seqs


def _numbered_by(contract: Contract) -> dict[str, list[str]]:
    """Return, by the key of each output track, the keys that number its pieces: for all seats those of each seat."""
    found = {track.key: [track.key] for track in contract.output_tracks}
    if contract.seats > 1:
        common = [track for track in contract.output_tracks if track.seat is None]
        found |= {track.key: [key_of(track.name, seat) for seat in range(contract.seats)] for track in common}
    return found


def _applied(session: ModelSession) -> Applied:
    return session.with_handled(session.applied)


def is_sound_alone(bundles: Sequence[Mapping[TrackSpec, object]]) -> bool:
    """Return whether bundles are sound without frames, which does not wait for frames or count for the rate."""
    return not any(track.kind == "video" for bundle in bundles[:1] for track in bundle)
