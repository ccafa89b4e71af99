"""The shape of `reactor.reload`: the outcome of the last reload of the project's files, also in `reactor.welcome`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypedDict

from reactor_runtime.wire.json_schema import PROGRESS, STRING, Schema, or_null, schema_of

_LINE: Schema = {"type": ["integer", "null"], "minimum": 1}


class ReloadStatus(StrEnum):
    """The status of a reload.

    `APPLIED`: the newest code runs. `LOADING`: the model is loaded again in its process. `RESTARTING`: the process of
    the model is started again. `FAILED`: the newest code cannot run, and the code before it continues.
    """

    APPLIED = "applied"
    LOADING = "loading"
    RESTARTING = "restarting"
    FAILED = "failed"


class ReloadError(TypedDict):
    """Describe why new code cannot run; `file` is relative to the project, `text` is its line number `line`."""

    message: Annotated[str, STRING]
    hint: Annotated[str | None, or_null(STRING)]
    file: Annotated[str | None, or_null(STRING)]
    line: Annotated[int | None, _LINE]
    text: Annotated[str | None, or_null(STRING)]


class ReloadMessage(TypedDict):
    """Describe the last reload; members that its status does not have are null.

    `reason`, `detail` and `progress` belong to `loading`, `reason` also to `restarting`, and `error` to `failed`.
    """

    status: Annotated[str, {**STRING, "enum": [str(status) for status in ReloadStatus]}]
    reason: Annotated[str | None, {**or_null(STRING), "description": "Why the code is not applied in place, in a line"}]
    detail: Annotated[str | None, {**or_null(STRING), "description": "The last line that the model printed"}]
    progress: Annotated[float | None, PROGRESS]
    error: Annotated[ReloadError | None, or_null(schema_of(ReloadError))]
