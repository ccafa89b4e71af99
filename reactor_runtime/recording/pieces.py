"""The types of the outputs and reloads of a session, for its engine and its recording.

Apart from `entries.py`, which imports pydantic to check those of a file: that takes a seventh of an engine's start.
"""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import NDArray

# Of a JPEG that the model made.
OWN_QUALITY = 0
# Maps each track of an output to its arrays: one for each frame of a batch.
Pieces = dict[str, list[NDArray[Any]]]
# Maps tracks to the metadata of each frame of an output.
Metadata = dict[str, list[dict[str, Any] | None]]
# In this order: the model has its new code, it was loaded again, it could not be loaded, or it has its old code again
# because the first step of the new code failed.
ReloadKind = Literal["applied", "loaded", "failed", "reverted"]
