"""The clients of both languages call the same thing by the same name, as each language writes it."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from reactor_runtime import client
from reactor_runtime.client import (
    EventError,
    Frame,
    Phase,
    Reply,
    Session,
    SessionEnded,
    Sound,
    Track,
    UploadError,
)
from tests.clients.test_types import DECLARED, members

ARRAYS = {"array", "delayMs", "wav"}  # of numpy, and of a clock that is set by the server's
VIDEO = {"arrivedS", "data", "earlier", "number"}  # of files of video, which the page does not write
# `welcome` of JavaScript has the room and the seats.
ONLY_IN_PYTHON = {
    "aclose",
    "arrived",
    "connection",
    "contracts",
    "environment",
    "expectTypes",
    "latest",
    "reloads",
    "requestKey",
    "room",
    "seat",
    "seats",
    "sound",
    "statuses",
}
ONLY_IN_JAVASCRIPT = {
    "addEventListener",
    "removeEventListener",
    "attach",
    "close",
    "medianInputDelayMs",
    "reconnect",
    "speaker",
    "stream",
    "welcome",
}


def camel(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def public(kind: type) -> set[str]:
    return {camel(name) for name in dir(kind) if not name.startswith("_")}


def test_a_session_has_the_same_verbs_and_values() -> None:
    python = public(Session) | {"connection"}
    assert python - ONLY_IN_PYTHON == members("Session") - ONLY_IN_JAVASCRIPT


@pytest.mark.parametrize("kind", [Frame, Sound, Track, Reply])
def test_values_have_the_same_fields(kind: type) -> None:
    declared = members(kind.__name__) | (members("FrameHeader") if kind in (Frame, Sound) else set())
    python = {camel(field.name) for field in fields(kind) if not field.name.startswith("_")} - ARRAYS - VIDEO
    assert python <= declared


@pytest.mark.parametrize(
    "error", [EventError("", ""), SessionEnded(""), UploadError("")], ids=lambda error: type(error).__name__
)
def test_errors_say_the_same(error: Exception) -> None:
    said = members(type(error).__name__) - {"constructor", "code"}  # in Python the class says it
    assert said <= public(type(error)) | set(vars(error))


def test_every_phase_is_one_of_both() -> None:
    status = re.search(r"^export type Status =(.*?);\n\n", DECLARED, re.M | re.S)
    assert status is not None
    assert set(re.findall(r'phase: "(\w+)"', status[1])) == {*Phase}


def test_errors_of_javascript_are_those_of_python() -> None:
    errors = set(re.findall(r"^export class (\w+) extends (?:\w*Error|ConnectError)\b", DECLARED, re.M))
    assert errors - {"MediaError"} <= set(client.__all__)
