"""Render a model to a clip: without a server, on the clock of `reactor_runtime.testing`, with a script of inputs."""
