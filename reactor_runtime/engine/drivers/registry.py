"""The driver of each authoring style; `authoring.styles.styles` defines the styles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.block import VideoModel
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import ReactorPipeline
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.engine.drivers.block import BlockDriver
from reactor_runtime.engine.drivers.driver import Driver, DriverParts
from reactor_runtime.engine.drivers.generator import GeneratorDriver
from reactor_runtime.engine.drivers.loop import LoopDriver

DRIVERS: Mapping[type[Model], Callable[[Any, Contract, DriverParts], Driver]] = {
    ReactorPipeline: GeneratorDriver,
    ReactorModel: LoopDriver,
    VideoModel: BlockDriver,
}


def make_driver(model: Model, contract: Contract, parts: DriverParts) -> Driver:
    """Return the driver of a model's style."""
    return DRIVERS[contract.style.base](model, contract, parts)
