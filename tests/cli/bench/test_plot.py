from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from reactor_cli.bench.plot import check_plot, write_plot
from reactor_runtime.errors import UsageError
from tests.cli.bench.test_figures import GOOD, run, spans_of

# The first import of matplotlib on a machine runs fc-list.
pytestmark = pytest.mark.process
MODELS = ["<old>", "now"]
RUNS = [[run(step=spans_of([0.02] * 30, every=0.1, began=12.0))], [run(step=spans_of([0.05] * 20, every=0.1))]]


def test_a_page_has_a_point_for_each_step_and_a_bar_for_each_stage(tmp_path: Path) -> None:
    write_plot(tmp_path / "cost.html", MODELS, RUNS, [GOOD, GOOD])

    page = (tmp_path / "cost.html").read_text()
    of_steps, _, of_stages = page.partition('id="axes_2"')
    # The legend has a point of each model.
    assert of_steps.count("fill-opacity: 0.6") == 30 + 10 + 2
    assert of_stages.count("fill: #1f77b4") == of_stages.count("fill: #ff7f0e") == len(GOOD.stages_ms)
    assert page.startswith("<!doctype html>")
    assert "&lt;old&gt;</text>" in page
    assert "<old>" not in page
    assert "<script" not in page


def test_an_image_shows_one_model(tmp_path: Path) -> None:
    write_plot(tmp_path / "cost.png", MODELS[:1], RUNS[:1], [GOOD])

    with Image.open(tmp_path / "cost.png") as image:
        colours = image.convert("RGB").getcolors(image.width * image.height)
    assert colours is not None
    assert (31, 119, 180) in {colour for _, colour in colours}


def test_another_kind_of_file_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cost\.pdf does not end in \.png or \.html"):
        check_plot(Path("cost.pdf"))


def test_the_folder_is_made_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "new" / "charts" / "cost.png"
    check_plot(path)

    write_plot(path, MODELS[:1], RUNS[:1], [GOOD])
    assert path.is_file()
