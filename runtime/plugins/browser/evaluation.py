"""Evaluation mode: a `browsergym/*` environment instead of our own browser, with goal and rewards as in V0.

It runs in a separate Python environment (`evaluation_driver.py`) and is supervised like the worker that it replaces.
The agent's actions are the same. `GET_EVAL_GOAL` and `GET_EVAL_REWARDS`, each alone in a `browse_interactive`, are
answered with the goal and with a JSON list of the rewards so far, one for each step.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.events import BrowserOutputObservation
from runtime.plugins.browser import observation_text

ENVIRONMENT = "SANDBOX_BROWSERGYM_EVAL_ENV"
"""Names the environment, as V0's setting sandbox.browsergym_eval_env, such as `browsergym/miniwob.click-test`."""
PYTHON = "HANDLOOM_BROWSERGYM_PYTHON"
"""Names the Python interpreter that has browsergym."""
SEED = "HANDLOOM_BROWSERGYM_SEED"
START_TIMEOUT_S = 200.0
"""V0's value: some environments set up whole sites."""
Trigger = Literal["browse", "browse_interactive"]
_BROWSERS = ("/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class EvaluationError(Exception):
    """The environment cannot be used; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The settings of an evaluation."""

    environment: str
    python: str
    seed: int | None = None

    def command(self) -> list[str]:
        """Return the command that replaces our worker. Raises EvaluationError."""
        program = shutil.which(self.python) if self.python else None
        if program is None:
            what = f"{PYTHON} names no program: {self.python!r}" if self.python else f"{PYTHON} is not set"
            raise EvaluationError(
                f"{self.environment} needs browsergym in a Python environment of its own, and {what}. Make one with "
                "`python3 -m venv FOLDER && FOLDER/bin/pip install browsergym-core browsergym-miniwob miniwob`, "
                f"and set {PYTHON}=FOLDER/bin/python"
            )
        driver = Path(__file__).with_name("evaluation_driver.py")
        options = ["--environment", self.environment]
        if browser := next(filter(None, map(shutil.which, _BROWSERS)), None):
            options += ["--browser", browser]
        if self.seed is not None:
            options += ["--seed", str(self.seed)]
        return [program, "-P", str(driver), *options]


def asked_for(environ: Mapping[str, str]) -> Evaluation | None:
    """Read the environment variables; None if they name no environment. Raises EvaluationError."""
    name = environ.get(ENVIRONMENT, "").strip()
    if not name:
        return None
    seed = environ.get(SEED, "").strip()
    if seed and not seed.isdecimal():
        raise EvaluationError(f"{SEED} must be a whole number, not {seed!r}")
    whole = name if name.startswith("browsergym/") else f"browsergym/{name}"
    return Evaluation(whole, environ.get(PYTHON, "").strip(), int(seed) if seed else None)


async def observation(answer: dict[str, Any], trigger: Trigger) -> BrowserOutputObservation:
    """Convert the driver's answer to the observation that our own browser would give."""
    if "fields" not in answer:
        return BrowserOutputObservation(url="", trigger_by_action=trigger, **answer)
    fields = answer["fields"]
    url, error = fields["url"], fields["last_browser_action_error"]
    if trigger == "browse":
        content = observation_text.after_browsing(
            url, error, await asyncio.to_thread(observation_text.of_html, answer["html"])
        )
    else:
        focused, path = fields["focused_element_bid"], fields["screenshot_path"]
        content = observation_text.after_interacting(url, error, answer["tree"], focused=focused, screenshot_path=path)
    return BrowserOutputObservation(content=content, trigger_by_action=trigger, error=bool(error), **fields)
