"""Published agents write sessions here, with a scripted model, and Handloom reads them.

Each runs in a new repository and with a new home. What its reader makes of its files is compared with what happened,
and the files must stay as they were. Proxy variables lead all requests nowhere, except those to the scripted model.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core.import_export.agents.names import is_agent_record
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.table import SOURCES
from core.import_export.agents.transcript import JsonObject, Transcript
from tests.batch.test_batch import git
from tests.peers import installing
from tests.peers.agents_model import ANSWER_TOKENS, CACHED_TOKENS, PROMPT_TOKENS, Script, ScriptedModel
from tests.peers.agents_started import (
    AFTER,
    AGENTS,
    BEFORE,
    COMMAND,
    FILE,
    FIRST,
    LAST,
    OUTPUT,
    PROMPT,
    Agent,
    Place,
    Start,
)
from tests.peers.installing import Peer, install

RUN_TIMEOUT_S = 180
LOG = "agent.log"
NOWHERE = "http://127.0.0.1:9"
"""Port 9 throws everything away, if anybody listens there at all."""
WITHOUT_NETWORK = {
    "HTTP_PROXY": NOWHERE,
    "HTTPS_PROXY": NOWHERE,
    "http_proxy": NOWHERE,
    "https_proxy": NOWHERE,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an agent's run left, compared with what happened there."""

    matched: Sequence[str]
    different: Sequence[str]


def main(peers: Sequence[Peer] = installing.AGENTS) -> int:
    """Exit status: 0 every session is read as it happened, 1 one is not, 2 an agent could not be installed."""
    agents = [agent for agent in AGENTS if agent.peer in peers]
    present = [agent for agent in agents if install(agent.peer) is not None]
    return asyncio.run(_compare_all(agents, present))


async def _compare_all(agents: Sequence[Agent], present: Sequence[Agent]) -> int:
    has_differences = False
    for agent in agents:
        if agent not in present:
            print(f"--   {agent.peer.title}: not installed, and so not compared", flush=True)
            continue
        folder = Path(tempfile.mkdtemp(prefix=f"handloom-peers-{agent.name}-"))
        outcome = await compare(agent, folder)
        said = "; ".join(outcome.different) + f" (see {folder})" if outcome.different else ", ".join(outcome.matched)
        print(f"{'BAD' if outcome.different else 'ok '}  {agent.peer.title}: {said}", flush=True)
        has_differences |= bool(outcome.different)
        if not outcome.different:
            shutil.rmtree(folder)
    return 1 if has_differences else 2 if len(present) < len(agents) else 0


async def compare(agent: Agent, folder: Path) -> Outcome:
    """Run an agent that is installed in an empty folder, and compare its session."""
    place = _place(folder, "")
    place.home.mkdir()
    place.work.mkdir()
    git(place.work, "init", "-q")
    (place.work / FILE).write_text(f"{BEFORE}\n")
    git(place.work, "add", "-A")
    git(place.work, "commit", "-qm", "first")
    model = ScriptedModel()
    async with model.serving() as address:
        place = _place(folder, f"{address}/{agent.name}")
        start = agent.start(place)
        model.scripts[agent.name] = Script(agent.model, start.script)
        status = await _run(agent, start, place)
    written = _contents(folder)
    failures = list(_failures(agent, start, place, status, model.answered[agent.name]))
    if failures:
        return Outcome((), failures)
    places = Places(place.home, projects=(place.work,))
    sessions = list(SOURCES[agent.name].discover(places))
    if len(sessions) != 1:
        return Outcome((), [f"{len(sessions)} sessions instead of one were found"])
    transcript = SOURCES[agent.name].read(sessions[0])
    found = dict(compared(agent, place, sessions[0], transcript, len(start.script)))
    found["files unchanged"] = changes(written, _contents(folder))
    return Outcome(
        [what for what, problem in found.items() if not problem],
        [f"{what}: {problem}" for what, problem in found.items() if problem],
    )


def _place(folder: Path, url: str) -> Place:
    return Place(folder / "home", folder / "work", url)


async def _run(agent: Agent, start: Start, place: Place) -> int | None:
    """Start the agent and wait for its end. Returns its exit status; None if it took too long."""
    for path, text in start.files.items():
        file = place.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    programs = agent.peer.programs
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(place.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **WITHOUT_NETWORK,
        **start.environ,
    }
    with (place.home.parent / LOG).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(programs / agent.program),
            *start.arguments,
            cwd=place.work,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(RUN_TIMEOUT_S):
                return await process.wait()
        except TimeoutError:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            _end_left_over(place.home)


def _end_left_over(home: Path) -> None:
    """End the processes that an agent left in the background: they have its home, which nobody else has."""
    setting = b"HOME=" + os.fsencode(home)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if setting in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _failures(agent: Agent, start: Start, place: Place, status: int | None, answered: int) -> Iterator[str]:
    """What went wrong in the run itself, so that there is nothing to compare."""
    if status != 0:
        last = (place.home.parent / LOG).read_text(errors="replace").strip().splitlines()[-1:]
        yield f"it ended with status {status}: {''.join(last)[:200]}"
    if answered != len(start.script):
        yield f"it asked the model {answered} times instead of {len(start.script)}"
    if (place.work / FILE).read_text() != f"{AFTER}\n":
        yield f"it did not change {FILE}"


def compared(
    agent: Agent, place: Place, session: AgentSession, transcript: Transcript, answers: int
) -> Iterator[tuple[str, str]]:
    """Each thing that happened, with how the transcript differs; empty if it does not."""
    forms = transcript.forms
    by_user = [form["args"]["content"] for form in forms if _is_message(form, "user")]
    yield "prompt", "" if len(by_user) == 1 and PROMPT in by_user[0] else f"the user's messages are {by_user}"
    by_agent = [form["args"]["content"] for form in forms if _is_message(form, "agent")]
    if agent.has_thoughts:
        by_agent = [form["args"].get("thought", "") for form in forms if "action" in form] + by_agent
    said = "\n".join(by_agent)
    is_once = said.count(FIRST) == said.count(LAST) == 1
    yield "sentences", "" if is_once and said.index(FIRST) < said.index(LAST) else f"they are {by_agent}"
    if agent.has_command:
        yield "command", _different_command(agent, forms)
    if agent.has_edit_tool:
        yield "edit", _different_edit(forms, place)
    usage = transcript.usage
    tokens = (usage.prompt, usage.cache_read, usage.completion)
    each = (PROMPT_TOKENS, CACHED_TOKENS if agent.has_cached_tokens else 0, ANSWER_TOKENS)
    expected = tuple(number * answers for number in each)
    yield "tokens", "" if tokens == expected else f"{tokens} instead of {expected}"
    models, model = (session.model, transcript.model), agent.shown_model or agent.model
    yield "model", "" if models == (model, model) else f"{models} instead of {model}"
    if agent.has_folder:
        folders = (session.folder, transcript.folder)
        yield "folder", "" if folders == (str(place.work),) * 2 else f"{folders}"
    unknown = {form["observation"] for form in forms if is_agent_record(form.get("observation", ""))}
    unknown -= {f"{agent.name}.{record}" for record in agent.records}
    yield "records", ", ".join([*transcript.warnings, *(f"{record} is unknown" for record in sorted(unknown))])


def _is_message(form: JsonObject, source: str) -> bool:
    return form.get("action") == "message" and form["source"] == source


def _different_command(agent: Agent, forms: Sequence[JsonObject]) -> str:
    commands = [form for form in forms if form.get("action") == "run" and COMMAND in form["args"]["command"]]
    if len(commands) != 1:
        return f"it is there {len(commands)} times"
    results = [form for form in forms if form.get("cause") == commands[0]["id"]]
    if [form["observation"] for form in results] != ["run"]:
        return f"its results are {results}"
    code = results[0]["extras"]["metadata"]["exit_code"]
    if code != agent.exit_code or OUTPUT not in results[0]["content"]:
        return f"its exit code is {code}, and its output {results[0]['content']!r}"
    return ""


def _different_edit(forms: Sequence[JsonObject], place: Place) -> str:
    edits = [form for form in forms if form.get("action") == "edit"]
    if len(edits) != 1:
        return f"there are {len(edits)} edits"
    path = edits[0]["args"]["path"]
    if path not in (FILE, place.file):
        return f"its path is {path}"
    results = [form for form in forms if form.get("cause") == edits[0]["id"]]
    if [form["observation"] for form in results] != ["edit"]:
        return f"its results are {results}"
    lines = (results[0]["extras"]["diff"] or "").splitlines()
    return "" if f"-{BEFORE}" in lines and f"+{AFTER}" in lines else f"its diff is {lines}"


def _contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """The names of the files that are not as they were."""
    return ", ".join(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))
