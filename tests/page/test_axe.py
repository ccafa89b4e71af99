"""What axe finds at fault with the page, in every state: by eyes, ears and hands other than those that made it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from .fake_server import FakeServer
from .states import STATES

axe = pytest.importorskip("axe_playwright_python.base", reason="pip install 'reactor-live[test]' brings it")
RUN = """async () => {
  const values = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const { violations } = await axe.run(document, { resultTypes: ["violations"], runOnly: { type: "tag", values } });
  const words = ({ impact, id, nodes }) => nodes.map(({ target }) => `${impact} ${id}: ${target.join(" ")}`);
  return violations.flatMap(words);
}"""


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(page: Page, server: FakeServer, state: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    STATES[state](page, server)
    page.evaluate(axe.AXE_SCRIPT)
    assert page.evaluate(RUN) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(RUN) == []
