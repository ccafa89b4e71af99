"""Messages nearly as clients send them: valid ones, with one thing or another wrong in them.

What chance there is comes from a `Random`: one with a seed for thousands of different messages, one of hypothesis's to
find the shortest that does harm.
"""

from __future__ import annotations

import io
import json
import wave
from random import Random
from typing import Any

from PIL import Image

from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader

ID = "@id@"  # where a message's own id goes
TEXTS = (
    "", " ", "\0", "a\0b", "\n\r\t", "\u202eabc", "\ufeff", "e\u0301", "\u00e9", "\U0001f469\u200d\U0001f680", "\uffff",
    "\u2028", "\ufdfa" * 50, "x" * 5000, "🎬" * 2000, "__proto__", "__class__", "constructor", "../../etc/passwd",
    "%s%n%x", "{0.__class__}", "${jndi:x}", "'; --", "<script>", "NaN", "null", "true", "1", "reactor.", "set_level\0",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "-1", "3", "255", "256", "1.0", "8.5", "1e2", "2147483648", "9007199254740993", "9223372036854775808",
    "-9223372036854775809", "1" + "0" * 30, "1" * 400, "5e-324", "1e308", "-1e308", "1e999", "-1e999", "9" * 4400,
)  # fmt: skip
BROKEN = (
    "NaN", "Infinity", "-Infinity", "nan", "00", "01", "0x10", "+1", ".5", "1.", "1e", "--1", "True", "None",
    "undefined", "'a'", '"\\x41"', '"\\u12"', '"\\ud800"', '"\\udc00\\ud800"', '"\x01"', '"a', "[1,]", "[,1]",
    '{"a":1,}', "{1:2}", '{"a":1,"a":2}', '{"a":1 "b":2}', "/**/1", "[" * 30 + "]" * 29, "", "[", "{",
)  # fmt: skip
DEEP = (
    *("[" * depth + "]" * depth for depth in (10, 61, 62, 63, 64, 65, 1000, 20_000)),
    '{"a":' * 70 + "1" + "}" * 70,
    "[" * 100_000,
)
VALID: tuple[tuple[str, dict[str, Any]], ...] = (
    ("set_level", {"level": 3}),
    ("set_name", {"name": "größer"}),
    ("set_weights", {"weights": [0.5, 1]}),
    ("set_mode", {"mode": "slow"}),
    ("set_by_name", {"by_name": {"a": 1}}),
    ("say", {"place": {"x": 1, "y": 2.5}, "loud": True}),
    ("take", {"file": {"upload": "u-0123456789abcdef"}}),
    ("reactor.ack", {"track": "main_video", "seq": 3}),
    ("reactor.ping", {"t": 12.5}),
    ("reactor.view", {"paused": False, "max_fps": 30, "tracks": None}),
    ("reactor.here", {}),
    ("reactor.keep", {}),
    ("reactor.key", {"track": "main_video"}),
    ("reactor.reload", {}),
)
PLAIN = ("null", "true", "false", "[]", "{}", '{"a":{}}', json.dumps(ID))
CHARACTERS = (*range(0x20, 0x7F), *range(0x20), *range(0xA0, 0x250), 0x202E, 0xFDFA, 0xFFFE, 0x1F3AC, 0x10FFFF)


def text(random: Random) -> str:
    """Write a string, of those that have harmed somebody before, or of any characters."""
    if random.random() < 0.6:
        return json.dumps(random.choice(TEXTS))
    return json.dumps("".join(chr(random.choice(CHARACTERS)) for _ in range(random.randrange(20))))


def value(random: Random) -> str:
    """Write a value, or what is none."""
    sort = random.randrange(6)
    if sort == 0:
        return json.dumps({f"k{number}": number for number in range(random.randrange(2000))})
    if sort == 1:
        return "[" + ",".join(value(random) for _ in range(random.randrange(3))) + "]"
    return text(random) if sort == 2 else random.choice((NUMBERS, BROKEN, (*DEEP, *PLAIN))[sort - 3])


def data_of(random: Random, data: dict[str, Any]) -> str:
    """Write a message's data with a value, a key or a member more or less than it should have."""
    members = [(json.dumps(key), json.dumps(value, ensure_ascii=False)) for key, value in data.items()]
    wrong = random.choice(("value", "value", "key", "more", "twice", "less", "nothing"))
    at = random.randrange(max(1, len(members)))
    if wrong == "more" or not members:
        members.append((text(random), value(random)))
    elif wrong == "value":
        members[at] = members[at][0], value(random)
    elif wrong == "key":
        members[at] = text(random), members[at][1]
    elif wrong == "twice":
        members.append((members[at][0], value(random)))
    elif wrong == "less":
        del members[at]
    return "{" + ",".join(f"{key}:{value}" for key, value in members) + "}"


def message(random: Random) -> str:
    """Write a text message, most of them with an id."""
    kind, data = random.choice(VALID)
    members = [
        ("type", value(random) if random.random() < 0.15 else json.dumps(kind)),
        ("data", value(random) if random.random() < 0.25 else data_of(random, data)),
    ]
    if random.random() < 0.9:
        members.append(("id", value(random) if random.random() < 0.1 else json.dumps(ID)))
    if random.random() < 0.05:
        members.append(random.choice(members))
    if random.random() < 0.05:
        members.append((random.choice(TEXTS[:12]), value(random)))
    random.shuffle(members)
    written = "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in members) + "}"
    return damaged(random, written) if random.random() < 0.05 else written


def damaged(random: Random, written: str) -> str:
    """Cut a text short, change a character of it, or put something before or behind it."""
    at, sort = random.randrange(len(written)), random.randrange(4)
    if sort == 0:
        return written[:at]
    if sort == 1:
        return written[at:]
    if sort == 2:
        return written[:at] + chr(random.choice(CHARACTERS)) + written[at + 1 :]
    return random.choice(("\ufeff" + written, written * 2, written + "\0", f"[{written}]", json.dumps(written)))


def _jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((32, 24)).save(buffer, "JPEG")
    return buffer.getvalue()


def _wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48000)
        file.writeframes(bytes(960))
    return buffer.getvalue()


FILES = tuple(
    variant
    for plain_file, track in ((_jpeg(), "camera"), (_wav(), "microphone"))
    for variant in (
        plain_file,
        attach(MediaHeader(track, 7, 1, 2), plain_file),
        attach(MediaHeader("nowhere", 7, 1, 2, metadata=b"{"), plain_file),
    )
)


def file(random: Random) -> bytes:
    """Make a binary message: a picture or a sound, most with lengths, sizes or bytes that are wrong."""
    made = bytearray(random.choice(FILES))
    for _ in range(random.randrange(4)):
        at = random.randrange(min(len(made), 200))
        made[at : at + 2] = random.choice((b"\xff\xff", b"\0\0", b"\x7f", b"\xff\xd8", b"\0\1", b""))
    if random.random() < 0.5:
        del made[random.randrange(len(made)) :]
    return random.choice((b"", b"", b"", b"\xff\xd8", b"RIFF", b"\0")) + bytes(made)


def hostile(count: int, seed: int) -> list[str | bytes]:
    """Make so many messages, the same ones for the same seed; one of ten is binary."""
    random = Random(seed)
    return [file(random) if random.random() < 0.1 else message(random) for _ in range(count)]
