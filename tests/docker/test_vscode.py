"""VS Code in an image built `--with vscode`, opened in Chromium as `ctrl+x V` does.

Building that image takes up to ten minutes, so these tests are skipped until `handloom image build --with vscode` has
made it for the current code. HANDLOOM_PICTURES names a folder for a screenshot.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, async_playwright, expect

from runtime import image
from runtime.plugins.browser import chromium
from tests.containers import base_image, engine
from tests.fleets import Contained
from tests.runtime.isolation.confined import own

pytestmark = [pytest.mark.docker, pytest.mark.browser]
STARTS_MS = 60_000
"""The page loads some 20 MB and starts a process for extensions."""


@pytest.fixture
async def vscode_image() -> str:
    """The image with VS Code, if it is built."""
    recipe = image.Recipe(image.User.of_host(), extras=("vscode",))
    with engine() as client:
        tag = await image.find(client, base_image(), recipe)
    if tag is None:
        pytest.skip(f"no image with VS Code: handloom image build --base {base_image()} --with vscode")
    return tag


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    (workspace / "hello.py").write_text("print('hello')\n")
    own(workspace)
    return workspace


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(
            executable_path=chromium.find(playwright), args=["--no-sandbox", "--no-proxy-server"]
        )
        yield opened
        await opened.close()


async def test_workspace_is_opened_by_its_address_and_not_without_the_token(
    vscode_image: str, workspace: Path, browser: Browser
) -> None:
    runtime = Contained(workspace, image=vscode_image, options=("--plugins", "vscode"))
    await runtime.start()
    try:
        inside = urlsplit(await runtime.editor())
        port = await runtime.forward_port(inside.port or 0)
        address = inside._replace(netloc=f"127.0.0.1:{port}").geturl()
        token = address.partition("tkn=")[2].partition("&")[0]
        for wrong in (address.replace(token, "0" * len(token)), address.replace(f"tkn={token}&", "")):
            refused = await (await browser.new_context()).new_page()
            answer = await refused.goto(wrong)
            assert answer is not None
            assert (answer.status, await refused.inner_text("body")) == (403, "Forbidden.")
        page = await (await browser.new_context(viewport={"width": 1280, "height": 800})).new_page()
        await page.goto(address)
        await expect(page.locator(".explorer-folders-view").get_by_text("hello.py")).to_be_visible(timeout=STARTS_MS)
        assert token not in page.url
        await page.locator(".explorer-folders-view").get_by_text("hello.py").dblclick()
        await expect(page.locator(".view-lines").get_by_text("print")).to_be_visible(timeout=STARTS_MS)
        if folder := os.environ.get("HANDLOOM_PICTURES"):
            await page.screenshot(path=Path(folder) / "vscode.png")
        await page.locator(".view-line").first.click()
        await page.keyboard.press("Control+Home")
        await page.keyboard.type("# written in the editor\n")
        async with asyncio.timeout(STARTS_MS / 1000):
            while not (workspace / "hello.py").read_text().startswith("# written in the editor\n"):  # it saves itself
                await asyncio.sleep(0.05)
    finally:
        await runtime.aclose()
