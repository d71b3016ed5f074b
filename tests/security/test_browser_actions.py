"""What pages and browser functions would do, one row each."""

from __future__ import annotations

import pytest

from core.events import BrowseInteractiveAction, BrowseURLAction
from core.security.facts import MAX_BROWSER_CHARS, Facts, facts_of


def read(code: str) -> Facts:
    return facts_of(BrowseInteractiveAction(browser_actions=code), workspace="/w")


@pytest.mark.parametrize(
    ("url", "rules", "hosts", "reads"),
    [
        ("https://a.example/x", ("page.open",), ("a.example",), ()),
        ("http://localhost:80/", (), (), ()),
        ("file:///etc/passwd", ("page.local-file",), (), ("/etc/passwd",)),
        ("view-source:file:///etc/hosts", ("page.local-file",), (), ("/etc/hosts",)),
        ("file:x", ("page.local-file",), (), ("file:x",)),
        ("javascript:alert(1)", ("page.script",), (), ()),
        (" DATA:text/html,x", ("page.script",), (), ()),
        ("blob:x", ("page.script",), (), ()),
        ("about:blank", (), (), ()),
        ("chrome://settings", ("page.open", "not-understood"), ("settings",), ()),
        (
            "https://a.example\\@b.example/",
            ("page.open", "net.fetch", "not-understood"),
            ("a.example", "b.example"),
            (),
        ),
    ],
)
def test_facts_of_a_page_are_found(
    url: str, rules: tuple[str, ...], hosts: tuple[str, ...], reads: tuple[str, ...]
) -> None:
    facts = facts_of(BrowseURLAction(url=url), workspace="/w")
    found = set(facts.rules) - {"read.outside", "net.local"}
    assert (found, facts.hosts, facts.reads) == (set(rules), hosts, reads)
    assert facts.urls == ((url,) if hosts else ())
    assert bool(facts.not_understood) is ("not-understood" in rules)


@pytest.mark.parametrize(
    ("code", "rules", "reads"),
    [
        ("noop(1)", (), ()),
        ("click('1')\nscroll(0, 10)", (), ()),
        ("'a comment'", (), ()),
        ("goto('about:blank')", (), ()),
        ("goto('https://a.example/')", ("page.open",), ()),
        ("open_url(url='https://a.example/')", ("page.open",), ()),
        ("fill('1', 'x')", ("page.fill",), ()),
        ("upload_file('1', 'x')", ("page.upload",), ("/w/x",)),
        ("upload_file('1', ['x', '/etc/passwd'])", ("page.upload",), ("/w/x", "/etc/passwd")),
        ("unknown(1)", ("page.unknown",), ()),
        ("click(x)", ("page.unknown",), ()),
        ("x = 1", ("page.unknown",), ()),
        ("x = 1\nfill('1', 'x')", ("page.unknown", "page.fill"), ()),
        ("'c'\nfill('1', 'x')", ("page.fill",), ()),
        ("a.click()", ("page.unknown",), ()),
        ("click(", ("page.unknown",), ()),
    ],
)
def test_facts_of_browser_functions_are_found(code: str, rules: tuple[str, ...], reads: tuple[str, ...]) -> None:
    facts = read(code)
    assert ({rule for rule in facts.rules if rule.startswith("page.")}, facts.reads) == (set(rules), reads)
    assert facts.not_understood == ()


def test_too_long_browser_code_is_not_understood() -> None:
    start = "fill('1', 'x')\n"
    whole = start + "#" * (MAX_BROWSER_CHARS - len(start))
    assert read(whole).not_understood == ()
    assert read(whole + "#").not_understood == (f"{start.strip()} {whole[len(start) : 80]} (too long)",)
    assert "page.fill" in read(whole + "#").rules


@pytest.mark.parametrize(
    ("code", "about"),
    [
        ("fill('1', 'x')", "fill(1, x)"),
        ("upload_file('1', 'x')", "upload_file(1, x)"),
        ("x = 1", "x = 1"),
    ],
)
def test_reason_names_the_call(code: str, about: str) -> None:
    assert any(about in reason for reason in read(code).reasons)
