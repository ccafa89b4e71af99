"""Tests of the model itself. No server runs: PipelineExecutor steps it, and its parts are ordinary PyTorch."""

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
    """A session in which nothing is eaten."""
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        ex.send_event("set_grazing", grazing=0)
        yield ex


def picture(ex):
    return torch.as_tensor(next(ex).output.main_video)


def cells(ex):
    return ex.state._dish.cells


def dish(height=64, width=96):
    return Dish(height, width, seed=1, device=torch.device("cpu"))


def test_every_step_yields_a_picture(ex):
    frame = picture(ex)
    assert frame.shape == (128, 192, 3)
    assert frame.dtype == torch.uint8
    assert frame.float().std() > 10


def test_it_moves(ex):
    assert not torch.equal(picture(ex), picture(ex))


def test_at_speed_0_it_holds_still(ex):
    ex.send_event("set_speed", speed=0)
    before = cells(ex)
    picture(ex)
    assert torch.equal(cells(ex), before)


def test_paint_appears_where_it_was_painted(ex):
    ex.send_event("set_speed", speed=0)
    ex.send_event("clear")
    ex.send_event("paint", x=0.25, y=0.5, radius=0.1)
    alive = cells(ex).sum(0).nonzero().float()
    y, x = alive.mean(0)
    assert (x / 96, y / 64) == (pytest.approx(0.25, abs=0.02), pytest.approx(0.5, abs=0.02))
    assert len(alive) == pytest.approx(3.14 * 6.4**2, rel=0.1)


def test_what_is_painted_at_the_edge_goes_on_at_the_other(ex):
    ex.send_event("clear")
    ex.send_event("paint", x=0.0, y=0.0, radius=0.1)
    assert all(cells(ex)[:, y, x].any() for y in (0, -1) for x in (0, -1))


def test_a_cleared_dish_stays_empty_until_somebody_paints(ex):
    ex.send_event("clear")
    for _ in range(LOOK_AGAIN + 1):
        picture(ex)
    assert not cells(ex).any()
    ex.send_event("paint")
    assert cells(ex).any()


def test_a_dish_in_which_everything_died_is_sown_again(ex):
    cells(ex).zero_()
    for _ in range(2 * LOOK_AGAIN):
        picture(ex)
    assert cells(ex).any()


def test_the_same_seed_grows_the_same():
    def grow(*, seed):
        with PipelineExecutor(MyModel, config={**SMALL, "seed": seed}) as ex:
            ex.connect()
            return [picture(ex) for _ in range(20)][-1]

    assert torch.equal(grow(seed=3), grow(seed=3))
    assert not torch.equal(grow(seed=3), grow(seed=4))


def test_sowing_the_same_number_sows_the_same(ex):
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
def test_every_species_lives_for_a_while(species):
    growing, life = dish(128, 192), Life(SPECIES[species], 128, 192)
    growing.sow()
    growing.grow(life, 200)
    growing.alive()
    growing.grow(life, LOOK_AGAIN)
    assert growing.alive()
    assert 0 <= growing.cells.min() <= growing.cells.max() <= 1


def test_nothing_and_what_stands_still_does_not_live():
    still = dish()
    assert not still.alive()
    still.sow()
    assert still.alive()
    assert not still.alive()


@pytest.mark.parametrize("palette", [name for name in PALETTES if name != "deep sea"])
def test_every_palette_looks_different(ex, palette):
    ex.send_event("set_speed", speed=0)
    before = picture(ex)
    ex.send_event("set_palette", palette=palette)
    assert (picture(ex).float() - before.float()).abs().mean() > 3


def test_without_pytorch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="torch is not installed; try: pip install -r requirements.txt"):
        MyModel().load(SMALL)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_a_gpu_the_picture_stays_there():
    model = MyModel()
    model.load({**SMALL, "device": "cuda"})
    there = model.new_dish()
    there.sow()
    there.grow(model.species["slugs"], 2)
    assert there.picture(model.palettes["ember"], 128, 192).device.type == "cuda"


@pytest.mark.parametrize("value", [-3, 8.5, "wide", True, None, 10_000_000])
@pytest.mark.parametrize("key", ["width", "height", "scale", "threads", "seed"])
def test_load_names_a_value_that_makes_no_sense_and_says_what_would(key, value):
    with pytest.raises(ValueError, match=f"{key} in config.yml is {value!r}; write a whole number from"):
        MyModel().load({key: value})
