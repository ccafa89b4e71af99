"""Tracks: outputs, inputs and the buffers of inputs."""
