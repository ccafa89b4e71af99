"""The driver of each authoring style; `authoring.styles.styles` defines the styles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from reactor_runtime.authoring.styles.app import ReactorApp
from reactor_runtime.authoring.styles.block import VideoModel
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import ReactorPipeline
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.engine.drivers.app_steps import start_app
from reactor_runtime.engine.drivers.block import BlockDriver
from reactor_runtime.engine.drivers.driver import Driver, DriverParts
from reactor_runtime.engine.drivers.generator import GeneratorDriver
from reactor_runtime.engine.drivers.loop import LoopDriver

DRIVERS: Mapping[type[Model], Callable[[DriverParts], Driver]] = {
    ReactorPipeline: GeneratorDriver,
    ReactorModel: LoopDriver,
    ReactorApp: partial(GeneratorDriver, start_steps=start_app),
    VideoModel: BlockDriver,
}


def make_driver(parts: DriverParts) -> Driver:
    """Return the driver of the style of the served model."""
    return DRIVERS[parts.served.contract.style.base](parts)
