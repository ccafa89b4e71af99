"""The client in a page of another origin: what only browsers have, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.clients.model import MODEL
from tests.server.bare import SECRET
from tests.server.running import RunningServer, serving, write_project

from .conftest import open_page
from .elsewhere import elsewhere

BEGIN = """async ([url, token]) => {
  const { connect } = await import(`${url}/reactor.js`);
  window.session = connect(url, { token });
  window.said = [];
  session.addEventListener("message", ({ detail }) => said.push(detail.data.words));
  await session.ready();
  window.canvas = document.body.appendChild(document.createElement("canvas"));
  window.level = (picture) => {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    context.drawImage(picture, 0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data[0];
  };
}"""
NEAR = "Math.abs(level({}) - {}) < 4"


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with elsewhere() as origin:
        yield origin


@pytest.fixture(scope="module")
def served(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("client"), MODEL)
    with serving(project, "--allow-origin", origin, "--token", SECRET) as server:
        yield server


@pytest.fixture
def page(browser: Browser, served: RunningServer, origin: str) -> Iterator[Page]:
    with open_page(browser, origin) as page:
        page.goto("/")
        page.get_by_role("button").click()
        page.evaluate(BEGIN, [f"http://127.0.0.1:{served.port}", SECRET])
        yield page
        page.evaluate("session.close()")
    served.wait_for_health("ready")


def run(page: Page, script: str) -> Any:
    return page.evaluate(f"async () => {{ {script} }}")


def test_a_frame_is_a_bitmap(page: Page) -> None:
    script = "const { value } = await session.frames().next(); return [value.bitmap.width, level(value.bitmap)];"
    width, level = run(page, script)
    assert width == 48
    assert abs(level - 100) < 4


def test_a_raw_frame_is_a_bitmap_too(page: Page) -> None:
    run(page, "session.view({ codecs: ['raw'] }); await session.send('set_level', { level: 61 });")
    assert run(
        page,
        """
        for await (const { jpeg, bitmap } of session.frames()) {
          if (jpeg[0] === 0x93 && level(bitmap) === 61) return [bitmap.width, bitmap.height];
        }""",
    ) == [48, 32]


def test_a_frame_that_shows_an_event_is_waited_for(page: Page) -> None:
    assert run(
        page,
        f"""
        const after = await session.send("set_level", {{ level: 30 }});
        const {{ bitmap }} = await session.frame({{ after }});
        return {NEAR.format("bitmap", 30)};""",
    )


def test_a_track_is_shown_on_a_canvas_until_it_is_taken_off(page: Page) -> None:
    run(page, "window.detach = session.attach('main_video', canvas); await session.send('set_level', { level: 200 });")
    page.wait_for_function(NEAR.format("canvas", 200))
    run(page, "detach(); await session.send('set_level', { level: 20 });")
    assert (
        run(page, f"for await (const {{ bitmap }} of session.frames()) if ({NEAR.format('bitmap', 20)}) break;") is None
    )
    assert page.evaluate(NEAR.format("canvas", 200))


def test_two_canvases_show_one_track_and_who_comes_late_sees_it_at_once(page: Page) -> None:
    run(page, "session.attach(null, canvas);")
    page.wait_for_function(NEAR.format("canvas", 100))
    run(page, "session.attach('main_video', window.other = document.createElement('canvas'));")
    page.wait_for_function(NEAR.format("other", 100))


@pytest.mark.parametrize("given", ["", "delete window.MediaStreamTrackGenerator;"], ids=["generated", "drawn"])
def test_a_track_as_a_stream_plays_in_a_video(page: Page, given: str) -> None:
    run(page, f"""{given}
        window.video = document.body.appendChild(document.createElement("video"));
        Object.assign(video, {{ muted: true, srcObject: await session.stream("main_video") }});
        await video.play();
        await session.send("set_level", {{ level: 220 }});""")  # fmt: skip
    page.wait_for_function(f"video.videoWidth === 48 && {NEAR.format('video', 220)}")
    run(page, "for (const track of video.srcObject.getTracks()) track.stop();")


def test_sound_as_a_stream_can_be_heard_however_loud(page: Page) -> None:
    run(page, """
        session.speaker.volume = 0;
        const stream = await session.stream("tone");
        const context = new AudioContext();
        window.tap = context.createAnalyser();
        context.createMediaStreamSource(stream).connect(tap);
        window.loudness = () => {
          const wave = new Float32Array(tap.fftSize);
          tap.getFloatTimeDomainData(wave);
          return Math.max(...wave.map(Math.abs));
        };""")  # fmt: skip
    page.wait_for_function("loudness() > 0.2")


@pytest.mark.parametrize("lacking", ["", "delete window.MediaStreamTrackProcessor;"], ids=["streams", "no streams"])
@pytest.mark.parametrize("source", ["drawing", "played", "track"])
def test_what_is_drawn_is_published(page: Page, source: str, lacking: str) -> None:
    run(page, f"""
        {lacking}
        const drawing = document.body.appendChild(document.createElement("canvas"));
        const context = drawing.getContext("2d");
        setInterval(() => {{ context.fillStyle = "rgb(60 60 60)"; context.fillRect(0, 0, 300, 150); }}, 20);
        const [track] = drawing.captureStream().getVideoTracks();
        const played = document.body.appendChild(document.createElement("video"));
        Object.assign(played, {{ muted: true, srcObject: new MediaStream([track]) }});
        await played.play();
        window.sending = await session.publish("camera", {source});""")  # fmt: skip
    page.wait_for_function("said.some((words) => /^camera (5[7-9]|6[0-3])$/.test(words))")
    run(page, "sending.stop();")


def test_a_picture_of_another_site_is_refused_at_once(page: Page, served: RunningServer) -> None:
    with pytest.raises(Exception, match=r"SecurityError|tainted"):
        run(page, f"""
            (await session.frames().next()).value.bitmap.close();
            const drawing = document.createElement("canvas");
            const picture = new Image();
            picture.src = "http://127.0.0.1:{served.port}/snapshot/main_video.jpg?token={SECRET}";
            await picture.decode();
            drawing.getContext("2d").drawImage(picture, 0, 0);
            await session.publish("camera", drawing);""")  # fmt: skip


@pytest.mark.parametrize("source", ["microphone.stream.getAudioTracks()[0]", "hum"], ids=["track", "node"])
def test_what_a_microphone_hears_is_published_at_the_rate_of_the_track(page: Page, source: str) -> None:
    run(page, f"""
        const context = new AudioContext({{ sampleRate: 44100 }});
        const hum = new OscillatorNode(context);
        const microphone = context.createMediaStreamDestination();
        hum.connect(microphone);
        hum.start();
        window.sending = await session.publish("microphone", {source});""")  # fmt: skip
    page.wait_for_function("said.includes('microphone (1, 960)')")
    assert run(page, "sending.stop(); return sending.background;") is True


def test_a_file_is_uploaded_and_named_in_an_event(page: Page) -> None:
    run(page, "await session.send('measure', { file: await session.upload(new File(['hello'], 'note.txt')) });")
    said = run(page, "const { upload } = await session.upload(new Blob(['x'])); return upload;")
    assert said.startswith("u-")


def test_a_hidden_page_goes_on_with_frames_that_are_asked_for(page: Page) -> None:
    run(page, """
        session.attach(null, canvas);
        const frames = session.frames();
        await frames.next();
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
        const { n } = await session.send("set_level", { level: 50 });
        for await (const { applied } of frames) if (applied >= n) break;""")  # fmt: skip


def test_a_browser_that_makes_no_stream_of_pictures_says_so_and_streams_sound(page: Page) -> None:
    run(page, "delete window.MediaStreamTrackGenerator; delete HTMLCanvasElement.prototype.captureStream;")
    said = run(page, "return session.stream().catch(({ name, message }) => [name, message]);")
    assert said == ["TypeError", "this browser cannot stream video; attach() shows it on a canvas"]
    assert run(page, "return (await session.stream('tone')).getTracks().map(({ kind }) => kind);") == ["audio"]


def test_a_stream_of_a_track_there_isn_t_names_those_there_are(page: Page) -> None:
    with pytest.raises(Exception, match="the model sends no track depth; it sends main_video, tone"):
        run(page, "await session.stream('depth');")


def test_sound_that_waits_for_a_gesture_starts_with_the_next(
    browser: Browser, served: RunningServer, origin: str
) -> None:
    with open_page(browser, origin) as page:
        page.goto("/")
        # Playwright's own `evaluate` counts as a gesture.
        devtools = page.context.new_cdp_session(page)
        for script in (
            f"({BEGIN})(['http://127.0.0.1:{served.port}', '{SECRET}'])",
            "void session.speaker.start()",
            "document.querySelector('button').onclick = () => session.speaker.start()",
        ):
            devtools.send("Runtime.evaluate", {"expression": script, "awaitPromise": True})
        on = devtools.send("Runtime.evaluate", {"expression": "session.speaker.on"})
        assert on["result"]["value"] is False
        page.get_by_role("button").click()
        page.wait_for_function("session.speaker.on")
        page.evaluate("session.close()")
    served.wait_for_health("ready")


def test_a_frame_says_when_it_was_made_came_and_was_painted(page: Page) -> None:
    script = """window.detach = session.attach("main_video", canvas);
    const next = (name) => new Promise((found) => session.addEventListener(name, found, { once: true }));
    const { detail: arrived } = await next("arrived");
    const { detail: painted } = await next("painted");
    detach();
    const { receivedAt, decodedAt, paintedAt, at } = painted;
    const apart = Math.abs(Date.now() - arrived.wallUs / 1000);
    return [apart, receivedAt <= decodedAt && decodedAt <= paintedAt, paintedAt === at];"""
    apart_ms, in_order, same = run(page, script)
    assert apart_ms < 10_000  # one clock tells both: the server is on this machine
    assert in_order
    assert same
