"""Page content beyond what BrowserGym also extracts (tests/peers/test_browsergym.py)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import cast

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from runtime.plugins.browser.extraction import Extraction, extract, find
from tests.pages import reading

pytestmark = [pytest.mark.alone, pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with reading.browser() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    opened = await browser.new_page(viewport=reading.VIEW)
    yield opened
    await opened.close()


async def told(page: Page) -> Extraction:
    session = await page.context.new_cdp_session(page)
    try:
        return await extract(page, session)
    finally:
        await session.detach()


async def test_bids_are_stable_and_new_elements_get_new_bids(page: Page) -> None:
    await page.set_content("<p>one</p><p>two</p>")
    before = await told(page)
    await page.evaluate(
        "document.body.insertAdjacentHTML('afterbegin', '<b>new</b>'); document.querySelector('p').remove()"
    )
    after = await told(page)
    assert list(before.extra_element_properties) == ["0", "1", "2", "3", "4"]
    assert list(after.extra_element_properties) == ["0", "1", "2", "5", "4"]


async def test_copied_element_gets_a_new_bid(page: Page) -> None:
    await page.set_content("<button>one</button>")
    await told(page)
    await page.evaluate("document.body.append(document.querySelector('button').cloneNode(true))")
    after = await told(page)
    assert list(after.extra_element_properties) == ["0", "1", "2", "3", "4"]


async def test_bids_written_by_the_page_are_ignored(page: Page) -> None:
    await page.set_content(
        "<button bid='4'>first</button><button bid='a'>second</button><button bid='x\"y'>third</button>"
    )
    assert [await words(page, bid) for bid in ("3", "4", "5")] == ["first", "second", "third"]
    await page.evaluate("document.querySelector('button').setAttribute('bid', '77')")
    assert await words(page, "6") == "first"


async def words(page: Page, bid: str) -> str | None:
    await told(page)
    return await (await find(page, bid)).text_content()


async def test_only_bids_are_left_in_the_page(page: Page) -> None:
    described = "<p aria-description=''>a</p><p aria-description='own'>b</p>"
    await page.set_content(f"{described}<ol><li>c</li></ol><input value='d'><input type='checkbox'>")
    await page.fill("input", "typed")
    before = await page.content()
    await told(page)
    after = await page.content()
    assert after != before
    assert re.sub(r' bid="\w+"', "", after) == before


async def test_frames_have_bids(page: Page) -> None:
    await page.set_content("<iframe srcdoc='<iframe></iframe>'></iframe>")
    await told(page)
    assert await (await find(page, "a")).evaluate("element => element.tagName") == "IFRAME"
    assert await (await find(page, "aa")).evaluate("element => element.tagName") == "IFRAME"


@pytest.mark.parametrize("bid", ["99", "a1", "", 'x"]', "aA3"])
async def test_missing_element_gives_browsergyms_error(page: Page, bid: str) -> None:
    await page.set_content("<p>one</p>")
    await told(page)
    with pytest.raises(ValueError, match=f'^Could not find element with bid "{re.escape(bid)}"$'):
        await find(page, bid)


async def test_bid_of_another_type_gives_browsergyms_error(page: Page) -> None:
    with pytest.raises(ValueError, match=r"^expected a string, got 12$"):
        await find(page, cast(str, 12))


async def test_dom_is_returned_on_request_without_our_marks(page: Page) -> None:
    await page.set_content("<p>one</p>")
    session = await page.context.new_cdp_session(page)
    assert (await extract(page, session)).dom_object == {}
    document = (await extract(page, session, with_dom=True)).dom_object
    assert "P" in document["strings"]
    nodes = document["documents"][0]["nodes"]
    names = {document["strings"][name] for attributes in nodes["attributes"] for name in attributes[::2]}
    assert names == {"bid"}


async def test_very_deep_page_is_read(page: Page) -> None:
    await page.evaluate(
        "let at = document.body; for (let i = 0; i < 400; i++) at = at.appendChild(document.createElement('div'));"
        "at.textContent = 'the bottom'"
    )
    assert "the bottom" in (await told(page)).text()


async def test_page_with_changed_builtins_is_read(page: Page) -> None:
    await page.set_content("<button>one</button><script>Array.prototype.forEach = null; window.Set = 7</script>")
    assert "button 'one'" in (await told(page)).text()


async def test_frame_that_breaks_the_marking_is_left_out(page: Page) -> None:
    hostile = "<button>inner</button><script>Array.prototype.forEach = null; window.Set = 7</script>"
    await page.set_content(f'<button>outer</button><iframe srcdoc="{hostile}"></iframe><iframe srcdoc="<b>well</b>">')
    await page.frames[-1].wait_for_load_state()
    extraction = await told(page)
    assert "[3] button 'outer'" in extraction.text()
    assert "[b2] " in extraction.text(), "the frame after it has its bids"
    assert not any(bid.startswith("a") and bid != "a" for bid in extraction.extra_element_properties)


async def test_large_tree_is_truncated(page: Page) -> None:
    await page.evaluate("document.body.innerHTML = '<p>word</p>'.repeat(3000)")
    extraction = await told(page)
    nodes = extraction.axtree_object["nodes"]
    ids = {node["nodeId"] for node in nodes}
    assert len(nodes) == 5_000
    assert extraction.nodes_left_out > 3_000
    assert all(child in ids for node in nodes for child in node["childIds"])


async def test_page_with_invalid_answers_is_marked_in_an_isolated_world(page: Page) -> None:
    await page.set_content("<button>one</button><script>Array.prototype.map = () => [1, 2, 3]</script>")
    extraction = await told(page)
    assert "[3] button 'one'" in extraction.text()
    assert extraction.extra_element_properties["3"]["set_of_marks"]
    again = await told(page)
    assert list(again.extra_element_properties) == list(extraction.extra_element_properties)
    assert "aria-description" not in await page.content()


async def test_page_with_too_many_elements_gives_an_outline(page: Page) -> None:
    rows = "'<p style=\"height: 40px\">word <a href=x>link</a></p>'.repeat(10001)"
    await page.evaluate(f"document.body.innerHTML = '<h1>Top</h1>' + {rows}")
    extraction = await told(page)
    text = extraction.text()
    assert text.startswith(
        "RootWebArea ''\n\t[0] generic\n\t\t[1] generic\n\t\t\t[2] heading 'Top'\n\t\t\t[3] paragraph 'word'"
    )
    assert extraction.elements_left_out > 19_000
    assert len(extraction.extra_element_properties) < 50
    await (await find(page, "4")).click(trial=True)
    await page.evaluate("scrollTo(0, 100000)")
    below = await told(page)
    assert "heading 'Top'" not in below.text()
    assert set(below.extra_element_properties) & set(extraction.extra_element_properties) == {"0", "1"}


async def test_cancelled_extraction_removes_its_marks(page: Page) -> None:
    await page.set_content("<p>word</p>" * 1000)
    session = await page.context.new_cdp_session(page)
    for after_ms in (1, 10, 50, 100):
        reading_it = asyncio.create_task(extract(page, session))
        await asyncio.wait([reading_it], timeout=after_ms / 1000)
        reading_it.cancel()
        await asyncio.gather(reading_it, return_exceptions=True)
    await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    assert "aria-description" not in await page.content()
