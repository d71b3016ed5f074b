"""A process that runs one `browsergym/*` environment and answers JSON lines. Runs where browsergym is installed.

browsergym pins its dependencies, so it has its own Python environment. This file imports nothing of Handloom and uses
the worker's protocol: first `ready` or `failed`, then an answer by `id` for each `step`, until standard input ends. The
environment is set up as in OpenHands V0 (`openhands/runtime/browser/browser_env.py`), including its two special actions
for goal and rewards. It is synchronous: a step that has begun is finished, even if nobody reads its answer.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import importlib.util
import io
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

GET_GOAL = "GET_EVAL_GOAL"
GET_REWARDS = "GET_EVAL_REWARDS"
BENCHMARKS = ("visualwebarena", "webarena", "miniwob")
"""In the order in which V0 searches the environment's name for them."""
INSTALL = "browsergym-core browsergym-miniwob miniwob"


class Evaluation:
    """One environment after its reset, with the rewards so far."""

    def __init__(self, name: str, seed: int | None) -> None:
        import gymnasium

        register(name)
        self._env = gymnasium.make(name, tags_to_mark="all", timeout=100000)
        first, _ = self._env.reset(seed=seed)
        goals = list(first["goal_object"])
        self.goal: str = goals[0]["text"] if goals else first["goal"]
        self.goal_images = [_address(part["image_url"]) for part in goals if part["type"] == "image_url"]
        self.rewards: list[float] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one action and return the goal, the rewards, or the page after it."""
        action = request.get("calls") or f'goto("{request["url"]}")'
        if action == GET_GOAL:
            return {"content": self.goal, "goal_image_urls": self.goal_images}
        if action == GET_REWARDS:
            return {"content": json.dumps(self.rewards)}
        observed, reward, _, _, _ = self._env.step(action)
        self.rewards.append(float(reward))
        return self._page(observed, bool(request["return_axtree"]))

    def _page(self, observed: dict[str, Any], with_tree: bool) -> dict[str, Any]:
        from browsergym.utils.obs import flatten_axtree_to_str, flatten_dom_to_str, overlay_som

        tree, known = observed["axtree_object"], observed["extra_element_properties"]
        picture = _png(observed["screenshot"])
        fields = {
            "url": observed["url"],
            "screenshot": _as_url(picture),
            "screenshot_path": self._keep(picture),
            "set_of_marks": _as_url(_png(overlay_som(observed["screenshot"], known))),
            "open_pages_urls": list(observed["open_pages_urls"]),
            "active_page_index": observed["active_page_index"].item(),
            "last_browser_action": observed["last_action"],
            "last_browser_action_error": observed["last_action_error"],
            "focused_element_bid": observed["focused_element_bid"] or "",
        }
        if with_tree:
            fields |= {"axtree_object": tree, "extra_element_properties": known}
        text = flatten_axtree_to_str(tree, extra_properties=known, with_clickable=True, skip_generic=False)
        return {"fields": fields, "tree": text, "html": flatten_dom_to_str(observed["dom_object"])}

    def _keep(self, picture: bytes) -> str | None:
        """Save the screenshot in the folder of our own browser. Returns None if it cannot be written."""
        if not (directory := os.environ.get("HANDLOOM_PICTURES")):
            return None
        folder = Path(directory)
        path = folder / f"screenshot_{datetime.now():%Y%m%d_%H%M%S_%f}.png"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as written:
                written.write(picture)
        except OSError:
            return None
        return str(path)

    def close(self) -> None:
        self._env.close()


def register(name: str) -> None:
    """Register the environments of this benchmark with gymnasium. Raises ValueError, ImportError."""
    benchmark = next((known for known in BENCHMARKS if known in name), None)
    if benchmark is None:
        raise ValueError(f"Unsupported browsergym eval env: {name}")
    if benchmark == "miniwob" and "MINIWOB_URL" not in os.environ:
        pages = importlib.util.find_spec("miniwob")
        if pages is not None and pages.origin is not None:
            os.environ["MINIWOB_URL"] = (Path(pages.origin).parent / "html/miniwob").as_uri() + "/"
    importlib.import_module(f"browsergym.{benchmark}")


def use_browser(program: str) -> None:
    """Make playwright launch this program instead of its own browser."""
    from playwright.sync_api import BrowserType

    launch = BrowserType.launch

    def launch_program(self: BrowserType, **options: Any) -> Any:
        return launch(self, **{"executable_path": program, **options})

    BrowserType.launch = launch_program  # type: ignore[method-assign]


def _address(image: Any) -> str:
    return str(image["url"] if isinstance(image, dict) else image)


def _png(pixels: Any) -> bytes:
    from PIL import Image

    output = io.BytesIO()
    Image.fromarray(pixels).save(output, format="PNG")
    return output.getvalue()


def _as_url(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def main() -> int:
    """Serve one environment until standard input ends. Exit status 1: it could not be created."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--environment", required=True)
    parser.add_argument("--browser", default="")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    try:
        if options.browser:
            use_browser(options.browser)
        evaluation = Evaluation(options.environment, options.seed)
    except ImportError as error:
        send({"failed": f"{sys.executable} lacks what {options.environment} needs: {error}. Install {INSTALL} there"})
        return 1
    except Exception as error:  # noqa: BLE001  # boundary to third-party code; it is reported and the process ends
        send({"failed": f"{options.environment} cannot be created: {type(error).__name__}: {error}"})
        return 1
    send({"ready": {"environment": options.environment}})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["do"] == "step":
            send({"id": request["id"], "evaluated": evaluation.answer(request)})
    evaluation.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
