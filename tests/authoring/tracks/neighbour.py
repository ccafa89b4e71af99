"""A module with its own output and message, for the tests of which classes belong to a model."""

from reactor_runtime import ModelMessage, Output, Video


class NeighbourOutput(Output):
    neighbour: Video


class NeighbourMessage(ModelMessage):
    pass
