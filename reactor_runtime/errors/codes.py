"""The error codes of `reactor.error`; authors add their own with `CommandError`."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """Name the reasons for which the server or the model refuses a client's message."""

    INVALID_JSON = "invalid_json"
    INVALID_MESSAGE = "invalid_message"
    UNKNOWN_EVENT = "unknown_event"
    INVALID_EVENT = "invalid_event"
    NOT_CONTROLLER = "not_controller"
    RATE_LIMITED = "rate_limited"
    BAD_MEDIA = "bad_media"
    UNKNOWN_TRACK = "unknown_track"
    MODEL_ERROR = "model_error"
    INTERNAL_ERROR = "internal_error"
    UNRESOLVED_UPLOAD = "unresolved_upload"
    # Of requests for steps.
    NOT_READY = "not_ready"
    REFUSED = "refused"
    COMMAND_FAILED = "command_failed"
    FAILED = "failed"
