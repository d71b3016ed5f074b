"""What a reader sees of a page, and what the user does on it, in a real Chromium."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.events import BrowserOutputObservation, FileDownloadObservation
from runtime.plugins.browser import functions, page_layout
from tests.runtime.plugins.browser_server import Browser, Site

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
PASSWORD = "correct horse battery"


def words(seen: BrowserOutputObservation) -> list[str]:
    return [row[4].strip() for row in rows(seen, "texts")]


def rows(seen: BrowserOutputObservation, name: str) -> list[Any]:
    found = seen.look[name]
    assert isinstance(found, list)
    return found


def mark(seen: BrowserOutputObservation, label: str) -> str:
    """The bid of the element with this label or kind."""
    return next(str(row[0]) for row in rows(seen, "marks") if label in (row[5], row[6]))


async def users_step(browser: Browser, calls: str, hidden: str = "") -> BrowserOutputObservation:
    return await browser.act(calls, by_user=True, hidden_text=hidden)


async def test_visible_texts_have_positions_and_hidden_ones_are_left_out(browser: Browser, site: Site) -> None:
    site.pages["/"] = (
        "<body style='margin:0'><p style='margin:100px 0 0 200px;color:#ff0000;background:#00ff00'>here <b>and</b> on"
        "<p style='visibility:hidden'>hidden<p style='opacity:0'>clear"
        "<div style='height:20px;overflow:hidden;line-height:20px'>first<br>clipped</div>"
        "<p style='position:fixed;left:500px;top:300px'>under"
        "<div style='position:fixed;left:400px;top:250px;width:300px;height:200px;background:white'>above</div>"
        "<p style='margin-top:3000px'>far down"
    )
    for seen in (await browser.browse(site.url()), await browser.act("noop(1)")):
        assert words(seen) == ["here", "and", "on", "first", "above"]
        left, top, width, height, text, ink, ground = rows(seen, "texts")[0]
        assert (left, top, text, ink, ground) == (200, 100, "here ", 0xFF0000, 0x00FF00)
        assert 20 < width < 60
        assert 10 < height < 30
        assert (seen.look["width"], seen.look["height"]) == (1280, 720)


async def test_texts_and_elements_of_a_frame_are_positioned_in_it(browser: Browser, site: Site) -> None:
    site.pages |= {
        "/": "<body style='margin:0'><iframe src=/in style='margin:100px 0 0 300px;border:0'></iframe>",
        "/in": "<body style='margin:0'>inner <a href=/>out</a>",
    }
    await browser.browse(site.url())
    seen = await browser.act("noop(1)")
    assert (rows(seen, "texts")[0][:2], words(seen)) == ([300, 100], ["inner", "out"])
    assert mark(seen, "out").startswith("a")


async def test_fields_show_their_values_and_secret_fields_dots(browser: Browser, site: Site) -> None:
    site.pages["/"] = (
        f"<input value=Ada><input placeholder=Town><select><option>Wool<option selected>Silk</select>"
        f"<textarea>more</textarea><input type=password value='{PASSWORD}'><input autocomplete=one-time-code value=123"
        "><input type=file><button>Send</button>"
    )
    await browser.browse(site.url())
    seen = await browser.act("noop(1)")
    assert words(seen) == ["Ada", "Town", "Silk", "more", page_layout.DOTS, page_layout.DOTS, "Send"]
    assert PASSWORD not in json.dumps(seen.look)
    kinds = [row[5] for row in rows(seen, "marks")]
    assert kinds == ["text", "text", "choice", "text", "secret", "secret", "file", "button"]


async def test_users_step_gives_no_tree(browser: Browser, site: Site) -> None:
    site.pages |= {
        "/": "<form action=/done><input name=a placeholder=Name><input type=password name=b><button>Send</button>",
        "/done": "<h1>thanks</h1>",
    }
    await browser.browse(site.url())
    seen = await users_step(browser, "noop(1)")
    assert "accessibility" not in seen.content
    assert not seen.set_of_marks
    assert seen.screenshot_path is None, "what the user sees is no file of the workspace"
    await users_step(browser, f"fill('{mark(seen, 'Name')}', 'Ada')")
    filled = await users_step(browser, f"fill('{mark(seen, 'secret')}', '{functions.HIDDEN}')", PASSWORD)
    assert PASSWORD not in filled.model_dump_json()
    assert filled.last_browser_action.endswith(f"'{functions.HIDDEN}')")
    assert filled.focused_element_bid == mark(seen, "secret")
    sent = await users_step(browser, "keyboard_press('Enter')")
    assert sent.url.endswith("/done?a=Ada&b=correct+horse+battery")
    assert words(sent) == ["thanks"]


async def test_hidden_text_is_in_no_error(browser: Browser, site: Site) -> None:
    site.pages["/"] = "<button>Send</button>"
    await browser.browse(site.url())
    seen = await users_step(browser, "noop(1)")
    failed = await users_step(browser, f"fill('{mark(seen, 'Send')}', '{functions.HIDDEN}')", PASSWORD)
    assert failed.error
    assert PASSWORD not in failed.model_dump_json()


async def test_keyboard_functions_are_only_for_the_user(browser: Browser, site: Site) -> None:
    site.pages["/"] = "<title>T</title>"
    await browser.browse(site.url())
    assert "Invalid action type 'reload'" in (await browser.act("reload()")).last_browser_action_error
    assert not (await users_step(browser, "reload()")).error
    assert site.asked.count("/") == 2
    assert "refused" in (await users_step(browser, "goto('file:///etc/passwd')")).last_browser_action_error
    assert (await users_step(browser, "goto('http://nowhere.invalid/')")).error


async def test_missing_element_is_reported(browser: Browser, site: Site) -> None:
    site.pages["/"] = "<button onclick=\"document.body.innerHTML = '<a href=/>other</a>'\">old</button>"
    await browser.browse(site.url())
    seen = await users_step(browser, "noop(1)")
    old = mark(seen, "old")
    await users_step(browser, f"click('{old}')")
    failed = await users_step(browser, f"click('{old}')")
    assert "Could not find element" in failed.last_browser_action_error
    assert mark(failed, "other")


async def test_dialogs_file_choosers_and_downloads_are_reported(browser: Browser, site: Site) -> None:
    async def file(request: Any) -> Any:
        from aiohttp import web

        return web.Response(body=b"x", headers={"Content-Disposition": "attachment; filename=a.bin"})

    site.pages |= {
        "/": "<button onclick=\"alert('boo')\">alert</button><input type=file id=f style='display:none'>"
        "<button onclick='f.click()'>pick</button><a href=/b target=_blank>window</a><a href=/file>file</a>",
        "/b": "<title>B</title>",
        "/file": file,
    }
    await browser.browse(site.url())
    seen = await users_step(browser, "noop(1)")
    assert "alert 'boo'" in (await users_step(browser, f"click('{mark(seen, 'alert')}')")).content
    assert functions.PICKER in (await users_step(browser, f"click('{mark(seen, 'pick')}')")).content
    got = await browser.step(f"click('{mark(seen, 'file')}')", by_user=True, hidden_text="")
    assert isinstance(got, FileDownloadObservation)
    seen = await users_step(browser, f"click('{mark(seen, 'window')}')")
    while not seen.url.endswith("/b"):  # a window opens when the browser has the time
        seen = await users_step(browser, "noop(100)")
    await browser.act("tab_close()")


async def test_killed_browser_is_reported_and_replaced(browser: Browser, site: Site) -> None:
    site.pages["/"] = "<p>well"
    await browser.browse(site.url())
    assert browser.plugin.worker is not None
    await browser.plugin.worker.kill()
    seen = await users_step(browser, f"goto('{site.url()}')")
    assert words(seen) == ["well"]


async def test_oversized_page_is_limited(browser: Browser, site: Site) -> None:
    nested, many = "<div>" * 1500 + "deep" + "</div>" * 1500, "<a href=/>x</a> " * 1000
    site.pages["/"] = f"<p>{'word ' * 20_000}<p style='position:fixed;top:0;background:#fff'>{many}{nested}"
    await browser.browse(site.url())
    seen = await browser.act("noop(1)")
    told = json.dumps(seen.look)
    assert len(told) < 120_000
    assert len(rows(seen, "marks")) <= page_layout.MAX_MARKS
    assert len(rows(seen, "texts")) <= page_layout.MAX_TEXTS
