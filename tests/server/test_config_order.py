from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.server.running import environment, serving, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyModel(ReactorPipeline):
    state: InputState

    def load(self, config):
        print("keys", *config, *config["layers"])

    def inference(self):
        yield gray(1)
"""
MANIFEST = "model: pipeline:MyModel\nconfig: config.yml\n"
CONFIG = "zoom: 1\nlayers:\n  up: 1\n  down: 2\n  across: 3\nangle: 2\n"
EXECUTOR = """
import yaml
from pathlib import Path
from reactor_runtime import PipelineExecutor
from pipeline import MyModel

with PipelineExecutor(MyModel, config=yaml.safe_load(Path("config.yml").read_text())):
    pass
"""
KEYS = "keys zoom layers angle up down across"


def test_server_and_executor_give_load_the_keys_in_the_order_of_the_file(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL, reactor_yaml=MANIFEST, config_yml=CONFIG)
    with serving(project) as server:
        assert KEYS in server.log
    executor = subprocess.run(
        [sys.executable, "-c", EXECUTOR],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert executor.stdout.strip() == KEYS
