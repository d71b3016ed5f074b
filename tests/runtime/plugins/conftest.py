"""A browser that the tests of a module share, each with a site of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.runtime.plugins.browser_server import Browser, Site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    await browser.plugin.start()
    yield browser
    await browser.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site().served() as site:
        yield site
