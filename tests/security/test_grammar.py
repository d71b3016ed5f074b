"""Unsupported syntax, programs, options and shell states ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import CmdRunAction, FileReadAction
from core.security.command_check import check, request_of
from core.security.confirmation import ConfirmMode, Judgement, Verdict
from core.security.facts import Facts, facts_of
from core.security.guard import Guard

WORKSPACE = "/workspace/app"
NOT_UNDERSTOOD = [
    "rm -rf 2>/dev/null ~other/x",
    "echo x > ~+/../protected",
    "test -v 'a[$(ls)]'",
    "[[ 'a[$(ls)]' -eq 1 ]]",
    "(( x ))",
    "echo ${x@P}",
    "cat ${x#y}",
    "cat ${HOME:0}/x",
    "git ${verb,,}",
    "echo ${x:=y}",
    "echo ${!x}",
    "a=(1 2)",
    "a[0]=1",
    "f() { ls; }",
    "eval ls",
    "source x.sh",
    "trap ls EXIT",
    "set -- a",
    "shopt -s expand_aliases",
    "alias ls=rm",
    "coproc ls",
    'bash <<< "$x"',
    "sort --compress-prog=sh x",
    "tar cf x.tar --checkpoint-action=exec=sh .",
    "TAR_OPTIONS=x tar cf a.tar b",
    "GIT_EXEC_PATH=e git status",
    "PATH=$PWD/b:$PATH",
    "git -c core.fsmonitor=x status",
    "git --exec-path=x status",
    "sed --in-pl 1d x",
    "cat a/../b",
    "cat /proc/self/root/etc/hosts",
    "exec 3> x",
    "echo x >&3",
    "echo {1..3}",
    "$X y",
    "git $(echo push)",
    "python3 -m timeit x",
    "find . -fprintf x y",
    "awk 'BEGIN{system(\"ls\")}'",
    "perl -e 1",
    "make --eval=x",
    "cmake -E rm -rf ../x",
    "gcc -fplugin=./x.so x.c",
    "gcc -Wl,-o,../x x.c",
    "conda run rm -rf ../x",
    "rake -e x",
    "mise exec -- rm ../x",
    "django-admin shell -c x",
    "jq -n --rawfile a ../x '$a'",
    "redis-cli config set dir /x",
    "psql -c 'select 1; drop table x'",
    "cat $'/a\\0b'",
    "ls\x00",
    "(" * 40 + "ls" + ")" * 40,
    "; ".join(["ls"] * 500),
    "echo " + "x" * 70_000,
]


def read(command: str) -> Facts:
    return facts_of(CmdRunAction(command=command), workspace=WORKSPACE)


async def said(tmp_path: Path, *commands: str, mode: str = "risky", **rules: list[str]) -> Judgement:
    request = request_of({"commands": list(commands), "mode": mode, "rules": rules, "workspace": WORKSPACE})
    return (await check(request, home=tmp_path, folder=WORKSPACE, user_home="/root")).judgement


@pytest.mark.parametrize("command", NOT_UNDERSTOOD, ids=lambda command: command[:30])
async def test_unsupported_command_asks_and_names_the_part(command: str, tmp_path: Path) -> None:
    facts = read(command)
    assert facts.not_understood or "program.unknown" in facts.rules
    for mode in (ConfirmMode.ALWAYS, ConfirmMode.RISKY, ConfirmMode.AUTO_EDIT):
        assert (await said(tmp_path, command, mode=mode)).verdict is Verdict.ASK
    assert (await said(tmp_path, command, mode="never")).verdict is Verdict.ALLOW


@pytest.mark.parametrize("mode", ["risky", "never"])
async def test_deny_rule_asks_about_what_is_not_understood(mode: str, tmp_path: Path) -> None:
    judged = await said(tmp_path, "git ${verb/X/u}", mode=mode, deny=["bash(git push *)"])
    assert (judged.verdict, judged.stays) == (Verdict.ASK, True)
    assert judged.rule == "rules:1 deny bash(git push *)"
    assert "${verb/X/u}" in judged.reasons[0]


@pytest.mark.parametrize("pattern", ["bash(git *)", "bash(*)"])
async def test_no_pattern_covers_what_is_not_understood(pattern: str, tmp_path: Path) -> None:
    assert (await said(tmp_path, "git status", mode="always", allow=[pattern])).verdict is Verdict.ALLOW
    assert (await said(tmp_path, "git $(echo status)", allow=[pattern])).verdict is Verdict.ASK
    assert (await said(tmp_path, "git --exec-path=x status", allow=[pattern])).verdict is Verdict.ASK


async def test_rule_can_allow_an_unknown_program(tmp_path: Path) -> None:
    assert (await said(tmp_path, "frobnicate --now")).verdict is Verdict.ASK
    assert (await said(tmp_path, "frobnicate --now", allow=["bash(frobnicate *)"])).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command", ["git -C . push", "/usr/bin/git push", "git -p push", "git --no-pager push", "CI=1 git push",
                "git >/dev/null push", "git 2>&1 push", "timeout 9 nice git push", "g\\it pu''sh", "{git,push}"],
)  # fmt: skip
async def test_deny_rule_matches_every_spelling(command: str, tmp_path: Path) -> None:
    assert (await said(tmp_path, command, deny=["bash(git push *)"])).verdict is Verdict.DENY


async def test_pattern_covers_variables_before_a_command(tmp_path: Path) -> None:
    assert (await said(tmp_path, "CI=1 make x", mode="always", allow=["bash(make *)"])).verdict is Verdict.ASK
    assert (await said(tmp_path, "CI=1 make x", mode="always", allow=["bash(CI=1 make *)"])).verdict is Verdict.ALLOW


async def test_unanalysed_code_asks_if_a_rule_denies(tmp_path: Path) -> None:
    assert (await said(tmp_path, "make test")).verdict is Verdict.ALLOW
    judged = await said(tmp_path, "make test", deny=["bash(git push *)"])
    assert (judged.verdict, judged.stays) == (Verdict.ASK, False)
    both = {"allow": ["bash(make *)"], "deny": ["bash(git push *)"]}
    assert (await said(tmp_path, "make test", mode="risky", **both)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "commands",
    [
        ("cd ..", "rm -r important"),
        ("f=/etc/passwd", "rm $f"),
        ("alias ls=rm", "ls x"),
        ("export GIT_EXEC_PATH=x", "git status"),
        ("ln -s /root up", "rm -r up/x"),
        ("echo 'rm -rf ~' > y", "bash y"),
        ("cp /bin/rm r", "./r -rf x"),
        ("eval x", "ls"),
        ("x=$(cat list)", "git $x"),
    ],
)
async def test_command_is_judged_with_effects_of_earlier_ones(commands: tuple[str, str], tmp_path: Path) -> None:
    first, second = commands
    alone = await said(tmp_path, second)
    judged = (await check(request_of({"commands": [first, second], "rules": {}, "workspace": WORKSPACE}),
                          home=tmp_path, folder=WORKSPACE, user_home="/root")).commands  # fmt: skip
    assert judged[1].verdict == "ask"
    assert alone.verdict is Verdict.ALLOW or second in ("rm $f", "git $x")


async def test_failing_judgement_asks_with_its_error(tmp_path: Path) -> None:
    async def broken(action: object) -> object:
        raise ValueError("embedded null byte")

    guard = Guard(home=tmp_path, folder=WORKSPACE, workspace=lambda: WORKSPACE, mode=ConfirmMode.RISKY,
                  shell=broken)  # type: ignore[arg-type]  # fmt: skip
    judged = await guard.judge(CmdRunAction(command="ls"))
    assert (judged.verdict, judged.reasons) == (
        Verdict.ASK,
        ("Checking this action failed: ValueError: embedded null byte",),
    )


async def test_nul_in_a_file_path_asks(tmp_path: Path) -> None:
    guard = Guard(home=tmp_path, folder=str(tmp_path), workspace=lambda: str(tmp_path), mode=ConfirmMode.RISKY)
    judged = await guard.judge(FileReadAction(path="/a\0b"))
    assert judged.verdict is Verdict.ASK
