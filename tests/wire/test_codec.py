from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.errors import WireError
from reactor_runtime.wire.codec import MAX_DEPTH, MAX_ID_LENGTH, MAX_TYPE_LENGTH, decode_ack, decode_text, encode_text
from reactor_runtime.wire.messages import Ack, Event, Keep, KeyRequest, Ping, Reload, View

text_st = st.text()
json_st = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text_st,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text_st, inner, max_size=4),
    max_leaves=20,
)


def refused(text: str) -> WireError:
    with pytest.raises(WireError) as caught:
        decode_text(text)
    return caught.value


def event(data: str) -> str:
    return f'{{"type": "set_brightness", "data": {data}}}'


def test_event_keeps_its_data_as_compact_json() -> None:
    text = '{"type": "set_brightness", "data": {"brightness": 0.5, "name": "größer"}, "id": "a"}'
    assert decode_text(text) == Event("set_brightness", '{"brightness":0.5,"name":"größer"}', "a")


def test_data_and_id_may_be_missing() -> None:
    assert decode_text('{"type": "reset"}') == Event("reset", "{}", None)


@pytest.mark.parametrize("name", ["setPrompt", "set_2d_mode", "reactor", "reactors.ack", "größe", " "])
def test_event_names_are_taken_as_written(name: str) -> None:
    assert decode_text(json.dumps({"type": name})) == Event(name, "{}")


@pytest.mark.parametrize("value", [0, -3, 2**70, "", "a"], ids=str)
def test_ids_are_strings_or_integers(value: str | int) -> None:
    decoded = decode_text(json.dumps({"type": "reset", "id": value}))
    assert isinstance(decoded, Event)
    assert decoded.id == value
    assert type(decoded.id) is type(value)


PROTOCOL = {
    '{"type": "reactor.ack", "data": {"track": "main_video", "seq": 0}}': Ack("main_video", 0),
    '{"type": "reactor.ack", "data": {"track": "main_video", "seq": 4294967295}}': Ack("main_video", 2**32 - 1),
    '{"type": "reactor.keep"}': Keep(),
    '{"type": "reactor.keep", "id": "k"}': Keep("k"),
    '{"type": "reactor.key", "data": {"track": "a"}}': KeyRequest("a"),
    '{"type": "reactor.ping", "data": {"t": 12.5}}': Ping(12.5),
    '{"type": "reactor.ping", "data": {"t": "now"}, "id": 3}': Ping("now"),
    '{"type": "reactor.reload"}': Reload(),
    '{"type": "reactor.reload", "id": 0}': Reload(0),
    '{"type": "reactor.view"}': View(),
    '{"type": "reactor.view", "data": {"paused": true}}': View(paused=True),
    '{"type": "reactor.view", "data": {"max_fps": 15, "tracks": ["a", "b"]}}': View(max_fps=15.0, tracks=("a", "b")),
    '{"type": "reactor.view", "data": {"max_fps": null, "tracks": null}}': View(),
    '{"type": "reactor.view", "data": {"tracks": []}}': View(tracks=()),
    '{"type": "reactor.view", "data": {"codecs": ["h264", "png"]}}': View(codecs=("h264", "png")),
    '{"type": "reactor.view", "data": {"codecs": null}}': View(),
    f'{{"type": "reactor.view", "data": {{"max_fps": {10**400}}}}}': View(max_fps=math.inf),
}


def test_a_view_among_the_tracks_there_are_names_no_others() -> None:
    view = View(paused=True, tracks=("nowhere", "left", "left"))
    assert view.among(("left", "right")) == View(paused=True, tracks=("left",))
    assert view.among(None) == view
    assert View().among(("left",)) == View()


@pytest.mark.parametrize("text", PROTOCOL, ids=lambda text: text[:70])
def test_protocol_messages(text: str) -> None:
    assert decode_text(text) == PROTOCOL[text]


NOT_JSON = {
    "nothing": ("", "not JSON"),
    "word": ("hello", "line 1 column 1"),
    "unfinished": ('{"type": "reset"', "line 1 column 17"),
    "two messages": ('{"type": "a"} {"type": "b"}', "Extra data"),
    "NaN": (event('{"brightness": NaN}'), "NaN is not a JSON number"),
    "infinity": (event('{"brightness": -Infinity}'), "-Infinity is not"),
    "float too big": (event('{"brightness": 1e999}'), "a number is too large, at most 1.8e308 is allowed"),
    "integer too long": (event(f'{{"brightness": {"9" * 5000}}}'), "an integer has more than 4300 digits"),
    "deep lists": (event('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"), "deep"),
    "deep objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "deep"),
    "a little too deep": (event('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"), "deep"),
    "unclosed depth": ("[" * 200_000, "deep"),
    "same key twice": ('{"type": "a", "type": "b"}', "same key twice"),
    "same key twice inside": (event('{"a": {"b": 1, "b": 1}}'), "same key twice"),
    "half a surrogate": (event(r'{"a": "\ud800"}'), "surrogate"),
    "half a surrogate as key": (event(r'{"\udfff": 1}'), "surrogate"),
    "half a surrogate as type": (r'{"type": "\ud800"}', "surrogate"),
    "half a surrogate as id": (r'{"type": "a", "id": "\ud800"}', "surrogate"),
    "raw half surrogate": (event('{"a": "\udc80"}'), "surrogate"),
    "byte order mark": ("\ufeff{}", "not JSON"),
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_not_json(name: str) -> None:
    text, reason = NOT_JSON[name]
    error = refused(text)
    assert error.code == "invalid_json"
    assert reason in error.message


@pytest.mark.parametrize(
    "data",
    [
        '{"a": NaN}',
        '{"a": [-Infinity]}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        r'{"a": "\ud800"}',
        '{"a": ' + "[" * 70 + "]" * 70 + "}",
    ],
    ids=["NaN", "infinity", "too big", "twice", "surrogate", "deep"],
)
def test_the_error_for_values_that_json_lacks_has_the_id(data: str) -> None:
    assert refused(f'{{"type": "reset", "data": {data}, "id": 7}}').id == 7


INVALID = {
    "null": ("null", "a message is a JSON object, got null"),
    "list": ("[]", "got a list"),
    "string": ('"reset"', 'got the string "reset"'),
    "number": ("3", "got 3"),
    "no type": ("{}", "type must be a non-empty string, got none"),
    "type null": ('{"type": null}', "got null"),
    "type empty": ('{"type": ""}', "got an empty string"),
    "type number": ('{"type": 3}', "got 3"),
    "type object": ('{"type": {}}', "got an object"),
    "data null": ('{"type": "a", "data": null}', "data must be an object, got null"),
    "data list": ('{"type": "a", "data": []}', "data must be an object, got a list"),
    "id null": ('{"type": "a", "id": null}', "id must be a string or an integer, got null"),
    "id bool": ('{"type": "a", "id": true}', "got true"),
    "id float": ('{"type": "a", "id": 1.5}', "got 1.5"),
    "unknown key": ('{"type": "a", "payload": {}}', 'unknown key "payload"'),
    "reserved": (
        '{"type": "reactor.welcome"}',
        "reactor.keep, reactor.key, reactor.ping, reactor.reload, reactor.step, reactor.view",
    ),
    "reserved and empty": ('{"type": "reactor."}', 'unknown type "reactor."'),
    "step of a word": ('{"type": "reactor.step", "data": {"n": "two"}}', "n must be an integer from 0 to 10000"),
    "step with too many": ('{"type": "reactor.step", "data": {"n": 10001}}', "got 10001"),
    "step with bool": ('{"type": "reactor.step", "data": {"n": true}}', "got true"),
    "step with a key": ('{"type": "reactor.step", "data": {"steps": 1}}', 'unknown key "steps"'),
    "seed too large": ('{"type": "reactor.step", "data": {"seed": 4294967296}}', "got 4294967296"),
    "state of a list": ('{"type": "reactor.step", "data": {"state": []}}', "state must be an object"),
    "commands of an object": ('{"type": "reactor.step", "data": {"commands": {}}}', "commands must be a list"),
    "command of a word": (
        '{"type": "reactor.step", "data": {"commands": [{"command": "a"}, "b"]}}',
        "commands[1] must be an object",
    ),
    "command without name": ('{"type": "reactor.step", "data": {"commands": [{}]}}', "commands[0].command must be"),
    "command of the protocol": (
        '{"type": "reactor.step", "data": {"commands": [{"command": "reactor.view"}]}}',
        "commands[0].command must be the name of an event",
    ),
    "command with a list": (
        '{"type": "reactor.step", "data": {"commands": [{"command": "a", "data": []}]}}',
        "commands[0].data must be an object",
    ),
    "media with a seed": (
        '{"type": "reactor.step", "data": {"seed": 1, "media": {"camera": 1}}}',
        "media can't come with a reset",
    ),
    "media without count": ('{"type": "reactor.step", "data": {"media": {"camera": -1}}}', "media must be an object"),
    "ack without seq": ('{"type": "reactor.ack", "data": {"track": "v"}}', "seq must be an integer"),
    "ack without track": ('{"type": "reactor.ack", "data": {"seq": 1}}', "track must be the name of a track"),
    "ack with bool": ('{"type": "reactor.ack", "data": {"track": "v", "seq": true}}', "got true"),
    "ack below zero": ('{"type": "reactor.ack", "data": {"track": "v", "seq": -1}}', "got -1"),
    "ack above the field": ('{"type": "reactor.ack", "data": {"track": "v", "seq": 4294967296}}', "got 4294967296"),
    "ack with huge number": (
        f'{{"type": "reactor.ack", "data": {{"track": "v", "seq": {10**4000}}}}}',
        "got an unusable number",
    ),
    "ack with more": ('{"type": "reactor.ack", "data": {"track": "v", "seq": 1, "x": 1}}', 'unknown key "x"'),
    "ping without t": ('{"type": "reactor.ping"}', "t must be a number or a string, got null"),
    "ping with bool": ('{"type": "reactor.ping", "data": {"t": false}}', "got false"),
    "ping with list": ('{"type": "reactor.ping", "data": {"t": [1]}}', "got a list"),
    "view paused": ('{"type": "reactor.view", "data": {"paused": 1}}', "paused must be true or false, got 1"),
    "view fps zero": ('{"type": "reactor.view", "data": {"max_fps": 0}}', "max_fps must be a number from 0.01 up"),
    "view fps bool": ('{"type": "reactor.view", "data": {"max_fps": true}}', "got true"),
    "view fps text": ('{"type": "reactor.view", "data": {"max_fps": "15"}}', 'got the string "15"'),
    "view tracks text": ('{"type": "reactor.view", "data": {"tracks": "v"}}', "list of track names"),
    "view tracks numbers": ('{"type": "reactor.view", "data": {"tracks": [1]}}', "list of track names"),
    "key without a track": ('{"type": "reactor.key", "data": {}}', "track must be the name of a track"),
    "key with more": ('{"type": "reactor.key", "data": {"track": "a", "seq": 1}}', "unknown key"),
    "view codecs text": ('{"type": "reactor.view", "data": {"codecs": "png"}}', "list of codec names"),
    "view of too many codecs": (
        json.dumps({"type": "reactor.view", "data": {"codecs": ["a"] * 17}}),
        "codecs has 17 names, at most 16 are allowed",
    ),
    "type too long": (json.dumps({"type": "a" * 129}), "type has 129 characters, at most 128 are allowed"),
    "id too long": (json.dumps({"type": "a", "id": "é" * 129}), "id has more than 128 characters"),
    "id of too many digits": (json.dumps({"type": "a", "id": -(10**128)}), "id has more than 128 characters"),
    "t too long": (json.dumps({"type": "reactor.ping", "data": {"t": "a" * 65}}), "t has more than 64 characters"),
    "t of too many digits": (json.dumps({"type": "reactor.ping", "data": {"t": 10**64}}), "t has more than 64"),
    "view of too many tracks": (
        json.dumps({"type": "reactor.view", "data": {"tracks": ["a"] * 257}}),
        "tracks has 257 names, at most 256 are allowed",
    ),
    "view unknown": ('{"type": "reactor.view", "data": {"fps": 3}}', "known: paused, max_fps, tracks"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_message(name: str) -> None:
    text, reason = INVALID[name]
    error = refused(text)
    assert error.code == "invalid_message"
    assert reason in error.message


def test_error_carries_the_id_of_its_message() -> None:
    assert refused('{"type": "reactor.nonsense", "id": 7}').id == 7
    assert refused('{"id": "a", "data": {}}').id == "a"
    assert refused('{"type": "a"').id is None


def test_error_stays_short_whatever_came() -> None:
    assert len(refused(json.dumps({"type": "a", "x" * 100_000: 1})).message) < 200


def test_nesting_up_to_the_limit_is_accepted() -> None:
    depth = MAX_DEPTH - 2
    assert isinstance(decode_text(event('{"a": ' + "[" * depth + "]" * depth + "}")), Event)


def test_values_that_are_sent_back_may_be_as_long_as_their_limit() -> None:
    longest = json.dumps({"type": "a" * 128, "id": "é" * 128}, ensure_ascii=False)
    assert decode_text(longest) == Event("a" * 128, "{}", "é" * 128)
    assert decode_text(json.dumps({"type": "a", "id": 10**128 - 1})) == Event("a", "{}", 10**128 - 1)
    assert decode_text(json.dumps({"type": "reactor.ping", "data": {"t": "a" * 64}})) == Ping("a" * 64)


@pytest.mark.parametrize("item", ["[]", "{}", '"["', r'"\\\"["', "[[{}]]"])
def test_many_brackets_side_by_side_are_not_deep(item: str) -> None:
    assert isinstance(decode_text(event(f'{{"a": [{",".join([item] * 1000)}]}}')), Event)


OUTCOMES = ("decoded", "invalid_json", "invalid_message")


def outcome(text: str) -> str:
    try:
        decode_text(text)
    except WireError as error:
        return error.code
    return "decoded"


@given(st.text(st.characters()) | st.text(alphabet='{}[]":,\\u0dntfe1-. typeaid', max_size=60))
def test_any_text_is_a_message_or_a_wire_error(text: str) -> None:
    assert outcome(text) in OUTCOMES


@given(json_st, json_st, json_st)
def test_any_envelope_is_a_message_or_a_wire_error(kind: Any, data: Any, message_id: Any) -> None:
    for envelope in (kind, {"type": kind, "data": data}, {"type": "reactor.view", "data": data, "id": message_id}):
        assert outcome(json.dumps(envelope)) in OUTCOMES


@given(
    st.text(min_size=1, max_size=MAX_TYPE_LENGTH).filter(lambda name: not name.startswith("reactor.")),
    st.dictionaries(text_st, json_st),
    st.none() | st.integers(-(10**MAX_ID_LENGTH) + 1, 10**MAX_ID_LENGTH - 1) | st.text(max_size=MAX_ID_LENGTH),
)
def test_event_round_trip(kind: str, data: dict[str, Any], message_id: str | int | None) -> None:
    decoded = decode_text(encode_text(kind, data, message_id))
    assert isinstance(decoded, Event)
    assert (decoded.type, json.loads(decoded.data_json), decoded.id) == (kind, data, message_id)


ACK = '{"type":"reactor.ack","data":{"track":"main_video","seq":12}}'


HELD = ACK.replace("12", '12,"held_ms":4.5')


@pytest.mark.parametrize(
    "text",
    [
        ACK,
        ACK.replace(":", ": ").replace(",", ", "),
        ACK.replace("12", "4294967295"),
        HELD,
        HELD.replace(":", ": ").replace(",", ", "),
        HELD.replace("4.5", "0"),
        HELD.replace("4.5", "1234567"),
    ],
)
def test_an_acknowledgement_is_read_quickly(text: str) -> None:
    assert decode_ack(text.encode()) == decode_text(text)


def test_an_acknowledgement_may_tell_how_long_the_frame_was_held() -> None:
    assert decode_text(HELD) == Ack("main_video", 12, 4.5)
    assert decode_text(HELD.replace("4.5", "1e300")) == Ack("main_video", 12, 1e7)


@pytest.mark.parametrize("held_ms", ["-1", "true", '"4"', "null"])
def test_the_time_a_frame_was_held_is_a_number_of_at_least_zero(held_ms: str) -> None:
    with pytest.raises(WireError, match="held_ms must be a number of at least 0"):
        decode_text(ACK.replace("12", f'12,"held_ms":{held_ms}'))


@given(st.text(alphabet='"{}:, \\-0123456789.aedkst_ü', max_size=12), st.integers(0, len(ACK)), st.integers(0, 12))
def test_the_fast_decoder_gives_the_same_acknowledgement(piece: str, at: int, instead_of: int) -> None:
    text = ACK[:at] + piece + ACK[at + instead_of :]
    quickly = decode_ack(text.encode())
    assert quickly is None or quickly == decode_text(text)


@pytest.mark.parametrize("seq", ["4294967296", "012", "-1", "1.0", "1e3", "true", "99999999999"])
def test_the_fast_decoder_refuses_numbers_in_other_forms(seq: str) -> None:
    assert decode_ack(ACK.replace("12", seq).encode()) is None


def test_encoded_text_is_compact() -> None:
    assert encode_text("progress", {"step": 1, "of": None}) == '{"type":"progress","data":{"step":1,"of":null}}'
    assert encode_text("reactor.reply", {"n": 3}, id=0) == '{"type":"reactor.reply","data":{"n":3},"id":0}'


def test_characters_are_written_as_they_are() -> None:
    assert encode_text("log", {"text": "é🎬"}) == '{"type":"log","data":{"text":"é🎬"}}'


def test_any_string_of_a_model_can_be_sent() -> None:
    assert encode_text("log", {"text": "é\ud800"}).encode() == b'{"type":"log","data":{"text":"\\u00e9\\ud800"}}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_numbers_json_does_not_have_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_text("progress", {"share": value})


def test_values_json_can_not_hold_are_refused() -> None:
    with pytest.raises(TypeError):
        encode_text("progress", {"share": object()})
