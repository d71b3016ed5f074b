"""BrowserGym itself, unchanged, on the pages of `tests/pages`: its observations of each.

Runs where `browsergym-core` is installed, and imports nothing of Handloom.
Arguments: the folder of the pages, the folder for the observations (one JSON file a page), the browser's program.
"""

from __future__ import annotations

import base64
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from browsergym.core.action.base import execute_python_code
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.core.observation import (
    _post_extract,
    _pre_extract,
    extract_dom_extra_properties,
    extract_dom_snapshot,
    extract_focused_element_bid,
    extract_merged_axtree,
    extract_screenshot,
)
from browsergym.utils.obs import flatten_axtree_to_str, overlay_som
from PIL import Image
from playwright.sync_api import Browser, Page, Route, ViewportSize, sync_playwright

ADDRESS = "http://pages.test/"
"""The address of the pages: the same on every machine, answered from the folder without resolving the name."""
VIEW: ViewportSize = {"width": 1280, "height": 720}


def told(page: Page, elements: str) -> dict[str, Any]:
    """One observation, by the functions that BrowserGym's environment calls for it, in its order."""
    _pre_extract(page, tags_to_mark="all")
    snapshot = extract_dom_snapshot(page)
    tree = extract_merged_axtree(page)
    focused = extract_focused_element_bid(page)
    properties = extract_dom_extra_properties(snapshot)
    _post_extract(page)
    named: dict[str, str] = {}
    for frame in page.frames:
        named |= frame.evaluate(elements)
    shown = {"extra_properties": properties, "with_clickable": True, "skip_generic": False}
    return {
        "focused": focused or "",
        "text": flatten_axtree_to_str(tree, **shown).split("\n"),
        "elements": named,
        "properties": properties,
    }


def made(page: Page, styles: list[dict[str, Any]]) -> dict[str, Any]:
    """What BrowserGym makes of an observation: texts in these styles, and the picture without and with marks."""
    _pre_extract(page, tags_to_mark="all")
    tree, properties = extract_merged_axtree(page), extract_dom_extra_properties(extract_dom_snapshot(page))
    _post_extract(page)
    picture = extract_screenshot(page)
    return {
        "tree": tree,
        "properties": properties,
        "texts": [flatten_axtree_to_str(tree, extra_properties=properties, **style) for style in styles],
        "picture": _encoded(picture),
        "marked": _encoded(overlay_som(picture, properties)),
    }


def _encoded(pixels: Any) -> str:
    output = BytesIO()
    Image.fromarray(pixels).save(output, format="PNG")
    return base64.b64encode(output.getvalue()).decode()


def do(page: Page, step: list[Any]) -> str:
    """Carry out one action like BrowserGym's environment. Returns the error, or an empty text."""
    name, *arguments = step
    actions = HighLevelActionSet(subsets=["bid", "nav"])
    try:
        code = actions.to_python_code(f"{name}({', '.join(map(repr, arguments))})")
        execute_python_code(code, page, send_message_to_user=print, report_infeasible_instructions=print)
    except Exception as error:  # noqa: BLE001  # where BrowserGym makes a text of it
        return f"{type(error).__name__}: {error}"
    return ""


def read(browser: Browser, folder: Path, name: str, steps: list[list[Any]]) -> dict[str, Any]:
    """The observations of the page at the start and after each step."""
    elements = (folder / "elements.js").read_text()
    context = browser.new_context(viewport=VIEW)
    context.set_default_timeout(5000)

    def answer(route: Route) -> None:
        route.fulfill(path=folder / route.request.url.removeprefix(ADDRESS).partition("#")[0])

    context.route(f"{ADDRESS}**", answer)
    page = context.new_page()
    page.goto(f"{ADDRESS}{name}.html")
    styles = json.loads((folder / "styles.json").read_text())
    states = [{"step": None, "error": "", **told(page, elements)}]
    pure = made(page, styles)
    for step in steps:
        error = do(page, step)
        states.append({"step": step, "error": error, **told(page, elements)})
    context.close()
    return {"chromium": browser.version, "states": states, "made": pure}


def main(arguments: list[str]) -> None:
    folder, output, program = Path(arguments[0]), Path(arguments[1]), arguments[2]
    steps = json.loads((folder / "steps.json").read_text())
    with sync_playwright() as playwright:
        playwright.selectors.set_test_id_attribute("bid")
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        for page in sorted(folder.glob("*.html")):
            answer = read(browser, folder, page.stem, steps.get(page.stem, []))
            (output / f"{page.stem}.json").write_text(json.dumps(answer))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
