"""The messages between engine and server: one frozen dataclass each, for frames named tuples, which are made faster.

Fields hold JSON values only. Times are seconds of CLOCK_MONOTONIC, which both processes share, unless named otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Load:
    """server → engine, once: import the class, check it, load it.

    `engine` is the number of the engine in log lines, "" if there is only one. `log_mark` is the mark of the packets in
    which it writes its log lines (`ipc.log_packets`), "" for plain lines. `record` is the directory for recordings of
    sessions, "" for none; with `record_only_kept` it gets only those that a KeepRecording asks for. `presets` are those
    of the manifest, which have to fit the model. `config` is None if only the model reads `config_file`;
    `merged_config` is where an engine writes it, for a `load()` that takes a path, if it is not that of `config_file`.
    `sessions` is how many sessions share the loaded model; 0: as many as the class says.
    """

    project: str
    module: str
    class_name: str
    config: dict[str, Any] | None
    log_level: str
    log_format: str
    trace: bool = False
    engine: str = ""
    log_mark: str = ""
    reload: bool = False
    record: str = ""
    record_video: str = ""
    record_only_kept: bool = False
    presets: dict[str, Any] = field(default_factory=dict)
    config_file: str = ""
    merged_config: str = ""
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class StartSession:
    """server → engine: a controller has connected; answered by Started, later by Ended.

    A `stepped` session makes the steps that its controller requests. `seed` is for the generators of random numbers;
    None: any. The controller has the `seat`.
    """

    session: str
    client: str
    joined_at_unix: float
    stepped: bool = False
    seed: int | None = None
    seat: int = 0


@dataclass(frozen=True, slots=True)
class StopSession:
    """server → engine: the controller has left; answered by Ended when the model has finished the session."""

    session: str


@dataclass(frozen=True, slots=True)
class ClientJoined:
    """server → engine, after Started: a client of the session besides the one that started it.

    `seat` is None for a viewer of a session with several seats.
    """

    session: str
    client: str
    role: str
    joined_at_unix: float
    seat: int | None = 0


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """server → engine, after Started: a client of the session has gone, while the session goes on."""

    session: str
    client: str


@dataclass(frozen=True, slots=True)
class Pause:
    """server → engine: make no steps, because the controllers are away; or, with `paused` false, continue."""

    session: str
    paused: bool


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """server → engine: a client's event, its data still JSON text; `ticket` comes back with the answer.

    `arrived_at` is when the server received it, 0 if the time until a frame shows it is not measured. `seat` is that
    of the client.
    """

    session: str
    client: str
    ticket: str | int | None
    name: str
    data_json: str
    arrived_at: float = 0.0
    seat: int = 0


@dataclass(frozen=True, slots=True)
class StepRequest:
    """server → engine, in a stepped session: make `steps` steps with these inputs before them; answered by Stepped.

    `data_json` is an object with `state` and `commands`, or without. With `reset` the session begins anew before, with
    `seed` in the generators of random numbers, and another Started comes.
    """

    session: str
    client: str
    ticket: str | int | None
    steps: int
    data_json: str
    reset: bool = False
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ClientMedia:
    """server → engine: an image or a piece of sound for an input track; `file` is the JPEG or WAV of the client.

    The other values are those of its media header: times in microseconds, by the clock of the client; each is None if
    the client did not send it.
    """

    session: str
    track: str
    file: bytes
    pts: int | None = None
    metadata: bytes | None = None
    capture_time_us: int | None = None
    client: str = ""


@dataclass(frozen=True, slots=True)
class UploadedBytes:
    """server → engine: a file of a client that events of this session refer to by `id`, at `path`, or in `file`.

    `path` is "" if `file` has the bytes. The engine removes the path when it has opened it.
    """

    session: str
    id: str
    name: str
    content_type: str
    path: str
    client: str
    file: bytes


@dataclass(frozen=True, slots=True)
class Credit:
    """server → engine: the bundle was shown or dropped; its memory and its room in the queue are free.

    `ready_at` is when its encoding was finished; 0 if it was dropped before. It is sent only while the model waits for
    one, and else written to shared memory (`ipc.credits`).
    """

    session: str
    bundle: int
    ready_at: float


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """server → engine: answered by Heartbeat at once, even while the model computes."""


@dataclass(frozen=True, slots=True)
class ReloadFiles:
    """server → engine, with `Load.reload`: apply the project's files as they are now; answered by Reloaded.

    The config and `presets` are those of Load, read again. With `everything` all modules are executed again, changed or
    not.
    """

    config: dict[str, Any] | None
    presets: dict[str, Any] = field(default_factory=dict)
    everything: bool = False
    config_file: str = ""
    merged_config: str = ""


@dataclass(frozen=True, slots=True)
class KeepRecording:
    """server → engine, with `Load.record`: save the recording of the session so far; answered by Kept."""

    session: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    """server → engine: end the session, if there is one, then the process."""


@dataclass(frozen=True, slots=True)
class Loading:
    """engine → server: the last line the model logged or printed while loading, and its progress from 0 to 1."""

    detail: str
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class Preparing:
    """engine → server: how far the model is with the first frame of a session; without fields, that it is there."""

    session: str
    detail: str = ""
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """engine → server: the class passed its checks; `contract` is the part that clients need (tracks and schema).

    `config_file` is the file that `@model` names, relative to the project; "" for none.
    """

    contract: dict[str, Any]
    config_file: str = ""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """engine → server: what has become of the new code.

    `status` is "applied", "unchanged" if the files are those that run, "loading" while the model loads again,
    "restarting" if that needs another process, or "failed" while the old code continues, or nothing does; `error` is in
    the form of `errors.to_json`. A changed contract is sent before, as Described.
    """

    status: str
    reason: str = ""
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """engine → server: load() is done, and so many sessions can start, in the slots from 0 on."""

    load_s: float
    sessions: int = 1


@dataclass(frozen=True, slots=True)
class Capacity:
    """engine → server: so many sessions fit on the loaded model, those that run included, as far as they are measured.

    `reason` is why not more; "" if as many fit as there are slots. Until the first one a second session does not fit.
    """

    sessions: int
    reason: str


@dataclass(frozen=True, slots=True)
class Grace:
    """engine → server: from now on the end of the process may take so many seconds longer: it ends other processes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """engine → server: the model can't be imported, checked or loaded; the process ends. See `errors.to_json`."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """engine → server: whether the model's code blocked the loop since the last HeartbeatRequest, and its stack."""

    blocked: bool
    where: str


@dataclass(frozen=True, slots=True)
class Started:
    """engine → server: the session has a fresh state; `seats` has the fields of each seat's own."""

    session: str
    started_at: float
    state: dict[str, Any]
    seats: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ended:
    """engine → server: the model has finished the session; `error` is why it failed, None if it did not.

    `reason` is what the model gave when it ended the session itself. With `crashed` the process ends next.
    """

    session: str
    error: dict[str, Any] | None
    reason: str = ""
    crashed: bool = False


# The kinds of resources that the engine watches.
LEAK_KINDS = ("threads", "tasks", "descriptors", "processes", "memory", "GPU memory")


@dataclass(frozen=True, slots=True)
class ModelWarning:
    """engine → server: the first step's output is probably not meant, or a resource grows.

    `error` is in the form of `errors.to_json`, `leak` is the kind of the resource, one of `LEAK_KINDS`.
    """

    session: str
    error: dict[str, Any]
    leak: str = ""


class BundleFrame(NamedTuple):
    """One frame of a bundle: `offset` into the ring, -1 for a black frame, which has no pixels there.

    `metadata` is the text of a JSON object, in ASCII, or "". `jpeg_bytes` is the size of a frame that is a JPEG, 0 for
    pixels. `room` is the offset where the file of the frame in full size, in the best quality of the default encoding,
    is to be put before the credit; -1 for none. `seat` is the one that it is for, None for all seats: `seq` then is the
    number in the first seat, and `others_seqs` has those in the other seats.
    """

    track: str
    seq: int
    offset: int
    height: int
    width: int
    metadata: str = ""
    jpeg_bytes: int = 0
    room: int = -1
    seat: int | None = None
    others_seqs: tuple[int, ...] = ()


class BundleSound(NamedTuple):
    """One piece of sound of a bundle, int16 of shape (channels, samples) at `offset` in the ring.

    It begins at `at`, which is the bundle's `due` but for rounding, so that the pieces of a track have no gaps. `seat`
    is the one that it is for, None for all seats: `seq` then is the number in the first seat, and `others_seqs` has
    those in the other seats.
    """

    track: str
    seq: int
    offset: int
    channels: int
    samples: int
    sample_rate: int
    at: float
    seat: int | None = None
    others_seqs: tuple[int, ...] = ()


class Bundle(NamedTuple):
    """engine → server: frames and sound to show at `due`, answered by Credit; the ring keeps them until then.

    `first` is true for the first bundle of a step; `step_s` is how long the step took. `inputs` has the `arrived_at` of
    the events that this bundle is the first to show. `reserve_s` is the playout reserve of the model. `applied` counts
    the events of the first seat, `others_applied` those of each other seat.
    """

    session: str
    number: int
    due: float
    interval_s: float
    handed_over: float
    wall_us: int
    applied: int
    step_s: float
    frames: tuple[BundleFrame, ...]
    sounds: tuple[BundleSound, ...] = ()
    first: bool = True
    inputs: tuple[float, ...] = ()
    reserve_s: float = 0.0
    others_applied: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CreditsTaken:
    """engine → server: so many credits were taken from the shared memory; send the next ones, or write them there."""

    count: int
    as_messages: bool


@dataclass(frozen=True, slots=True)
class Flush:
    """engine → server: drop the bundles before number `before`; the next one is black."""

    session: str
    before: int


@dataclass(frozen=True, slots=True)
class MessageSent:
    """engine → server: a model message, for every client of the session or for `client` alone.

    Clients receive it after the bundles that were handed over before it. `n` is the number of the event whose handler
    sent it, 0 for other code: the answer to that event follows it.
    """

    session: str
    type: str
    data: dict[str, Any]
    client: str | None = None
    n: int = 0


@dataclass(frozen=True, slots=True)
class StateChanged:
    """engine → server: the public state fields whose values changed, of a seat's own state if it is one."""

    session: str
    changes: dict[str, Any]
    seat: int | None = None


@dataclass(frozen=True, slots=True)
class EventApplied:
    """engine → server: event `n` of its client's seat was applied; `reply` is the message its handler returned."""

    session: str
    client: str
    ticket: str | int | None
    n: int
    reply: tuple[str, dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Stepped:
    """engine → server: the steps of a StepRequest are made, and all of its bundles and messages were sent before.

    `step` is the number of the newest step since the last reset, `steps` how many this request has made in `elapsed_s`.
    `frames` has, for each track with frames or sound of this request, the number of the first and how many they are.
    `code`, `message` and `fields` are why the other steps were refused; `code` is "" if none was.
    """

    session: str
    client: str
    ticket: str | int | None
    step: int
    steps: int
    elapsed_s: float
    frames: dict[str, list[int]]
    code: str = ""
    message: str = ""
    fields: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EventRefused:
    """engine → server: the event changed nothing, or its handler failed; `fields` are {path, message} objects.

    `n` is the number of the event, 0 if it was refused before it got one.
    """

    session: str
    client: str
    ticket: str | int | None
    event: str
    code: str
    message: str
    fields: list[dict[str, str]] = field(default_factory=list)
    n: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """engine → server: the recording of the session is in `file`; "" if it can't be saved.

    `message` is why not, or why the recording ends before now; `hint` is what to do.
    """

    session: str
    file: str
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class InputsTaken:
    """engine → server: counts of an input track in this session until `at`: frames that came, and that the model took.

    `missed` counts reads of the model that found no new frame.
    """

    session: str
    track: str
    at: float
    came: int
    taken: int
    missed: int


@dataclass(frozen=True, slots=True)
class InputLost:
    """engine → server: so many more items of an input track were dropped because the model reads in order, too slowly.

    `kind` is that of the track, "video" or "audio".
    """

    session: str
    track: str
    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class UploadTaken:
    """engine → server: the file of these UploadedBytes is open or dropped; its room in transit is free."""

    session: str
    id: str


@dataclass(frozen=True, slots=True)
class TraceSpans:
    """engine → server, with `Load.trace`: spans of the model's process in this session; see `engine.trace`."""

    session: str
    process: int
    spans: list[dict[str, Any]]


ToEngine = (
    Load
    | StartSession
    | StopSession
    | ClientJoined
    | ClientLeft
    | Pause
    | ClientEvent
    | StepRequest
    | ClientMedia
    | UploadedBytes
    | Credit
    | HeartbeatRequest
    | ReloadFiles
    | KeepRecording
    | Shutdown
)
DuringSession = (
    Preparing
    | Flush
    | MessageSent
    | StateChanged
    | EventApplied
    | EventRefused
    | Stepped
    | Kept
    | InputsTaken
    | InputLost
    | UploadTaken
    | TraceSpans
)
# All about a session but its bundles and credits: the supervisor passes them on to the slot of the session.
OfSession = Started | Ended | ModelWarning | DuringSession
ToServer = (
    Loading | Described | Reloaded | Ready | Capacity | Grace | Failed | Heartbeat | Bundle | CreditsTaken | OfSession
)
Message = ToEngine | ToServer
