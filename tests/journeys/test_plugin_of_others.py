"""A plugin of another package: installed, enabled in the settings, used, shown and stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import FINISH, write_script
from tests.program import ROOT, Handloom

SAMPLE = ROOT / "tests" / "sample_plugin"
SCRIPT: list[dict[str, Any]] = [
    {"tool_calls": [{"name": "tell_time", "arguments": {"zone": "Europe/Berlin"}}]},
    {"expect": "T..:..:", "tool_calls": [{"name": "tell_time", "arguments": {"zone": "Nowhere"}}]},
    {"expect": "There is no time zone 'Nowhere'", **FINISH},
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed, from its own pyproject.toml."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", folder, SAMPLE], check=True)
    return folder


def handloom_with(site: Path, folder: Path, plugins: str) -> Handloom:
    return Handloom(
        folder,
        PYTHONPATH=f"{ROOT}{os.pathsep}{site}",
        HANDLOOM__SANDBOX__PLUGINS=plugins,
        HANDLOOM__SANDBOX__READABLE_PATHS=str(site),  # a sandbox has a /tmp of its own
    )


def test_tool_of_the_plugin_is_offered_run_and_its_events_kept(site: Path, tmp_path: Path) -> None:
    handloom = handloom_with(site, tmp_path, "clock")
    done = handloom("run", "what time is it?", "--model", write_script(tmp_path, SCRIPT), "--json")
    assert done.status == 0, done.err
    system = next(event for event in done.events if event.get("action") == "system")
    assert "tell_time" in [tool["function"]["name"] for tool in system["args"]["tools"]]
    (time,) = [event for event in done.events if event.get("observation") == "time"]
    assert time["extras"] == {"zone": "Europe/Berlin"}
    shown = handloom("show", done.conversation)
    assert shown.status == 0, shown.err


def test_action_of_the_plugin_waits_for_approval(site: Path, tmp_path: Path) -> None:
    handloom = handloom_with(site, tmp_path, "clock")
    model = write_script(tmp_path, [SCRIPT[0], {"expect": "No user is available to confirm", **FINISH}])
    done = handloom("run", "?", "--model", model, "--json", "--confirm", "always")
    assert done.status == 0, done.err
    (asked,) = [event for event in done.events if event.get("action") == "tell_time"]
    assert "confirmation_state" not in asked["args"]
    assert [event for event in done.events if event.get("observation") == "time"] == []


def test_agent_of_the_plugin_has_its_prompt_and_tools(site: Path, tmp_path: Path) -> None:
    handloom = handloom_with(site, tmp_path, "clock")
    listed = handloom("agents")
    assert "ClockKeeper  Tells the time.  (of the package handloom-clock)" in listed.lines
    model = write_script(tmp_path, SCRIPT)
    done = handloom("run", "what time is it?", "--model", model, "--agent", "ClockKeeper", "--json")
    assert done.status == 0, done.err
    system = next(event for event in done.events if event.get("action") == "system")
    assert system["args"]["content"] == "You keep the clock. Tell the time, and nothing else."
    assert [tool["function"]["name"] for tool in system["args"]["tools"]] == ["tell_time", "finish"]
    assert [event for event in done.events if event.get("observation") == "time"]


def test_events_of_a_missing_plugin_are_kept_and_shown(site: Path, tmp_path: Path) -> None:
    done = handloom_with(site, tmp_path, "clock")("run", "?", "--model", write_script(tmp_path, SCRIPT), "--json")
    exported = handloom_with(site, tmp_path, "").export(done.conversation)
    assert [event for event in exported if event.get("observation") == "time"]


def test_events_are_shown_as_the_plugin_defines(site: Path) -> None:
    program = (
        "from core.plugin_requirements import required\n"
        "from tui.chat.event_text import call_title, result_of, use_cards\n"
        "use_cards(required(['clock']))\n"
        "from handloom_clock.events import TellTimeAction, TimeObservation\n"
        "print(call_title(TellTimeAction(zone='Asia/Tokyo')))\n"
        "print(result_of(TimeObservation(zone='Asia/Tokyo', content='09:00')).text)\n"
    )
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    said = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["clock Asia/Tokyo", "Asia/Tokyo: 09:00"]


def test_missing_plugin_is_reported_with_advice(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path, HANDLOOM__SANDBOX__PLUGINS="clock")
    done = handloom("run", "?", "--model", write_script(tmp_path, SCRIPT), "--json")
    assert done.status == 2
    assert "no plugin is called 'clock'; known: " in done.err
    assert "Correct sandbox.plugins" in done.err
