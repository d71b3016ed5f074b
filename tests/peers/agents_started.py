"""How each agent is started without a terminal, against a scripted model, in a home of its own.

All get the same task: look with a command that fails, change a word in a file, and say so. What differs is which tool
does that, and which variables and settings name the model's server and switch off what would use the network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.peers import installing
from tests.peers.agents_model import Answer, Call
from tests.peers.installing import Peer

PROMPT = "Please correct the word in notes.txt."
FIRST, LAST = "I look at the folder first.", "The word is correct now."
COMMAND, OUTPUT, EXIT_CODE = "ls; exit 3", "notes.txt", 3
FILE, BEFORE, AFTER = "notes.txt", "left", "right"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent runs, and the address of its model."""

    home: Path
    work: Path
    url: str

    @property
    def file(self) -> str:
        return str(self.work / FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One run: its arguments, and what its model answers."""

    arguments: Sequence[str]
    script: Sequence[Answer]
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of files that must be there, by their path in the home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A published agent, and what its sessions have."""

    name: str
    """Of its reader."""
    peer: Peer
    program: str
    model: str
    """As the agent asks the server for it."""
    start: Callable[[Place], Start]
    shown_model: str = ""
    """As the session names it, if that is another name."""
    has_command: bool = True
    """Whether its model can run a command whose output the session has."""
    exit_code: int = EXIT_CODE
    """-1 if the session does not say it."""
    has_edit_tool: bool = True
    has_thoughts: bool = False
    """What the model says with a call is the thought of that action."""
    has_cached_tokens: bool = True
    has_folder: bool = True
    records: frozenset[str] = frozenset()
    """The kinds of records that are known, and that only the event log shows."""


def _claude_code(place: Place) -> Start:
    changed = {"file_path": place.file, "old_string": BEFORE, "new_string": AFTER}
    return Start(
        arguments=["--model", "claude-sonnet-4-5", "--allowedTools=Bash,Read,Edit", "--print", PROMPT],
        environ={
            "ANTHROPIC_BASE_URL": place.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        },
        script=[
            Answer(FIRST, Call("Bash", {"command": COMMAND, "description": "List the folder"})),
            Answer("", Call("Read", {"file_path": place.file})),
            Answer("", Call("Edit", changed)),
            Answer(LAST),
        ],
    )


def _codex(place: Place) -> Start:
    config = f"""
model = "gpt-5.2-codex"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.local]
name = "local"
base_url = "{place.url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
"""
    patch = f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-{BEFORE}\n+{AFTER}\n*** End Patch"
    return Start(
        arguments=["exec", PROMPT],
        environ={"LOCAL_KEY": "none"},
        files={".codex/config.toml": config},
        script=[
            Answer(FIRST, Call("exec_command", {"cmd": COMMAND})),
            Answer("", Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF\n"})),
            Answer(LAST),
        ],
    )


def _mini_swe_agent(place: Place) -> Start:
    return Start(
        arguments=["--yolo", "--exit-immediately", "--model", "openai/gpt-4o", "--task", PROMPT],
        environ={
            **_litellm(place),
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
        },
        script=[
            Answer(FIRST, Call("bash", {"command": COMMAND})),
            Answer("", Call("bash", {"command": f"sed -i s/{BEFORE}/{AFTER}/ {FILE}"})),
            Answer(LAST, Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})),
        ],
    )


def _gemini(place: Place) -> Start:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"name": "gemini-2.5-pro"},
    }
    changed = {"file_path": place.file, "old_string": BEFORE, "new_string": AFTER, "instruction": "Correct the word."}
    return Start(
        arguments=["--approval-mode", "yolo", "--prompt", PROMPT],
        environ={
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": place.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files={".gemini/settings.json": json.dumps(settings)},
        script=[
            Answer(FIRST, Call("run_shell_command", {"command": COMMAND, "description": "List the folder"})),
            Answer("", Call("replace", changed)),
            Answer(LAST),
        ],
    )


def _opencode(place: Place) -> Start:
    limits = {"context": 100_000, "output": 4_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Local",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": "none"},
        "models": {"test": {"name": "Test", "limit": limits}},
    }
    config = {
        "model": "local/test",
        "small_model": "local/test",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"local": provider},
    }
    switches = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH", "SHARE")
    return Start(
        arguments=["run", PROMPT],
        environ={f"OPENCODE_DISABLE_{switch}": "1" for switch in switches},
        files={".config/opencode/opencode.json": json.dumps(config)},
        script=[
            Answer(FIRST, Call("bash", {"command": COMMAND, "description": "List the folder"})),
            Answer("", Call("read", {"filePath": place.file})),
            Answer("", Call("edit", {"filePath": place.file, "oldString": BEFORE, "newString": AFTER})),
            Answer(LAST),
        ],
    )


def _cline(place: Place) -> Start:
    settings = {
        "provider": "openai-compatible",
        "apiKey": "none",
        "model": "claude-sonnet-4",
        "baseUrl": f"{place.url}/v1",
    }
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}}
    changed = {"path": place.file, "old_text": BEFORE, "new_text": AFTER}
    return Start(
        arguments=["--json", "-P", "openai-compatible", "-m", "claude-sonnet-4", PROMPT],
        environ={"CLINE_TELEMETRY_DISABLED": "1", "CLINE_NO_AUTO_UPDATE": "1"},
        files={
            ".cline/data/settings/providers.json": json.dumps(
                {**providers, "providers": {"openai-compatible": provider}}
            )
        },
        script=[
            Answer(FIRST, Call("run_commands", {"commands": [COMMAND]})),
            Answer("", Call("editor", changed)),
            Answer(LAST),
        ],
    )


def _aider(place: Place) -> Start:
    change = f"{FILE}\n```\n<<<<<<< SEARCH\n{BEFORE}\n=======\n{AFTER}\n>>>>>>> REPLACE\n```"
    switches = ["--no-auto-commits", "--no-check-update", "--no-gitignore", "--no-show-model-warnings"]
    switches += ["--no-show-release-notes", "--no-stream", "--analytics-disable", "--yes-always", "--map-tokens", "0"]
    model = ["--model", "openai/gpt-4o", "--weak-model", "openai/gpt-4o-mini", "--edit-format", "diff"]
    return Start(
        arguments=[*switches, *model, "--message", PROMPT, FILE],
        environ=_litellm(place),
        script=[Answer(f"{FIRST}\n\n{change}\n\n{LAST}")],
    )


OPENHANDS_RUN = """
import os, sys
from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool
model = LLM(model="openai/gpt-4o", api_key="none", base_url=os.environ["OPENAI_API_BASE"], usage_id="agent")
agent = Agent(llm=model, tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)])
sessions = os.path.expanduser("~/.openhands/conversations")
conversation = Conversation(agent=agent, workspace=os.getcwd(), persistence_dir=sessions, visualizer=None)
conversation.send_message(sys.argv[1])
conversation.run()
conversation.close()
"""


def _openhands(place: Place) -> Start:
    command = {"command": f"({COMMAND})", "security_risk": "LOW", "summary": "List the folder"}
    changed = {"command": "str_replace", "path": place.file, "old_str": BEFORE, "new_str": AFTER}
    return Start(
        arguments=["-c", OPENHANDS_RUN, PROMPT],
        environ={**_litellm(place), "OPENHANDS_SUPPRESS_BANNER": "1"},
        script=[
            Answer(FIRST, Call("terminal", command)),
            Answer("", Call("file_editor", {**changed, "security_risk": "LOW", "summary": "Correct the word"})),
            Answer(LAST),
        ],
    )


INSPECT_TASK = f"""
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
@task
def notes():
    return Task([Sample(input={PROMPT!r})], solver=[use_tools(bash()), generate()], sandbox="local")
"""


def _inspect(place: Place) -> Start:
    # Inspect wants a relative path.
    return Start(
        arguments=["eval", "../home/notes.py", "--model", "openai/gpt-4o", "--display", "none"],
        environ={"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{place.url}/v1"},
        files={"notes.py": INSPECT_TASK},
        script=[
            Answer(FIRST, Call("bash", {"command": f"cd {place.work}; {COMMAND}"})),
            Answer("", Call("bash", {"command": f"sed -i s/{BEFORE}/{AFTER}/ {place.file}"})),
            Answer(LAST),
        ],
    )


def _litellm(place: Place) -> dict[str, str]:
    """For agents that use this library: where the model is, and that it shall not fetch a list of prices."""
    return {
        "OPENAI_API_KEY": "none",
        "OPENAI_API_BASE": f"{place.url}/v1",
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


AGENTS: Sequence[Agent] = (
    Agent(
        name="claude-code",
        peer=installing.CLAUDE_CODE,
        program="claude",
        model="claude-sonnet-4-5",
        start=_claude_code,
        records=frozenset(
            (
                "attachment.agent_listing_delta",
                "attachment.date",
                "attachment.deferred_tools_delta",
                "attachment.environment",
                "attachment.model",
                "attachment.remote_session_change",
                "attachment.session_context",
                "attachment.skill_listing",
                "attachment.total_tokens_reminder",
                "atis-latch",
                "cost-state",
                "last-prompt",
                "mode",
                "queue-operation",
                "tools-used",
            )
        ),
    ),
    Agent(
        name="codex",
        peer=installing.CODEX,
        program="codex",
        model="gpt-5.2-codex",
        start=_codex,
        records=frozenset(
            (
                "item.message",
                "session_meta",
                "task_complete",
                "task_started",
                "thread_settings_applied",
                "token_usage_record",
                "turn_context",
                "world_state",
            )
        ),
    ),
    Agent(
        name="mini-swe-agent",
        peer=installing.MINI_SWE_AGENT,
        program="mini",
        model="gpt-4o",
        shown_model="openai/gpt-4o",
        start=_mini_swe_agent,
        has_edit_tool=False,
        has_folder=False,
        records=frozenset(("exit", "prompt", "system")),
    ),
    Agent(
        name="gemini",
        peer=installing.GEMINI_CLI,
        program="gemini",
        model="gemini-2.5-pro",
        start=_gemini,
        records=frozenset(("context",)),
    ),
    Agent(
        name="opencode",
        peer=installing.OPENCODE,
        program="opencode",
        model="test",
        start=_opencode,
        records=frozenset(("patch",)),
    ),
    Agent(name="cline", peer=installing.CLINE, program="cline", model="claude-sonnet-4", start=_cline),
    Agent(
        name="aider",
        peer=installing.AIDER,
        program="aider",
        model="gpt-4o",
        shown_model="openai/gpt-4o",
        start=_aider,
        has_command=False,
        has_cached_tokens=False,
        records=frozenset(("output",)),
    ),
    Agent(
        name="openhands",
        peer=installing.OPENHANDS_SDK,
        program="python",
        model="gpt-4o",
        shown_model="openai/gpt-4o",
        start=_openhands,
        has_thoughts=True,
    ),
    Agent(
        name="inspect",
        peer=installing.INSPECT,
        program="inspect",
        model="gpt-4o",
        shown_model="openai/gpt-4o",
        start=_inspect,
        has_edit_tool=False,
        records=frozenset(("sample",)),
    ),
)
