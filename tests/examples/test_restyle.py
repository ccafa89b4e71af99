"""`examples/restyle` with small random weights, and its errors."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.command import reactor
from tests.forks import ROOT
from tests.timeouts import TIMEOUT_S
from tests.torched import torch

EXAMPLE = ROOT / "examples" / "restyle"


@pytest.fixture(scope="module")
def diffusion() -> ModuleType:
    spec = importlib.util.spec_from_file_location("restyle_diffusion", EXAMPLE / "diffusion.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks for its module.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(importlib.util.find_spec("diffusers") is None, reason="diffusers is not installed")
def test_a_step_with_small_weights_paints_a_frame(tmp_path: Path) -> None:
    arguments = ("check", str(EXAMPLE), "--set", "tiny=true", "--step")
    # Importing diffusers takes many seconds on a busy machine.
    outcome = reactor(*arguments, cwd=tmp_path, timeout_s=5 * TIMEOUT_S, HF_HUB_OFFLINE="1")
    assert outcome.code == 0, outcome.err
    # A slow machine causes another warning.
    assert "warning: main_video" not in outcome.err
    assert "no frame" not in outcome.err
    assert "set_prompt(prompt: string" in outcome.out


def test_a_blend_of_prompts_is_a_tensor_of_the_kind_that_was_compiled(diffusion: ModuleType) -> None:
    with torch.inference_mode():
        prompt = torch.zeros(2)
    blended = diffusion.Restyler.blend(prompt, prompt + 1, 0.25)
    assert blended.tolist() == [0.25, 0.25]
    assert blended.is_inference()


def test_without_weights_and_network_the_error_names_what_to_do(
    diffusion: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"stabilityai/sd-turbo are not in the cache .* --set tiny=true needs none"):
        diffusion.download(diffusion.SD_TURBO)


def test_a_gpu_with_too_little_memory_is_refused(diffusion: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2_100_000_000, 8_000_000_000))
    with pytest.raises(RuntimeError, match=r"cuda:0 has 2.1 GB of free memory, and SD-Turbo needs 3.5 GB"):
        diffusion.choose_device("cuda:0")


def test_without_a_gpu_the_error_names_the_ways_out(diffusion: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="--set tiny=true"):
        diffusion.choose_device("auto")
    assert diffusion.choose_device("cpu").type == "cpu"
