from __future__ import annotations

from pathlib import Path

from reactor_runtime.server.routes.preloads import preload_links

FILES = {
    "main.js": 'import { a } from "./client/a.js";\nconst late = () => import("./panels.js");\n',
    "client/a.js": 'import { b } from "./b.js";\n',
    "client/b.js": "export const b = 1;\n",
    "panels.js": 'import { b } from "./client/b.js";\nconst STYLES = ["panels.css"];\n',
    "toolbar/toolbar.js": 'import {\n  b,\n} from "../client/b.js";\nnew URL("toolbar.css", import.meta.url);\n',
}


def test_modules_are_linked_with_their_imports_and_styles_and_the_later_ones_may_wait(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert preload_links(tmp_path) == (
        '  <link rel="modulepreload" href="static/main.js">\n'
        '  <link rel="modulepreload" href="static/client/a.js">\n'
        '  <link rel="modulepreload" href="static/client/b.js">\n'
        '  <link rel="modulepreload" href="static/panels.js" fetchpriority="low">\n'
        '  <link rel="preload" as="style" href="static/panels.css" fetchpriority="low">\n'
        '  <link rel="modulepreload" href="static/toolbar/toolbar.js" fetchpriority="low">\n'
        '  <link rel="preload" as="style" href="static/toolbar/toolbar.css" fetchpriority="low">\n'
    )
