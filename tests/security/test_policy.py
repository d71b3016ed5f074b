"""A policy: its rules, and the errors of a broken one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.security.confirmation import Verdict
from core.security.policy import MAX_BYTES, Policy, read_policy, signature


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", []),
        ("# nothing", []),
        ('allow = ["bash(a)", "bash(b)"]', ["p:1 allow bash(a)", "p:1 allow bash(b)"]),
        ('\nask = [\n  "bash(a)",\n  "bash(b)",\n]', ["p:3 ask bash(a)", "p:4 ask bash(b)"]),
        ('deny = [\n"bash(a)",\n"bash(a)"]', ["p:2 deny bash(a)", "p:3 deny bash(a)"]),
        ('allow = ["bash(a)"]\ndeny = ["bash(a)"]', ["p:1 allow bash(a)", "p:2 deny bash(a)"]),
        ('ask = [\n"bash(echo \\"a\\")"]', ['p:2 ask bash(echo "a")']),
        ('ask = [\n"bash(\\u0061)"]', ["p:1 ask bash(a)"]),
    ],
)
def test_each_rule_has_its_line(tmp_path: Path, text: str, rules: list[str]) -> None:
    (tmp_path / "policy.toml").write_text(text, "utf-8")
    policy = read_policy(tmp_path / "policy.toml", name="p")
    assert ([str(rule) for rule in policy.rules], policy.broken, policy.ignored) == (rules, "", "")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('dney = ["*"]', 1, "Unknown list 'dney'. The lists are allow, ask and deny."),
        ('allow = ["*"]\ndeny = 3', 2, "deny is a list of patterns"),
        ("ask = [3]", 1, "ask is a list of patterns"),
        ('ask = [\n"bash(a)",\n"x",\n]', 3, "'x' is not a pattern."),
        ("a = ", 1, "Invalid value."),
        ("allow = [\n\n", 2, "Invalid value."),
    ],
)
def test_broken_policy_has_no_rules_and_names_the_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text, "utf-8")
    policy = read_policy(file, name="p")
    assert policy == Policy(broken=policy.broken)
    assert policy.broken.startswith(f"{file}, line {line}: {why}")
    assert policy.broken.endswith(" Until it is fixed, every action needs approval.")


def test_lines_of_many_rules_are_found_quickly(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("deny = [\n" + "".join(f'"read(\\u0061{n})",\n\n\n\n' for n in range(2_000)) + "]", "utf-8")
    begin = time.process_time()
    policy = read_policy(file, name="p")
    assert (len(policy.rules), time.process_time() - begin < 5) == (2_000, True)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#" * (MAX_BYTES + 1), "it is longer than 256 kB."),
        (b"\xff", "it is not UTF-8."),
        (b"deny = " + b"[" * 50_000, "it is nested too deeply."),
        (b'deny = ["*"]\nask = [' + b'"read(a)",' * 2_000 + b"]", "it has more than 2,000 patterns."),
    ],
    ids=["long", "binary", "nested", "many"],
)
def test_unreadable_policy_is_broken_without_a_line(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_bytes(content)
    assert read_policy(file, name="p").broken.startswith(f"{file}: {why}")
    file.write_bytes(b"#" * MAX_BYTES)
    assert read_policy(file, name="p") == Policy()


def test_missing_file_is_an_empty_policy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for file in (tmp_path / "policy.toml", tmp_path / "file" / "policy.toml"):
        assert read_policy(file, name="p") == read_policy(file, name="p", tightens=True) == Policy()
        assert signature(file) is None


def test_project_policy_ignores_allow_rules(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('allow = ["*"]\nask = ["bash(a)"]\ndeny = ["bash(b)"]', "utf-8")
    policy = read_policy(file, name="p", tightens=True)
    assert [rule.verdict for rule in policy.rules] == [Verdict.ASK, Verdict.DENY]
    assert policy.ignored == f"{file}: its allow rules are ignored, because a project's policy can only restrict."
    assert len(read_policy(file, name="p").rules) == 3
    file.write_text('ask = ["bash(a)"]', "utf-8")
    assert read_policy(file, name="p", tightens=True).ignored == ""


def test_signature_changes_with_size_and_file(tmp_path: Path) -> None:
    file, other = tmp_path / "policy.toml", tmp_path / "other"
    file.write_text("a", "utf-8")
    first = signature(file)
    assert first == signature(file)
    file.write_text("ab", "utf-8")
    longer = signature(file)
    other.write_text("ab", "utf-8")
    other.replace(file)
    assert len({first, longer, signature(file)}) == 3
