"""Encodes and decodes text messages; for any input `decode_text` returns a message or raises `WireError`."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.messages import Ack, Event, Here, Keep, KeyRequest, Ping, Reload, Step, View
from reactor_runtime.wire.protocol import MAX_STEPS, RESERVED_PREFIX

MAX_DEPTH = 64
MAX_TYPE_LENGTH = 128
MAX_ID_LENGTH = 128
MAX_T_LENGTH = 64
MAX_TRACKS = 256
MAX_CODECS = 16
MAX_SEQ = 2**32 - 1
MAX_SEED = 2**32 - 1
MAX_COMMANDS = 256
# Characters of a text of the client in an error.
MOST_QUOTED = 40
# A frame that was held for longer says nothing about the network.
MAX_HELD_MS = 1e7
LOWEST_FPS = 0.01

ClientMessage = Event | Ack | Here | Keep | KeyRequest | Ping | Reload | Step | View

_KEYS = ("type", "data", "id")
_SEPARATORS = (",", ":")
_OPEN_AND_CLOSE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ACK = re.compile(
    rb'\{"type": ?"reactor\.ack", ?"data": ?\{"track": ?"([A-Za-z0-9_]+)", ?"seq": ?(0|[1-9][0-9]{0,9})'
    rb'(?:, ?"held_ms": ?((?:0|[1-9][0-9]{0,6})(?:\.[0-9]{1,9})?))?\}\}'
)


def decode_text(text: str) -> ClientMessage:
    """Decode one text message of a client.

    Raises `WireError` with INVALID_JSON or INVALID_MESSAGE, and with the message's id if it could be read. The caller
    limits the length.
    """
    message, wrong = _parse(text)
    if not isinstance(message, dict):
        raise _invalid(f"a message is a JSON object, got {_kind(message)}")
    message_id = _id(message)
    try:
        if wrong:
            raise WireError(ErrorCode.INVALID_JSON, f"not JSON: {wrong[0]}")
        return _message(message, message_id)
    except WireError as error:
        raise WireError(error.code, error.message, id=message_id) from error


def decode_ack(text: bytes) -> Ack | None:
    """Decode an acknowledgement in its usual form; return None for any other text, which `decode_text` decodes.

    Each client sends one per frame, and this takes a tenth of the time.
    """
    found = _ACK.fullmatch(text)
    if found is None or (seq := int(found[2])) > MAX_SEQ:
        return None
    return Ack(found[1].decode(), seq, float(found[3] or 0))


def encode_text(type: str, data: Mapping[str, Any], id: str | int | None = None) -> str:
    """Encode one text message, compact and without escapes, which would take up to three times the bytes.

    A message with half a surrogate pair is escaped to ASCII. Raises `ValueError` for NaN and infinity, and `TypeError`
    for values that JSON can't express.
    """
    message: dict[str, Any] = {"type": type, "data": data}
    if id is not None:
        message["id"] = id
    text = _dump(message)
    return text if _is_unicode(text) else json.dumps(message, allow_nan=False, separators=_SEPARATORS)


def size_bytes_of(message: str | bytes) -> int:
    """Return how many bytes a message has on the wire."""
    return len(message) if isinstance(message, bytes) or message.isascii() else len(message.encode(errors="replace"))


def _parse(text: str) -> tuple[object, list[str]]:
    """Parse JSON; list the faults that Python accepts and we refuse, so that the error can carry the id."""
    # The engine parses events again, deeper in its stack: anything accepted here must be harmless there.
    wrong = [f"nested more than {MAX_DEPTH} deep"] if _is_deep(text) else []

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            wrong.append("an object has the same key twice")
        return result

    def read_constant(name: str) -> None:
        wrong.append(f"{name} is not a JSON number")

    try:
        message: object = json.loads(text, parse_constant=read_constant, object_pairs_hook=make_object)
    except RecursionError:
        raise WireError(ErrorCode.INVALID_JSON, f"nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise WireError(ErrorCode.INVALID_JSON, f"not JSON: {error.msg} at {place}") from error
    # The parser's only other ValueError; its text is advice on an interpreter setting.
    except ValueError as error:
        most = sys.get_int_max_str_digits()
        raise WireError(ErrorCode.INVALID_JSON, f"an integer has more than {most} digits") from error
    return message, wrong


def _data(data: dict[str, Any]) -> str:
    """Encode data as JSON again; refuse numbers that became infinite, such as 1e999, and half surrogates."""
    try:
        return _checked(_dump(data))
    # Infinity is the only value of parsed JSON that can't be written again.
    except ValueError as error:
        raise WireError(ErrorCode.INVALID_JSON, "a number is too large, at most 1.8e308 is allowed") from error


def _checked(text: str) -> str:
    if _is_unicode(text):
        return text
    raise WireError(ErrorCode.INVALID_JSON, "a string holds half of a surrogate pair")


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(message: dict[str, Any], message_id: str | int | None) -> ClientMessage:
    unknown = [key for key in message if key not in _KEYS]
    if unknown:
        raise _invalid(f"unknown key {_quote(unknown[0])}: a message has type, data and id")
    kind = message.get("type")
    if not isinstance(kind, str) or not kind:
        raise _invalid(f"type must be a non-empty string, got {_kind(kind) if 'type' in message else 'none'}")
    if len(_checked(kind)) > MAX_TYPE_LENGTH:
        raise _invalid(f"type has {len(kind)} characters, at most {MAX_TYPE_LENGTH} are allowed")
    data = message.get("data", {})
    if not isinstance(data, dict):
        raise _invalid(f"data must be an object, got {_kind(data)}")
    data_json = _data(data)
    if not kind.startswith(RESERVED_PREFIX):
        return Event(kind, data_json, message_id)
    match kind:
        case "reactor.ack":
            return _ack(data)
        case "reactor.here":
            _check_keys("reactor.here", data, ())
            return Here()
        case "reactor.keep":
            _check_keys("reactor.keep", data, ())
            return Keep(message_id)
        case "reactor.key":
            return _key(data)
        case "reactor.reload":
            _check_keys("reactor.reload", data, ())
            return Reload(message_id)
        case "reactor.ping":
            return _ping(data)
        case "reactor.step":
            return _step(data, message_id)
        case "reactor.view":
            return _view(data)
    known = (
        "reactor.ack, reactor.here, reactor.keep, reactor.key, reactor.ping, reactor.reload, reactor.step, reactor.view"
    )
    raise _invalid(f"unknown type {_quote(kind)}: a client sends {known} or a model event")


def _id(message: dict[str, Any]) -> str | int | None:
    if "id" not in message:
        return None
    value = message["id"]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _invalid(f"id must be a string or an integer, got {_kind(value)}")
    if _is_longer(value, MAX_ID_LENGTH):
        raise _invalid(f"id has more than {MAX_ID_LENGTH} characters")
    return _checked(value) if isinstance(value, str) else value


def _is_longer(value: float | str, length: int) -> bool:
    """Return whether a value that will be sent back has too many characters."""
    if isinstance(value, str):
        return len(value) > length
    return isinstance(value, int) and abs(value) >= 10**length


def _ack(data: dict[str, Any]) -> Ack:
    _check_keys("reactor.ack", data, ("track", "seq", "held_ms"))
    track, seq, held_ms = _track("reactor.ack", data), data.get("seq"), data.get("held_ms", 0)
    if isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq <= MAX_SEQ:
        raise _invalid(f"reactor.ack: seq must be an integer from 0 to {MAX_SEQ}, got {_kind(seq)}")
    if isinstance(held_ms, bool) or not isinstance(held_ms, int | float) or held_ms < 0:
        raise _invalid(f"reactor.ack: held_ms must be a number of at least 0, got {_kind(held_ms)}")
    return Ack(track, seq, float(min(held_ms, MAX_HELD_MS)))


def _key(data: dict[str, Any]) -> KeyRequest:
    _check_keys("reactor.key", data, ("track",))
    return KeyRequest(_track("reactor.key", data))


def _track(kind: str, data: dict[str, Any]) -> str:
    track = data.get("track")
    if not isinstance(track, str) or not track:
        raise _invalid(f"{kind}: track must be the name of a track, got {_kind(track)}")
    return track


def _ping(data: dict[str, Any]) -> Ping:
    _check_keys("reactor.ping", data, ("t",))
    t = data.get("t")
    if isinstance(t, bool) or not isinstance(t, int | float | str):
        raise _invalid(f"reactor.ping: t must be a number or a string, got {_kind(t)}")
    if _is_longer(t, MAX_T_LENGTH):
        raise _invalid(f"reactor.ping: t has more than {MAX_T_LENGTH} characters")
    return Ping(t)


def _step(data: dict[str, Any], message_id: str | int | None) -> Step:
    _check_keys("reactor.step", data, ("n", "state", "commands", "media", "reset", "seed"))
    n, seed, reset = data.get("n", 1), data.get("seed"), data.get("reset", False)
    if not _is_from_0_to(n, MAX_STEPS):
        raise _invalid(f"reactor.step: n must be an integer from 0 to {MAX_STEPS}, got {_kind(n)}")
    if not isinstance(reset, bool):
        raise _invalid(f"reactor.step: reset must be true or false, got {_kind(reset)}")
    if seed is not None and not _is_from_0_to(seed, MAX_SEED):
        raise _invalid(f"reactor.step: seed must be an integer from 0 to {MAX_SEED} or null, got {_kind(seed)}")
    state, commands, media = data.get("state", {}), data.get("commands", []), data.get("media", {})
    if not isinstance(state, dict):
        raise _invalid(f"reactor.step: state must be an object of fields and values, got {_kind(state)}")
    if not isinstance(commands, list) or len(commands) > MAX_COMMANDS:
        raise _invalid(f"reactor.step: commands must be a list of at most {MAX_COMMANDS}, got {_kind(commands)}")
    for index, command in enumerate(commands):
        _check_command(f"reactor.step: commands[{index}]", command)
    if not isinstance(media, dict) or not all(_is_from_0_to(count, MAX_SEQ) for count in media.values()):
        raise _invalid(f"reactor.step: media must be an object of tracks and counts, got {_kind(media)}")
    if media and (reset or seed is not None):
        raise _invalid("reactor.step: media can't come with a reset, which empties its buffers: send it later")
    inputs = {"state": state, "commands": commands}
    return Step(n, _dump(inputs) if state or commands else "{}", media, reset or seed is not None, seed, message_id)


def _is_from_0_to(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _check_command(where: str, command: object) -> None:
    if not isinstance(command, dict):
        raise _invalid(f"{where} must be an object with command and data, got {_kind(command)}")
    _check_keys(where, command, ("command", "data"))
    name, data = command.get("command"), command.get("data", {})
    if not isinstance(name, str) or not name or len(name) > MAX_TYPE_LENGTH or name.startswith(RESERVED_PREFIX):
        raise _invalid(f"{where}.command must be the name of an event of the model, got {_kind(name)}")
    if not isinstance(data, dict):
        raise _invalid(f"{where}.data must be an object, got {_kind(data)}")


def _view(data: dict[str, Any]) -> View:
    _check_keys("reactor.view", data, ("paused", "max_fps", "tracks", "codecs", "seat"))
    paused, max_fps, seat = data.get("paused", False), data.get("max_fps"), data.get("seat")
    if not isinstance(paused, bool):
        raise _invalid(f"reactor.view: paused must be true or false, got {_kind(paused)}")
    if max_fps is not None:
        max_fps = _rate(max_fps)
    tracks = _names(data, "tracks", "track", MAX_TRACKS)
    if seat is not None and not _is_from_0_to(seat, MAX_SEQ):
        raise _invalid(f"reactor.view: seat must be the number of a seat or null, got {_kind(seat)}")
    return View(paused, max_fps, tracks, _names(data, "codecs", "codec", MAX_CODECS), seat)


def _names(data: dict[str, Any], key: str, what: str, limit: int) -> tuple[str, ...] | None:
    names = data.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _invalid(f"reactor.view: {key} must be a list of {what} names or null, got {_kind(names)}")
    if len(names) > limit:
        raise _invalid(f"reactor.view: {key} has {len(names)} names, at most {limit} are allowed")
    return tuple(names)


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < LOWEST_FPS:
        raise _invalid(f"reactor.view: max_fps must be a number from {LOWEST_FPS} up or null, got {_kind(value)}")
    # An integer too long for a float is no limit at all.
    return float(value) if value < 2**63 else math.inf


def _check_keys(kind: str, data: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in data:
        if key not in known:
            raise _invalid(f"{kind}: unknown key {_quote(key)}, known: {', '.join(known) or 'none'}")


def _is_deep(text: str) -> bool:
    """Return whether brackets are nested too deeply; each pass removes one level of empty pairs."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    outside_strings = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    brackets = "".join(outside_strings).encode(errors="replace").translate(_OPEN_AND_CLOSE, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    # Unclosed brackets remain. The parser reports them, if they are no more than may be open at once.
    return len(brackets) > MAX_DEPTH or brackets.endswith(b"]")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=_SEPARATORS)


def _kind(value: object) -> str:
    """Describe a value briefly, whatever its size."""
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return "an unusable number" if isinstance(value, int) and value.bit_length() > 64 else str(value)
        case str():
            return f"the string {_quote(value)}" if value else "an empty string"
        case list():
            return "a list"
    return "an object"


def _quote(text: str) -> str:
    return json.dumps(text if len(text) <= MOST_QUOTED else text[:MOST_QUOTED] + "…", ensure_ascii=False)


def _invalid(message: str) -> WireError:
    return WireError(ErrorCode.INVALID_MESSAGE, message)
