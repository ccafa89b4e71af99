"""Chooses for each client between files and video, and the cohort in which it gets video.

A cohort itself, and when it encodes, is `cohort.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reactor_runtime.clock import Clock
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.cohort import SPREAD, Cohort, Member
from reactor_runtime.server.delivery.fanout import CohortPiece
from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.encoding.video_encoding import VideoEncoding
from reactor_runtime.server.telemetry.metrics import Metrics

# More would encode each frame more often.
MOST_COHORTS = 2
# How long a client stays in a cohort before it may change for files or the faster cohort, and how long it gets files
# after a cohort that could not wait for it; each time doubles.
WAIT_S, LONGEST_WAIT_S = 10.0, 320.0
# A track whose encoder has failed or was too slow is not encoded again before this time.
FAILED_S = 60.0
# A client changes for the faster cohort if that costs the others no more of their rate.
STILL_FAST = 1.25


@dataclass(frozen=True, slots=True)
class VideoDelivery:
    """The parts that cohorts share; with `always` a client that can decode video gets no files after its first key."""

    encodings: tuple[VideoEncoding, ...]
    encoder: Encoder
    clock: Clock
    metrics: Metrics
    always: bool = False


@dataclass(slots=True)
class _Choice:
    """When a client may change how it gets a track: not to video before `files_until`."""

    files_until: float = -math.inf
    joined_at: float = -math.inf
    wait_s: float = WAIT_S


class Cohorts:
    """Choose which clients take a track as video, and in which of at most two cohorts, the faster one first.

    A client takes video when the network does not carry the files of the best quality, or always if that is chosen. It
    returns to files when the network carries them with ease, when a cohort can't wait for it, or when the
    encoder is too slow or fails; `on_files` is called then with the client and the track. Without `video` all clients
    get files.
    """

    def __init__(
        self,
        video: VideoDelivery | None,
        publish: Callable[[CohortPiece], None],
        on_files: Callable[[Client, str], None],
    ) -> None:
        self._video = video
        self._publish = publish
        self._on_files = on_files
        self._clients: dict[Client, VideoEncoding] = {}
        self._cohorts: dict[str, list[Cohort]] = {}
        self._choices: dict[tuple[Client, str], _Choice] = {}
        # Tracks whose encoder has failed: until when, and why.
        self._failed: dict[str, tuple[float, str]] = {}

    def needs_pixels(self, track: str) -> bool:
        """Return whether a cohort encodes the frames of a track."""
        return track in self._cohorts

    def update(self, client: Client) -> None:
        """Follow the client's view: the encodings that it can decode, and the tracks that it shows."""
        view = client.outbox.view
        encodings = () if self._video is None else self._video.encodings
        chosen = next((each for name in view.codecs or () for each in encodings if each.name == name), None)
        for track, cohort in self._places_of(client):
            if cohort.encoding is not chosen or not view.shows(track):
                self._leave(track, cohort, client)
        if chosen is None:
            self._forget(client)
        else:
            self._clients[client] = chosen

    def leave(self, client: Client) -> None:
        """Remove a client."""
        for track, cohort in self._places_of(client):
            self._leave(track, cohort, client)
        self._forget(client)

    def offer_frame(self, frame: EncodedFrame) -> None:
        """Choose the cohorts of a track, and offer them a frame that is shown."""
        if self._video is None or not self._clients:
            return
        for client, encoding in self._clients.items():
            # A cohort skips frames.
            if client.outbox.view.shows(frame.track) and not client.outbox.keeps_media:
                self._choose(client, encoding, frame, self._video)
        for cohort in tuple(self._cohorts.get(frame.track, ())):
            cohort.offer_frame(frame)

    def reset(self) -> None:
        """Drop what waits: another session follows, whose frames may have other sizes."""
        for cohort in (cohort for cohorts in self._cohorts.values() for cohort in cohorts):
            cohort.reset()
        self._failed.clear()

    def _choose(self, client: Client, encoding: VideoEncoding, frame: EncodedFrame, video: VideoDelivery) -> None:
        track, now = frame.track, video.clock.now()
        sender = client.outbox.track_sender(track)
        choice = self._choices.setdefault((client, track), _Choice())
        place = self._place_of(client, track)
        if place is None:
            failed_until, why = self._failed.get(track, (-math.inf, None))
            sender.why_no_video = why if now < failed_until else None
            may_take_video = now >= max(choice.files_until, failed_until)
            sender.keep_size(may_take_video)
            if may_take_video and (video.always or sender.ladder.is_limited_by_network):
                choice.joined_at = now
                self._place(track, sender.video_rate(now).bits_per_s, encoding, video).join(client, sender)
        elif now >= choice.joined_at + choice.wait_s:
            if not video.always and sender.carries_files(frame.interval_s):
                choice.wait_s = min(LONGEST_WAIT_S, 2 * choice.wait_s)
                sender.renew_ladder()
                self._leave(track, place, client)
            else:
                self._move_up(track, place, client, choice, now)

    def _place(self, track: str, bits_per_s: float, encoding: VideoEncoding, video: VideoDelivery) -> Cohort:
        """Return the cohort for a client with a network of this rate."""
        cohorts = self._cohorts.setdefault(track, [])
        for cohort in cohorts:
            if cohort.encoding is encoding and 1 / SPREAD < bits_per_s / cohort.bits_per_s < SPREAD:
                return cohort
        if len(cohorts) < MOST_COHORTS:
            is_fastest = bool(cohorts) and bits_per_s > cohorts[0].bits_per_s
            cohorts.insert(0 if is_fastest else len(cohorts), self._make_cohort(track, encoding, video))
            return cohorts[0 if is_fastest else -1]
        return cohorts[-1]

    def _make_cohort(self, track: str, encoding: VideoEncoding, video: VideoDelivery) -> Cohort:
        return Cohort(
            encoding,
            video.encoder,
            video.clock,
            self._publish,
            video.metrics,
            on_files=lambda client: self._on_files(client, track),
            on_late=partial(self._on_late, track, video),
            on_failed=partial(self._on_failed, track, video),
        )

    def _move_up(self, track: str, place: Cohort, client: Client, choice: _Choice, now: float) -> None:
        """Move a client to the faster cohort if its network carries nearly that one's rate."""
        faster = self._cohorts[track][0]
        member = place.members[client]
        if place is not faster and member.has_key and member.bits_per_s * STILL_FAST >= faster.bits_per_s:
            choice.joined_at = now
            self._leave(track, place, client)
            faster.join(client, member.sender)

    def _on_late(self, track: str, video: VideoDelivery, cohort: Cohort, member: Member) -> None:
        """Move a member that the others can't wait for to the slower cohort, or out of that one."""
        client, now = member.client, video.clock.now()
        cohorts = self._cohorts[track]
        choice = self._choices[client, track]
        choice.wait_s = min(LONGEST_WAIT_S, 2 * choice.wait_s)
        if cohort is not cohorts[0]:
            choice.files_until = now + choice.wait_s
            self._leave(track, cohort, client)
            return
        if len(cohorts) < MOST_COHORTS:
            cohorts.append(self._make_cohort(track, cohort.encoding, video))
        choice.joined_at = now
        self._leave(track, cohort, client)
        cohorts[-1].join(client, member.sender)

    def _on_failed(self, track: str, video: VideoDelivery, why: str) -> None:
        """End the slower cohort if the encoder is too slow for two, else all of the track."""
        cohorts = tuple(self._cohorts[track])
        until = video.clock.now() + FAILED_S
        ended = cohorts[1:] if why == "codec_busy" and len(cohorts) > 1 else cohorts
        if ended == cohorts:
            self._failed[track] = until, why
        for cohort in ended:
            for client in tuple(cohort.members):
                self._choices[client, track].files_until = until
                self._leave(track, cohort, client)

    def _places_of(self, client: Client) -> list[tuple[str, Cohort]]:
        return [(track, cohort) for track in self._cohorts if (cohort := self._place_of(client, track)) is not None]

    def _place_of(self, client: Client, track: str) -> Cohort | None:
        return next((cohort for cohort in self._cohorts.get(track, ()) if client in cohort.members), None)

    def _leave(self, track: str, cohort: Cohort, client: Client) -> None:
        cohort.leave(client)
        if not cohort.members:
            self._cohorts[track].remove(cohort)
            if not self._cohorts[track]:
                del self._cohorts[track]
        self._on_files(client, track)

    def _forget(self, client: Client) -> None:
        self._clients.pop(client, None)
        for key in [key for key in self._choices if key[0] is client]:
            del self._choices[key]
