"""Ways to use Handloom without its screen, as a user with canaries everywhere."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

from tests.acp.editor import raw
from tests.openai_server import Behaviour, answers
from tests.runtime.plugins.browser_server import Site
from tests.secrets.canaries import ADDRESSES, ENVIRONMENT, KEPT, MET, TYPED
from tests.secrets.user import User
from tui.cli.command_line import FORMATS

SHORT_FORMATS = ("archive", "asciicast")
PRINTS: tuple[str, ...] = (
    'echo "$EVERYWHERE_ONE"; printf %s "$EVERYWHERE_ONE" | base64 -w0; echo; printf %s "x$EVERYWHERE_ONE" | base64 -w0;'
    ' echo; printf %s "xy$EVERYWHERE_ONE" | base64 -w0; echo; printf %s "$EVERYWHERE_ONE" | od -An -tx1 | tr -d " \\n"',
    'for ((i = 0; i < ${#EVERYWHERE_ONE}; i++)); do printf %s "${EVERYWHERE_ONE:i:1}"; sleep 0.01; done',
    'echo "$EVERYWHERE_ODD"; echo "$EVERYWHERE_PEM"; printenv EVERYWHERE_ODD >&2; set -x; : "$FOLDER_ONE"',
    'printf "%s" "$FOLDER_TWO" >&2; python3 -c "import os; raise SystemExit(os.environ[\'FOLDER_TWO\'])"; set +x',
    "env; cat /proc/self/environ /proc/$PPID/environ; set; export -p; history",
    "cat .env token.jwt; git remote -v; cat ../.ssh/id; cat ../remote.key",
    "cat ../.git-credentials ../.netrc ../.config/gh/hosts.yml ../.aws/credentials ../.npmrc ../.pypirc",
    "cat ../.docker/config.json; cat ../.kube/config ../.gnupg/key",
    "cat ../home/secrets.json ../home/config.toml .mcp.json; ls -la ../home",
)
CELLS = (
    "import os, json, urllib.parse\nvalue, odd = os.environ['EVERYWHERE_ONE'], os.environ['EVERYWHERE_ODD']\n"
    "print(value, json.dumps(odd), urllib.parse.quote(odd, safe=''))\nvalue",
    "import os\ndef fail(token):\n    raise ValueError(token)\nfail(os.environ['FOLDER_ONE'])",
)
SAID = f"{ENVIRONMENT['GITHUB_TOKEN']} {ENVIRONMENT['SSH_PASSPHRASE']} {ADDRESSES['DATABASE_URL']}"
"""The text of a model that has read too much."""


def call(tool: str, says: str = "", **arguments: str) -> Behaviour:
    """An answer that calls one tool."""
    return answers(says, [(tool, json.dumps(arguments))])


def shell(command: str, says: str = "") -> Behaviour:
    """An answer that runs a command."""
    return call("execute_bash", says, command=command, security_risk="LOW")


def done(says: str) -> Behaviour:
    """An answer that ends the work."""
    return call("finish", message=f"Done: {says}")


def conversation(says: str, prints: Sequence[str]) -> Iterator[Behaviour]:
    """A model that has everything printed, repeats secrets, and finishes."""
    yield shell(prints[0], says)
    yield from map(shell, prints[1:])
    yield done(says)


def other_tools(says: str) -> Iterator[Behaviour]:
    """A model that does the same by everything but the shell."""
    for code in CELLS:
        yield call("execute_ipython_cell", code=code, security_risk="LOW")
    yield call("echo__environment", text=says)
    yield call("echo__fail")
    yield call("ours__environment")
    yield call("ours__fail")
    yield call("delegate", task=f"Print {SAID}.")
    yield shell(f"echo {MET['delegate']} '{SAID}'; echo \"$EVERYWHERE_ONE\"")  # the delegate's
    yield done(MET["delegate"])
    yield call("recall_conversations", query="secret_hidden")
    yield call("str_replace_editor", command="view", path="{workspace}/.env")
    yield done(says)


async def commands(user: User) -> None:
    """A whole conversation in the shell, with a title and a cassette."""
    prints = list(PRINTS)
    if user.seed:
        random.Random(user.seed).shuffle(prints)  # an order, no secret
    user.server.then(*conversation(SAID, prints))
    kept = await user.use("secrets", "set", "KEPT_NOW", "--stdin", stdin=KEPT["EVERYWHERE_ONE", "everywhere"] + "\n")
    assert kept.status == 0, kept.err
    cassette = str(user.folder / "cassette.json")
    worked = await user.run(f"Use {ENVIRONMENT['AWS_SECRET_ACCESS_KEY']} {TYPED['title']}", "--record", cassette)
    assert "<secret_hidden>" in worked.out
    await user.use("list", "--json")


async def tools(user: User) -> None:
    """A conversation of cells, servers, a delegate, earlier conversations and an editor."""
    user.server.then(*other_tools(SAID))
    await user.run(f"Use {ENVIRONMENT['SLACK_TOKEN']}")


async def exports(user: User) -> None:
    """Every export of Handloom, and its import."""
    for form in FORMATS if user.is_full else SHORT_FORMATS:
        out = str(user.folder / f"export-{form}")
        await user.use("export", user.conversation, "--format", form, "--allow-secrets", "-o", out)
        if user.is_full:
            await user.use("export", user.conversation, "--format", form, "--mask", "-o", f"{out}-redacted")
    if user.is_full:
        await user.use("import", str(user.folder / "export-archive"))


async def lists(user: User) -> None:
    """Commands that print conversations, memory, servers, trust and checks, and those that store input."""
    await user.use("rename", user.conversation, f"About {TYPED['title']} {ENVIRONMENT['HF_TOKEN']}")
    await user.use("memory", "add", f"The token is {TYPED['memory']} or {ENVIRONMENT['NPM_TOKEN']}")
    await user.use("search", ENVIRONMENT["GITHUB_TOKEN"][:30])
    await user.use("doctor", "--json")
    await user.use("show", user.conversation)
    if user.is_full:
        for words in ("list --json", "search secret_hidden", "secrets list --json", "memory list", "trust list"):
            await user.use(*words.split())
        for words in ("permissions list", "agents", "show", "show --json", "trust give --yes", "doctor"):
            await user.use(*words.split())


async def pages(user: User) -> None:
    """The agent's browser on a page that is full of secrets: words, title, form, cookie, address, console, download."""
    hidden = ENVIRONMENT["GITLAB_TOKEN"]
    page = (
        f"<title>Key {MET['page']}</title><h1>{MET['page']} {hidden}</h1><a href='/?token={MET['page']}'>more</a>"
        f"<form><input name=token value='{MET['form']}'><input type=password value='{hidden}'></form>"
        f"<script>document.cookie = 'session={MET['cookie']}'; localStorage.token = '{MET['cookie']}';"
        f"console.log('{MET['page']}'); document.title += document.cookie</script>"
    )
    async with Site().served() as site:
        site.pages |= {"/": page, "/key.txt": f"key {MET['download']} {hidden}"}
        user.server.then(
            call("browser", code=f"goto('{site.url()}?token={MET['page']}')", security_risk="LOW"),
            call("browser", code=f"goto('{site.url('/key.txt')}')", security_risk="LOW"),
            done("seen"),
        )
        await user.run("Look at the page.")


async def editor(user: User) -> None:
    """`handloom acp` with an editor at its pipes: each line that it is sent, and the pieces of texts put together."""
    user.server.then(shell(f'echo "$EVERYWHERE_ONE"; cat .env; echo {SAID!r}', SAID), done(SAID))
    async with raw(user.handloom, "openai/test") as pipes:
        said: dict[str, str] = {}
        lines: list[str] = []
        read = pipes.read

        async def noted() -> dict[str, object]:
            message = await read()
            lines.append(json.dumps(message, ensure_ascii=False))
            update = message.get("params", {}).get("update", {})
            if isinstance(content := update.get("content"), dict):
                kind = update["sessionUpdate"]
                said[kind] = said.get(kind, "") + content.get("text", "")
            return message

        pipes.read = noted  # type: ignore[method-assign]
        await pipes.request("initialize", protocolVersion=1)
        opened = await pipes.request("session/new", cwd=str(user.handloom.workspace), mcpServers=[])
        session = opened["result"]["sessionId"]
        prompt = [{"type": "text", "text": f"Use {TYPED['editor']} and {ENVIRONMENT['SLACK_TOKEN']}"}]
        ended = await pipes.request("session/prompt", sessionId=session, prompt=prompt)
        assert ended["result"]["stopReason"] == "end_turn", ended
        await pipes.request("session/load", sessionId=session, cwd=str(user.handloom.workspace), mcpServers=[])
    user.search.look("lines to the editor", "\n".join(lines).encode())
    user.search.look("texts to the editor", json.dumps(said).encode())
