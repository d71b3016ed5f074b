"""Environments of BrowserGym as the tasks of a batch, such as MiniWoB: `browsergym/miniwob.*`.

The browser plugin runs the environment in the place of its own browser. What the agent is told is the environment's
goal, and its rewards decide whether the task is done, as in OpenHands V0's evaluations.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from core.batch.tasks import BatchTask
from core.errors import RuntimeUnavailableError, UsageError
from core.events import BrowseInteractiveAction, BrowserOutputObservation, Frame
from core.session.agent_session import AgentSession

PREFIX = "browsergym/"
ENVIRONMENT, SEED, PYTHON = "SANDBOX_BROWSERGYM_EVAL_ENV", "HANDLOOM_BROWSERGYM_SEED", "HANDLOOM_BROWSERGYM_PYTHON"
"""The variables of the browser plugin."""
BENCHMARKS = ("miniwob", "webarena", "visualwebarena")
GOAL, REWARDS = "GET_EVAL_GOAL", "GET_EVAL_REWARDS"
LIST_S = 120.0
TASK = "{goal}\n\nThe page is open in the browser. Work in the browser only, and finish when the task is done."
_LIST = """
import importlib, json, sys
importlib.import_module("browsergym." + sys.argv[1])
import gymnasium
print(json.dumps([name for name in gymnasium.registry if name.startswith("browsergym/")]))
"""


def is_pattern(text: str) -> bool:
    """Whether this names environments, and not a file of tasks."""
    return text.startswith(PREFIX) and not Path(text).exists()


def tasks_of(pattern: str, environ: Mapping[str, str]) -> list[BatchTask]:
    """One task for each environment whose name matches. Starts a program. Raises UsageError."""
    benchmark = next((one for one in BENCHMARKS if pattern.removeprefix(PREFIX).startswith(one)), None)
    if benchmark is None:
        raise UsageError(f"{pattern} names no environments. They begin with {PREFIX} and {', '.join(BENCHMARKS)}.")
    python = shutil.which(environ.get(PYTHON, ""))
    if python is None:
        raise UsageError(f"Set {PYTHON} to the Python that has BrowserGym; the manual says how to make one.")
    try:
        done = subprocess.run(
            [python, "-P", "-c", _LIST, benchmark], capture_output=True, text=True, timeout=LIST_S, check=False
        )
        names = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        names = None
    if names is None:
        raise UsageError(f"{python} cannot list the environments of {benchmark}. Install browsergym-{benchmark} in it.")
    found = [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise UsageError(f"No environment is named {pattern}. {len(names)} begin with {PREFIX}{benchmark}.")
    return [BatchTask(name.removeprefix(PREFIX), environment=name) for name in sorted(found)]


async def begin(session: AgentSession, task: BatchTask) -> str:
    """Start the environment in the session's sandbox. Returns what the agent is told. Raises as `_ask`."""
    await session.runtime.set_environment({ENVIRONMENT: task.environment, SEED: task.seed or "0"})
    await session.user_control.prepare()
    return TASK.format(goal=await _ask(session, GOAL))


async def rewards(session: AgentSession) -> Sequence[float]:
    """The reward of each step so far. Raises as `_ask`."""
    return tuple(map(float, json.loads(await _ask(session, REWARDS))))


async def _ask(session: AgentSession, question: str) -> str:
    """Ask the environment, which does not change by it. Raises RuntimeUnavailableError."""
    action = BrowseInteractiveAction(browser_actions=question)
    answer = await session.runtime.execute(action, session.stream.latest_id, _ignore)
    if not isinstance(answer, BrowserOutputObservation):
        raise RuntimeUnavailableError(f"The environment does not answer: {getattr(answer, 'content', answer)}"[:500])
    return answer.content


def _ignore(frame: Frame) -> None:
    return None
