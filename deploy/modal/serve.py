"""Serve a project on Modal, with one wait queue: `modal deploy serve.py` in the directory of the project.

Needs a secret: `modal secret create reactor REACTOR_TOKEN=…`. Modal starts the container when the first client
connects, and stops it 5 minutes after the last one has left.
"""

from __future__ import annotations

import subprocess

import modal

# Modal closes connections 25 s after its signal to stop the container.
COMMAND = (
    "reactor run --host 0.0.0.0 --port 8080 --allow-host *.modal.direct "
    "--log-format json --resume-grace 30s --drain-timeout 25"
)

app = modal.App("my-model", image=modal.Image.from_dockerfile("Dockerfile", build_args={"PYTORCH": "cu128"}))


@app.server(
    port=8080,
    gpu="L40S",
    secrets=[modal.Secret.from_name("reactor")],
    # A second container would have a wait queue of its own.
    max_containers=1,
    startup_timeout=60,
    scaledown_window=300,
    exit_grace_period=25,
    # Reactor asks for its own token.
    unauthenticated=True,
)
class Server:
    @modal.enter()
    def start(self) -> None:
        self.process = subprocess.Popen(COMMAND.split(), cwd="/srv/model")

    @modal.exit()
    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
