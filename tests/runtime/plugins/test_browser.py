"""An agent's browser actions and observations, on real pages in a real Chromium."""

from __future__ import annotations

import asyncio
import base64
import io
import stat
from pathlib import Path

import pytest
from aiohttp import web
from PIL import Image

from core.events import FileDownloadObservation
from tests.runtime.plugins.browser_server import Browser, Site, bid

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FORM = """<title>Form</title><h1>Order</h1><label>Name <input id=name></label>
<select id=size aria-label=Size><option>small</option><option>large</option></select>
<button onclick="document.querySelector('p').textContent = document.querySelector('#name').value
  + ' wants ' + document.querySelector('#size').value">Send</button><p></p><a href=/next>Next</a>"""


class TestReading:
    async def test_opened_page_is_read_as_text(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = (
            "<title>T</title><script>hidden()</script><h1>A &amp; B</h1><p>See <a href=/there>this</a>"
            "<img src=/x.png></p><style>p {}</style>"
        )
        seen = await browser.browse(site.url())
        assert seen.content == (
            f"[Current URL: {site.url()}]\n============== BEGIN webpage content ==============\n"
            "# A & B\n\nSee [this](/there)\n\n============== END webpage content ==============\n"
        )
        assert (seen.url, seen.trigger_by_action, seen.error) == (site.url(), "browse", False)
        assert seen.open_pages_urls == [site.url()]
        assert seen.active_page_index == 0
        assert seen.last_browser_action == f'goto("{site.url()}")'
        assert (seen.axtree_object, seen.dom_object, seen.set_of_marks) == ({}, {}, "")

    async def test_screenshot_file_is_private(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<body style='background: red'>"
        seen = await browser.browse(site.url())
        head, _, data = seen.screenshot.partition(",")
        assert head == "data:image/png;base64"
        picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        assert (picture.size, picture.getpixel((640, 360))) == ((1280, 720), (255, 0, 0))
        assert seen.screenshot_path is not None
        file = Path(seen.screenshot_path)
        assert file.parent.name == "screenshots"
        assert not file.is_relative_to(browser.workspace)
        assert not (browser.workspace / ".browser_screenshots").exists()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_bytes() == base64.b64decode(data)

    async def test_frames_and_shadow_trees_are_part_of_the_text(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = (
            "<iframe src=/inner></iframe><div id=host></div><script>"
            "document.querySelector('#host').attachShadow({mode: 'open'}).innerHTML = '<b>in the shade</b>'</script>"
        )
        site.pages["/inner"] = "<h2>within</h2>"
        seen = await browser.browse(site.url())
        assert "## within" in seen.content
        assert "**in the shade**" in seen.content

    async def test_long_page_is_truncated_with_a_note(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<p>" + "word " * 400_000
        seen = await browser.browse(site.url())
        assert "[The page is truncated: only its first 1000000 characters of HTML were read]" in seen.content
        assert "more characters are not shown" in seen.content
        assert len(seen.content) < 201_000

    async def test_trees_are_returned_on_request(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<button>b</button>"
        seen = await browser.browse(site.url(), return_axtree=True)
        assert seen.axtree_object["nodes"]
        assert seen.dom_object
        assert seen.extra_element_properties

    async def test_address_without_a_scheme_is_completed(self, browser: Browser, site: Site) -> None:
        site.pages["/x"] = "<h1>here</h1>"
        assert "# here" in (await browser.browse(site.url("/x").removeprefix("http://"))).content

    async def test_unreachable_server_is_named(self, browser: Browser) -> None:
        seen = await browser.browse("http://localhost:65533/")
        assert seen.error
        assert seen.last_browser_action_error == "localhost:65533 does not answer; is the server running?"
        assert "The following error occurred when trying to visit the URL:\nlocalhost:65533 does" in seen.content


class TestActing:
    async def test_several_calls_are_one_step(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = FORM
        form = await browser.act(f"goto('{site.url()}')")
        name, size, send = (bid(form, what) for what in ("textbox 'Name'", "combobox 'Size'", "button 'Send'"))
        seen = await browser.act(
            f"# the order\nfill('{name}', 'Ada')\nselect_option('{size}', 'large')\nclick('{send}')"
        )
        head = (
            f"[Current URL: {site.url()}]\n[Focused element bid: {send}]\n[Screenshot saved to: {seen.screenshot_path}]"
        )
        assert seen.content.startswith(f"{head}\n\n[Action executed successfully.]\nAccessibility tree of the COMPLETE")
        assert "StaticText 'Ada wants large'" in seen.content
        assert (seen.error, seen.focused_element_bid, seen.trigger_by_action) == (False, send, "browse_interactive")
        assert seen.set_of_marks.startswith("data:image/png;base64,")

    async def test_calls_after_an_error_are_not_carried_out(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = FORM
        name = bid(await browser.act(f"goto('{site.url()}')"), "textbox 'Name'")
        seen = await browser.act(f"fill('{name}', 'one')\nclick('zz9')\nfill('{name}', 'two')")
        assert seen.last_browser_action_error == 'ValueError: Could not find element with bid "zz9"'
        assert f"executing the last action:\n{seen.last_browser_action_error}\n====" in seen.content
        assert "one" in seen.content
        assert "two" not in seen.content

    @pytest.mark.parametrize(
        ("calls", "error"),
        [
            ("fly('1')", "NameError: Invalid action type 'fly'."),
            ("goto('http://localhost:9/')\nfly()", "NameError: Invalid action type 'fly'."),
            ("I would rather not", "ValueError: Received an empty action."),
            ("click(__import__)", "ValueError: Received an empty action."),
            ("click()", "TypeError: click() missing 1 required positional argument: 'bid'"),
            ("click(5)", "ValueError: expected a string, got 5"),
        ],
    )
    async def test_invalid_calls_give_browsergyms_errors(self, browser: Browser, calls: str, error: str) -> None:
        assert (await browser.act(calls)).last_browser_action_error == error

    async def test_observation_follows_a_click_that_navigates(self, browser: Browser, site: Site) -> None:
        site.pages |= {"/": FORM, "/next": "<title>There</title><h1>There</h1>"}
        form = await browser.act(f"goto('{site.url()}')")
        link = bid(form, "link 'Next'")
        seen = await browser.act(f"click('{link}')")
        assert seen.url == site.url("/next")
        assert "heading 'There'" in seen.content
        assert (await browser.act("go_back()")).url == site.url()
        assert (await browser.act("go_forward()")).url == site.url("/next")

    async def test_click_on_a_disabled_element_times_out(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<button disabled>b</button>"
        seen = await browser.act(f"goto('{site.url()}')")
        seen = await browser.act(f"click('{bid(seen, 'button')}')")
        assert seen.last_browser_action_error.startswith("TimeoutError: Locator.click: Timeout 500ms exceeded.")

    async def test_tabs_are_opened_focused_and_closed(self, browser: Browser, site: Site) -> None:
        site.pages |= {"/a": "<h1>A</h1>", "/b": "<h1>B</h1>"}
        seen = await browser.act(f"goto('{site.url('/a')}')\nnew_tab()\ngoto('{site.url('/b')}')")
        assert (seen.open_pages_urls, seen.active_page_index) == ([site.url("/a"), site.url("/b")], 1)
        assert "heading 'A'" in (await browser.act("tab_focus(0)")).content
        seen = await browser.act("tab_close()")
        assert (seen.open_pages_urls, seen.active_page_index, seen.url) == ([site.url("/b")], 0, site.url("/b"))

    async def test_uploads_are_relative_to_the_shells_folder(self, browser: Browser, site: Site) -> None:
        (browser.workspace / "receipt.txt").write_text("paid")
        site.pages["/"] = (
            '<input type=file aria-label=File onchange="this.files[0].text().then(t => document.title = t)">'
        )
        form = await browser.act(f"goto('{site.url()}')")
        button = bid(form, "button 'File'")
        seen = await browser.act(f"upload_file('{button}', 'receipt.txt')")
        assert "RootWebArea 'paid'" in seen.content

    async def test_message_to_the_user_is_a_note(self, browser: Browser) -> None:
        assert "[Message to the user: done]" in (await browser.act("send_msg_to_user('done')")).content


class TestPagesThatActByThemselves:
    async def test_endless_redirects_are_refused(self, browser: Browser, site: Site) -> None:
        async def again(request: web.Request) -> web.Response:
            raise web.HTTPFound("/")

        site.pages["/"] = again
        seen = await browser.act(f"goto('{site.url()}')")
        assert "ERR_TOO_MANY_REDIRECTS" in seen.last_browser_action_error

    async def test_page_that_reloads_endlessly_can_be_left(self, browser: Browser, site: Site) -> None:
        site.pages |= {"/": "<meta http-equiv=refresh content=0>", "/next": "<h1>next</h1>"}
        await browser.act(f"goto('{site.url()}')")
        for _ in range(3):  # a reload that has begun may still win
            seen = await browser.act(f"goto('{site.url('/next')}')")
            if "heading 'next'" in seen.content:
                break
        assert "heading 'next'" in seen.content

    async def test_four_hundred_dialogs_are_dismissed(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<script>for (let i = 0; i < 400; i++) alert('x' + i % 40)</script><h1>after</h1>"
        seen = await browser.browse(site.url())
        assert "[A dialog of the page was dismissed: alert 'x0' (10 times)]" in seen.content
        assert "[200 more notes are left out]" in seen.content
        assert "# after" in seen.content

    async def test_windows_beyond_five_are_closed(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<button onclick=\"for (let i = 0; i < 12; i++) window.open('about:blank')\">b</button>"
        seen = await browser.act(f"goto('{site.url()}')")
        seen = await browser.act(f"click('{bid(seen, 'button')}')\nnoop(300)")
        told = seen.content
        closed = "A window that the page opened was closed: at most 5 tabs are open at once"
        while len(seen.open_pages_urls) > 5 or closed not in told:  # the test's time limit ends this
            seen = await browser.act("noop(100)")
            told += seen.content
        seen = await browser.act("\n".join(["tab_close()"] * 4) + f"\ngoto('{site.url()}')")
        assert len(seen.open_pages_urls) == 1

    async def test_permission_and_file_prompts_do_not_block(self, browser: Browser, site: Site) -> None:
        async def locked(request: web.Request) -> web.Response:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="r"'}, text="locked")

        site.pages["/locked"] = locked
        site.pages["/"] = (
            "<script>navigator.geolocation.getCurrentPosition(() => {}, e => document.title = 'refused')</script>"
            "<button onclick=\"document.querySelector('input').click()\">pick</button><input type=file hidden>"
            "<script>addEventListener('beforeunload', e => e.preventDefault())</script>"
        )
        assert "locked" in (await browser.browse(site.url("/locked"))).content
        seen = await browser.act(f"goto('{site.url()}')\nnoop(50)")
        assert "RootWebArea 'refused'" in seen.content
        seen = await browser.act(f"click('{bid(seen, 'button')}')")
        assert not seen.error
        assert not (await browser.act("goto('about:blank')")).error

    async def test_download_is_saved_under_a_safe_name(self, browser: Browser, site: Site) -> None:
        async def file(request: web.Request) -> web.Response:
            named = {"Content-Disposition": 'attachment; filename="..%2F..%2F.bash\\\\rc;rm -rf.sh"'}
            return web.Response(body=b"data" * 1000, headers=named)

        site.pages |= {"/": "<a href=/file>get</a>", "/file": file}
        seen = await browser.act(f"goto('{site.url()}')")
        paths = []
        for calls in (f"click('{bid(seen, 'link')}')", f"goto('{site.url('/file')}')"):
            got = await browser.step(calls)
            assert isinstance(got, FileDownloadObservation), got
            assert got.content == (
                f"Execution of the previous action {calls} resulted in a file download. "
                f"The downloaded file is saved at location: {got.file_path}"
            )
            paths.append(Path(got.file_path))
        assert paths[0] != paths[1]
        for path in paths:
            assert path.parent == browser.workspace / ".downloads"
            assert path.read_bytes() == b"data" * 1000
            assert not path.name.startswith(".")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    @pytest.mark.parametrize("waits", [True, False])
    async def test_download_that_begins_after_its_step_is_not_the_answer_of_the_next(
        self, browser: Browser, site: Site, waits: bool
    ) -> None:
        async def file(request: web.Request) -> web.Response:
            asked.set()
            return web.Response(body=b"late", headers={"Content-Disposition": f'attachment; filename="{name}"'})

        asked, name = asyncio.Event(), f"late-{waits}.txt"
        button = "<button onclick=\"setTimeout(() => location.assign('/file'), 300)\">later</button>"
        site.pages |= {"/": button, "/file": file}
        seen = await browser.act(f"goto('{site.url()}')")
        click = f"click('{bid(seen, 'button')}')"
        assert not (await browser.act(click)).error
        if waits:
            async with asyncio.timeout(20):
                await asked.wait()
        saved = browser.workspace / ".downloads" / name
        content = ""
        for _ in range(20):  # the event of the download comes a little after its request
            content = (await browser.act("noop(100)")).content
            if str(saved) in content:
                break
        assert f"[The earlier action {click} resulted in a file download, saved at: {saved}]" in content
        assert saved.read_bytes() == b"late"
        assert str(saved) not in (await browser.act("noop(10)")).content
