"""The loop style: `ReactorModel`, whose `run()` runs as long as the model and emits frames."""

from __future__ import annotations

import asyncio

from reactor_runtime.authoring.styles.app import ReactorApp


class ReactorModel(ReactorApp):
    """Write a model as a loop: prepare in `load()`, then wait for `self.connected`, compute and `emit()` in `run()`.

    `fps` is the rate at which frames are shown, `buffer_size` the maximum number of bundles that wait to be shown.
    Events run concurrently with `run()`, at its await points: copy the attributes you need before you await. An
    annotated `state` is made anew for each session, and has its defaults while no client is connected. A class that
    defines `generate()` and no `run()` is a step model, as a `ReactorApp` is.
    """

    buffer_size = 4

    async def run(self) -> None:
        """Run from `load()` to the end of the process.

        The default waits for ever, for models that act only in handlers.
        Raising or returning ends the session; the next session starts it again.
        """
        await asyncio.Event().wait()
