"""Tests of the model without a server: PipelineExecutor makes its steps, and its parts are ordinary PyTorch."""

import sys
from pathlib import Path

import pytest
from reactor_runtime import PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

torch = pytest.importorskip("torch")

from life import Dish, Life  # noqa: E402
from pipeline import LOOK_AGAIN, PALETTES, SPECIES, MyModel  # noqa: E402

SMALL = {"width": 192, "height": 128, "scale": 2, "device": "cpu", "threads": 1}


@pytest.fixture
def ex():
    """Return a session without grazing."""
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        ex.send_event("set_grazing", grazing=0)
        yield ex


def frame(ex):
    return torch.as_tensor(next(ex).output.main_video)


def cells(ex):
    return ex.state._dish.cells


def dish(height=64, width=96):
    return Dish(height, width, seed=1, device=torch.device("cpu"))


def test_every_step_yields_a_frame(ex):
    first = frame(ex)
    assert first.shape == (128, 192, 3)
    assert first.dtype == torch.uint8
    assert first.float().std() > 10


def test_frames_differ(ex):
    assert not torch.equal(frame(ex), frame(ex))


def test_at_speed_0_the_cells_stand_still(ex):
    ex.send_event("set_speed", speed=0)
    before = cells(ex)
    frame(ex)
    assert torch.equal(cells(ex), before)


def test_paint_appears_where_it_was_painted(ex):
    ex.send_event("set_speed", speed=0)
    ex.send_event("clear")
    ex.send_event("paint", x=0.25, y=0.5, radius=0.1)
    alive = cells(ex).sum(0).nonzero().float()
    y, x = alive.mean(0)
    assert (x / 96, y / 64) == (pytest.approx(0.25, abs=0.02), pytest.approx(0.5, abs=0.02))
    assert len(alive) == pytest.approx(3.14 * 6.4**2, rel=0.1)


def test_a_disc_at_the_edge_continues_at_the_opposite_edge(ex):
    ex.send_event("clear")
    ex.send_event("paint", x=0.0, y=0.0, radius=0.1)
    assert all(cells(ex)[:, y, x].any() for y in (0, -1) for x in (0, -1))


def test_a_cleared_dish_stays_empty_until_a_client_paints(ex):
    ex.send_event("clear")
    for _ in range(LOOK_AGAIN + 1):
        frame(ex)
    assert not cells(ex).any()
    ex.send_event("paint")
    assert cells(ex).any()


def test_a_dish_without_cells_is_sown_again(ex):
    cells(ex).zero_()
    for _ in range(2 * LOOK_AGAIN):
        frame(ex)
    assert cells(ex).any()


def test_the_same_seed_gives_the_same_frames():
    def grow(*, seed):
        with PipelineExecutor(MyModel, config={**SMALL, "seed": seed}) as ex:
            ex.connect()
            return [frame(ex) for _ in range(20)][-1]

    assert torch.equal(grow(seed=3), grow(seed=3))
    assert not torch.equal(grow(seed=3), grow(seed=4))


def test_the_same_number_sows_the_same_cells(ex):
    ex.send_event("seed", number=5)
    first = cells(ex)
    ex.send_event("seed", number=6)
    assert not torch.equal(cells(ex), first)
    ex.send_event("seed", number=5)
    assert torch.equal(cells(ex), first)


def test_grazing_makes_holes():
    eaten = dish()
    eaten.cells = torch.ones_like(eaten.cells)
    eaten.eat()
    assert 0.01 < 1 - eaten.cells.mean() < 0.2


@pytest.mark.parametrize("species", SPECIES)
def test_every_species_survives_200_steps(species):
    growing, life = dish(128, 192), Life(SPECIES[species], 128, 192)
    growing.sow()
    growing.grow(life, 200)
    growing.alive()
    growing.grow(life, LOOK_AGAIN)
    assert growing.alive()
    assert 0 <= growing.cells.min() <= growing.cells.max() <= 1


def test_an_empty_or_unchanged_dish_is_not_alive():
    still = dish()
    assert not still.alive()
    still.sow()
    assert still.alive()
    assert not still.alive()


@pytest.mark.parametrize("palette", [name for name in PALETTES if name != "deep sea"])
def test_every_palette_looks_different(ex, palette):
    ex.send_event("set_speed", speed=0)
    before = frame(ex)
    ex.send_event("set_palette", palette=palette)
    assert (frame(ex).float() - before.float()).abs().mean() > 3


def test_without_pytorch_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="torch is not installed; try: pip install -r requirements.txt"):
        MyModel().load(SMALL)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_frames_stay_on_the_gpu():
    model = MyModel()
    model.load({**SMALL, "device": "cuda"})
    there = model.new_dish()
    there.sow()
    there.grow(model.species["slugs"], 2)
    assert there.frame(model.palettes["ember"], 128, 192).device.type == "cuda"
