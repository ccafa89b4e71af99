"""The JSON Schemas of the messages of `reactor.v1`; those of a model's messages come with its contract.

Schemas of client messages are closed, as the codec is. Those of server messages are open for later versions.
"""

from __future__ import annotations

from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.codec import LOWEST_FPS, MAX_CODECS, MAX_COMMANDS, MAX_SEED, MAX_SEQ, MAX_TYPE_LENGTH
from reactor_runtime.wire.json_schema import (
    COUNT,
    ID,
    PROGRESS,
    SECONDS,
    SECONDS_OR_NULL,
    STRING,
    Schema,
    by_name,
    one_of,
    or_null,
    record,
    ref,
    schema_of,
)
from reactor_runtime.wire.protocol import MAX_STEPS, RELAYED
from reactor_runtime.wire.reload import ReloadMessage
from reactor_runtime.wire.welcome import MODEL, TRACKS, welcome_schema

NUMBER_OF_EVENT: Schema = {"type": "integer", "minimum": 1, "description": "Number of the event in its session"}
# Why a client that can decode video gets JPEGs.
NO_VIDEO = ("codec_busy", "unsupported", RELAYED)
STAGES = ("step", "arrive", "queue", "encode", "back", "hold", "late", "age", "reserve")


def message(kind: str, data: Schema, description: str, *, id_required: bool | None = None) -> Schema:
    """Describe a server's text message; `id_required` is None if it never has an id."""
    members: Schema = {"type": {"type": "string", "const": kind}, "data": data}
    if id_required is None:
        return record(members, description=description)
    return record({**members, "id": ID} if id_required else members, {"id": ID}, description=description)


def client_message(kind: str, data: Schema, description: str) -> Schema:
    """Describe a client's text message: closed, and with optional `data` if no member of it is required."""
    required: Schema = {"type": {"type": "string", "const": kind}}
    optional: Schema = {"id": ID}
    (required if data.get("required") else optional)["data"] = data
    return record(required, optional, description=description, additionalProperties=False)


def from_client() -> dict[str, Schema]:
    """Return the schemas of the protocol's messages to the server by type."""
    ack = record(
        {"track": {**STRING, "minLength": 1}, "seq": {**COUNT, "maximum": MAX_SEQ}},
        {"held_ms": {"type": "number", "minimum": 0, "description": "Milliseconds from receipt until it was shown"}},
        additionalProperties=False,
    )
    ping = record({"t": {"type": ["number", "string"]}}, additionalProperties=False)
    return {
        "reactor.ack": client_message(
            "reactor.ack", ack, "Acknowledge that all frames of the track up to `seq` have been shown."
        ),
        "reactor.here": client_message(
            "reactor.here",
            record({}, additionalProperties=False),
            "Restart the idle timeout, because a person is present.",
        ),
        "reactor.keep": client_message(
            "reactor.keep",
            record({}, additionalProperties=False),
            "Save a recording of the session up to now, on a server with `--reload`.",
        ),
        "reactor.key": client_message(
            "reactor.key",
            record({"track": {**STRING, "minLength": 1}}, additionalProperties=False),
            "Begin the video stream of a track anew, because the client can't decode it.",
        ),
        "reactor.ping": client_message("reactor.ping", ping, "Request a pong, which is sent at once."),
        "reactor.reload": client_message(
            "reactor.reload",
            record({}, additionalProperties=False),
            "Reload the project's files, on a server with `--reload`.",
        ),
        "reactor.step": client_message(
            "reactor.step", _step(), "Make steps of a stepped session, with these inputs before them."
        ),
        "reactor.view": client_message(
            "reactor.view", _view(), "Choose what the server sends to this client from now on."
        ),
    }


def _step() -> Schema:
    command = record(
        {"command": {**STRING, "maxLength": MAX_TYPE_LENGTH, "description": "The name of an event of the model"}},
        {"data": {"type": "object"}},
        additionalProperties=False,
    )
    seed = {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": MAX_SEED,
        "description": "Of random numbers; implies reset",
    }
    return record(
        {},
        {
            "n": {**COUNT, "maximum": MAX_STEPS, "default": 1, "description": "How many steps"},
            "reset": {"type": "boolean", "default": False, "description": "Begin the session anew before"},
            "seed": seed,
            "state": {"type": "object", "description": "State fields to set"},
            "commands": {"type": "array", "items": command, "maxItems": MAX_COMMANDS},
            "media": {**by_name(COUNT), "description": "How many frames or pieces of sound came before, by track"},
        },
        additionalProperties=False,
    )


def _made() -> Schema:
    """Describe what was made in the steps of a request."""
    frames = by_name(record({"first": COUNT, "count": COUNT}))
    return record(
        {
            "step": {**COUNT, "description": "The number of the newest step since the last reset"},
            "steps": {**COUNT, "description": "How many this request has made"},
            "elapsed_s": {"type": "number", "minimum": 0},
            "frames": {**frames, "description": "The number of the first frame, and how many there are, by track"},
        }
    )


def _view() -> Schema:
    return record(
        {},
        {
            "paused": {"type": "boolean", "default": False, "description": "Send no frames and no sound"},
            "max_fps": {
                "type": ["number", "null"],
                "minimum": LOWEST_FPS,
                "description": "The maximum of frames a second",
            },
            "tracks": {"type": ["array", "null"], "items": STRING, "description": "The tracks to send; null: all"},
            "codecs": {
                "type": ["array", "null"],
                "items": STRING,
                "maxItems": MAX_CODECS,
                "description": "The encodings of video that the client can decode, besides JPEG; null keeps the last",
            },
            "seat": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "For a viewer: the seat to watch; null keeps the last",
            },
        },
        additionalProperties=False,
    )


def from_server(*, replies: list[str]) -> dict[str, Schema]:
    """Return the schemas of the protocol's messages to the client by type.

    `replies` names the components of the messages that a reply may hold. `State` and `Track` are components of the
    model's document.
    """
    reply = {"message": one_of(replies)} if replies else {}
    data: dict[str, tuple[Schema, str]] = {
        "reactor.welcome": (welcome_schema(), "The first message to a client that sees the model."),
        "reactor.session": (_session(), "A change of the session, or of loading the model."),
        "reactor.queue": (
            record(
                {"position": {**COUNT, "minimum": 1}, "length": COUNT},
                {
                    "wait_s": {"type": "number", "minimum": 0, "description": "The estimated time until the session"},
                    "reason": {**STRING, "description": "Why no other session fits on the loaded model"},
                },
            ),
            "The client's position in the wait queue.",
        ),
        "reactor.redirect": (
            record({"url": {**STRING, "format": "uri"}, "ticket": STRING}, {"session": STRING, "returning": STRING}),
            "Continue at this server, which the ticket lets this client enter once.",
        ),
        "reactor.state": (ref("State"), "The public state fields that changed."),
        "reactor.seats": (
            record(
                {
                    "room": {"type": ["string", "null"], "description": "The code, null without it in a private room"},
                    "clients": {
                        "type": "array",
                        "items": {"type": ["string", "null"]},
                        "description": "The client in each seat, null in a free one",
                    },
                    "away": {"type": "array", "items": COUNT, "description": "Seats whose controllers may resume"},
                }
            ),
            "Who has which seat, in a session with several.",
        ),
        "reactor.contract": (
            record({"tracks": TRACKS, "schema": MODEL}),
            "A reload changed the model's tracks, events or messages.",
        ),
        "reactor.reload": (schema_of(ReloadMessage), "A reload was applied, has failed, or takes a while."),
        "reactor.stats": (_stats(), "Once a second: metrics of the model and of this client."),
        "reactor.pong": (
            record({"t": {"type": ["number", "string"]}, "server_us": COUNT}),
            "The answer to a ping; `server_us` is the server's wall clock in microseconds since the epoch.",
        ),
    }
    described = {kind: message(kind, schema, text) for kind, (schema, text) in data.items()}
    described["reactor.reply"] = message(
        "reactor.reply", record({"n": NUMBER_OF_EVENT}, reply), "The event with this id was applied.", id_required=True
    )
    described["reactor.keep"] = message(
        "reactor.keep",
        _keep(),
        "The answer to `reactor.keep`, with its id: the recording was saved, or can't be saved.",
        id_required=False,
    )
    described["reactor.stepped"] = message(
        "reactor.stepped", _made(), "The steps that this id requested are made.", id_required=False
    )
    described["reactor.error"] = message(
        "reactor.error", _error(), "An event, a message or media was refused.", id_required=False
    )
    return described


def track() -> Schema:
    """Describe a track as `reactor.welcome` lists it."""
    return record(
        {
            "name": STRING,
            "kind": {"type": "string", "enum": ["video", "audio"]},
            "direction": {"type": "string", "enum": ["out", "in"], "description": "out: from the model to its clients"},
        },
        {"sample_rate": {"type": "integer", "minimum": 1, "description": "Samples a second, for sound"}},
    )


def health() -> Schema:
    """Describe the response of `GET /health`; without a required token it has the status alone."""
    status = {"type": "string", "enum": ["loading", "ready", "busy", "stopping", "failed"]}
    session = {"type": ["string", "null"]}
    maybe = {"type": ["number", "null"], "minimum": 0}
    engine = record(
        {
            "number": {**COUNT, "description": "Counts the sessions from 1"},
            "status": status,
            "session": session,
            "worker": {**STRING, "description": 'The worker of a cluster; "" at a server with a model'},
            "node": {**STRING, "description": "The machine of a worker"},
            "url": {**STRING, "description": "The URL of a worker for clients"},
            "gpu": STRING,
            "clients": COUNT,
            "viewers": COUNT,
            "fps": {**maybe, "description": "null: there is no session"},
            "age_ms": maybe,
            "late_ms": maybe,
            "memory_bytes": {**maybe, "description": "null: it is unknown"},
            "uptime_s": {**maybe, "description": "null: the model loads"},
        }
    )
    more = {
        "model": STRING,
        "fitting": {**COUNT, "description": "How many sessions fit on the loaded models"},
        "limit": {**STRING, "description": 'Why no other session fits now; ""'},
        "session": session,
        "viewers": COUNT,
        "waiting": COUNT,
        "engines": {"type": "array", "items": engine, "description": "The state of each session's engine"},
        "uptime_s": SECONDS,
    }
    return record({"status": status}, more)


def _session() -> Schema:
    reasons = ["left", "turn_over", "idle", "finished", "model_error", "model_died", "restarting", "server_stopping"]
    phases: dict[str, tuple[Schema, Schema]] = {
        "loading": (
            {"detail": {**STRING, "description": "The last line that the model printed"}, "elapsed_s": SECONDS},
            {"model": STRING, "progress": PROGRESS},
        ),
        "started": ({"session": STRING}, {}),
        "preparing": ({"detail": STRING, "progress": PROGRESS}, {}),
        "ending": ({"seconds": SECONDS_OR_NULL}, {}),
        "idle": ({"seconds": SECONDS_OR_NULL}, {}),
        "away": ({"seconds": SECONDS_OR_NULL}, {}),
        "resumed": ({"session": STRING}, {}),
        "ended": ({"reason": {"type": "string", "enum": reasons}}, {"message": STRING}),
        "stopping": (
            {"seconds": {"type": "number", "minimum": 0, "description": "The longest time until the server stops"}},
            {"message": STRING},
        ),
        "warning": ({"message": STRING}, {}),
        "failed": ({"message": STRING}, {}),
        "lost": ({"message": STRING}, {}),
    }
    return {
        "oneOf": [
            record({"phase": {"type": "string", "const": phase}, **required}, optional)
            for phase, (required, optional) in phases.items()
        ]
    }


def _keep() -> Schema:
    return record(
        {
            "file": {**or_null(STRING), "description": "The path of the recording; null: it was not saved"},
            "message": {**or_null(STRING), "description": "Why it was not saved, or ends before now"},
            "hint": {**or_null(STRING), "description": "What to do"},
        }
    )


def _error() -> Schema:
    field = record({"path": STRING, "message": STRING})
    code = {
        **STRING,
        "description": "A code of the protocol, or one that the author defines",
        "examples": [str(e) for e in ErrorCode],
    }
    optional = {"fields": {"type": "array", "items": field}, "event": STRING, "made": _made()}
    return record({"code": code, "message": STRING}, optional)


def _stats() -> Schema:
    time_ms = {"type": "number", "minimum": 0}
    maybe_ms = {"type": ["number", "null"], "minimum": 0}
    rate = {"type": "number", "minimum": 0}
    wanted = {"type": ["number", "null"], "minimum": 0, "description": "null: all"}
    inputs = {
        **by_name(record({"came": rate, "taken": rate, "wanted": wanted})),
        "description": "For the controller: frames per second of each input track that has received any",
    }
    lost = {
        **by_name(COUNT),
        "description": "For the controller: frames and pieces of sound that the model read too slowly, by track",
    }
    return record(
        {
            "queue": {**COUNT, "description": "Bundles that wait to be shown"},
            "rung": {**COUNT, "description": "The rung of the quality ladder, 0 is the best"},
            "quality": {"type": "integer", "minimum": 1, "maximum": 100},
            "scale": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "why": {"type": "string", "enum": ["full", "network", "client", *NO_VIDEO]},
            "fps": by_name(time_ms),
            "emitted": COUNT,
            "sent": COUNT,
            "skipped": COUNT,
            "window": by_name(COUNT),
            "rtt_ms": maybe_ms,
            "send_ms": maybe_ms,
        },
        {
            **{f"{stage}_ms": time_ms for stage in STAGES},
            "watching": {**COUNT, "description": "Clients that receive the session, without its controller"},
            "inputs": inputs,
            "inputs_lost": lost,
            "codec": {**STRING, "description": "The encoding of the frames, for a client that has named `codecs`"},
            "kbit_s": {**rate, "description": "Of the frames that this client was sent, if it has named `codecs`"},
        },
    )
