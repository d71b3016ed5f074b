"""Hosts and addresses in texts, one row for each way to write one."""

from __future__ import annotations

import pytest

from core.security.hosts import host_of, hosts_named, is_local, is_metadata, is_plain_url, normalized_ipv4, urls_in


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://A.Example/x", "a.example"),
        ("a.example/x", "a.example"),
        ("a.example.:80", "a.example"),
        ("https://me:word@a.example:8080/", "a.example"),
        ("http://[::1]:80/", "::1"),
        ("http://[::1/", ""),
        ("file:///x", ""),
        ("", ""),
    ],
)
def test_host_of_a_url_is_found(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("See https://a.example/x, and http://b.example.", ["https://a.example/x", "http://b.example"]),
        ("(ssh://a.example/x) 'git://b.example'", ["ssh://a.example/x", "git://b.example"]),
        ("HTTPS://a.example!?", ["HTTPS://a.example"]),
        ("mailto:me@a.example file:///x xhttps://a.example", []),
    ],
)
def test_urls_are_found_in_text(text: str, urls: list[str]) -> None:
    assert urls_in(text) == urls


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("Look at Docs.Example and https://a.example/x.", {"docs.example", "a.example"}),
        ("Fix main.py, run.SH and notes.md", set()),
        ("Open https://main.py/", {"main.py"}),
        ("me@a.example ./b.example /c.example", set()),
        ("a.example:80 b.example/x c.example.", {"a.example", "b.example", "c.example"}),
        ("nothing", set()),
    ],
)
def test_named_hosts_are_found(text: str, hosts: set[str]) -> None:
    assert hosts_named(text) == hosts


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("ip6-localhost", True),
        ("0.0.0.0", True),  # a name to know
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("128.0.0.1", False),
        ("10.0.0.1", False),
        ("localhost.a.example", False),
        ("alocalhost", False),
        ("", False),
    ],
)
def test_local_hosts_are_recognised(host: str, local: bool) -> None:
    assert is_local(host) is local


@pytest.mark.parametrize(
    ("host", "number"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("0xA9FEA9FE", "169.254.169.254"),
        ("2852039166", "169.254.169.254"),
        ("169.254.43518", "169.254.169.254"),
        ("0251.0376.0251.0376", "169.254.169.254"),
        ("1.2.3.4.5", ""),
        ("1.2.3.999", ""),
        ("a.example", ""),
        ("1.2.3.4 x", ""),
        ("", ""),
    ],
)
def test_ipv4_addresses_are_normalized(host: str, number: str) -> None:
    assert normalized_ipv4(host) == number
    assert is_metadata(host) is (number == "169.254.169.254")


def test_metadata_addresses_are_recognised() -> None:
    assert is_metadata("metadata.google.internal")
    assert not is_metadata("a.example")


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://a.example", True),
        ("https://a.example.:80/x?y#z", True),
        ("http://[::1]:80/", True),
        ("https://a.example?x", True),
        ("https://me@a.example/", False),
        ("https:/a.example", False),
        ("https://a.example\\x", False),
        ("https://a.example/x y", False),
        ("https://a%2eexample/", False),
        ("https://a..example/", False),
        ("javascript:x", False),
        ("https://a.example:123456/", False),
    ],
)
def test_plain_urls_are_recognised(url: str, plain: bool) -> None:
    assert is_plain_url(url) is plain
