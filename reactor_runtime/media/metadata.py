"""The metadata that goes with a frame, in the media header of its file."""

from __future__ import annotations

import base64
import json

# The room in the APP15 segment of a JPEG for the name of the track and the metadata.
MOST_BYTES = 65_498


def metadata_text(track: str, metadata: object) -> str:
    """Return the metadata of a frame as the text of a JSON object, in ASCII; bytes become `{"b": base64}`.

    Raises ValueError, which names the track, for anything that is neither a JSON object nor bytes, or is too large.
    """
    if isinstance(metadata, bytes | bytearray | memoryview):
        metadata = {"b": base64.b64encode(metadata).decode()}
    if not isinstance(metadata, dict):
        raise ValueError(f"{track}: metadata is a dict or bytes, not {type(metadata).__name__}: {metadata!r:.100}")
    try:
        text = json.dumps(metadata, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{track}: metadata that is not JSON: {error}") from error
    check_size(track, len(text))
    return text


def check_size(track: str, size_bytes: int) -> None:
    """Raise ValueError for metadata that has no room in the header of a file."""
    most = MOST_BYTES - len(track.encode())
    if size_bytes > most:
        raise ValueError(f"{track}: metadata of {size_bytes} bytes; at most {most} go with a frame")
