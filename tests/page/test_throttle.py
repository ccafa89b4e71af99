"""The sender that sliders and bindings share: one at a time, one for each repaint, the newest or what was added up."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from .fake_server import FakeServer

SENT = """async (merging) => {
  const { throttledSender } = await import("/static/controls/throttle.js");
  const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const sent = [];
  const answers = [];
  const sender = throttledSender((value) => {
    sent.push(value);
    return new Promise((answer) => answers.push(answer));
  }, merging ? (waiting, newer) => waiting + newer : undefined);
  for (const value of [1, 2, 3, 4]) sender.push(value);
  const [before, busy] = [[...sent], sender.busy];
  await painted();
  answers[0]();
  await painted();
  answers[1]();
  await painted();
  return { before, busy, sent, rests: !sender.busy };
}"""


@pytest.mark.parametrize(("merging", "second"), [(False, 4), (True, 9)], ids=["newest", "added up"])
def test_while_one_is_under_way_the_others_become_one(
    page: Page, server: FakeServer, merging: bool, second: int
) -> None:
    page.goto(server.url)
    said: dict[str, Any] = page.evaluate(SENT, merging)
    assert said == {"before": [1], "busy": True, "sent": [1, second], "rests": True}


HIDDEN = """async () => {
  const { throttledSender } = await import("/static/controls/throttle.js");
  window.requestAnimationFrame = () => 0;
  return new Promise((done) => {
    const sender = throttledSender(async (value) => value === "let go" && done(value));
    sender.push("held");
    sender.push("let go");
  });
}"""


def test_what_is_let_go_as_the_page_is_hidden_needs_no_repaint(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    assert page.evaluate(HIDDEN) == "let go"
