"""The settings: from options, the environment, config.toml and defaults, in that order.

`config.toml` is in HANDLOOM_HOME. Any field is also `HANDLOOM__SECTION__FIELD` in the environment; the two most used
are also `HANDLOOM_MODEL` and `HANDLOOM_RUNTIME`. Unknown and invalid settings are refused with their name. Files of the
current folder are never read. API keys are not settings: the model host reads them from its environment.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from core.environment import CONFIG
from core.errors import ConfigurationError
from core.llm.settings import LLMSettings, Models, Names, SettingsSection, split
from core.regular_files import read_text, write_private
from core.secrets import is_secret_name
from core.secrets.command_secrets import is_usable
from core.security.confirmation import ConfirmMode
from core.settings.screen_settings import ScreenSettings
from core.settings.sections import (
    CondenserSettings,
    LibrarySettings,
    MCPSettings,
    MemorySettings,
    SecuritySettings,
    TrustSettings,
)

PREFIX = "HANDLOOM__"
Keys = Annotated[dict[str, Any], BeforeValidator(lambda value: value if isinstance(value, dict) else {})]
"""Not validated here: `tui.shortcuts.keymap` reports and ignores invalid keys, so that Handloom still starts."""
HOST = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$"
Paths = Annotated[tuple[Path, ...], BeforeValidator(split)]


class Origin(StrEnum):
    """Where a setting's value comes from; each overrides those before it."""

    DEFAULT = "default"
    FILE = "config.toml"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class AgentSettings(SettingsSection):
    """The agent and its limits."""

    name: str = "CodeActAgent"
    """The agent of new conversations: CodeActAgent, ReadOnlyAgent, BrowsingAgent, Planner, or one of your own."""
    instructions: str = Field(default="", max_length=16_000)
    """Instructions for each new conversation, besides those of AGENTS.md."""
    request_condensation: bool = False
    """Whether the agent has a tool to condense its own history."""
    llm_editor: bool = False
    """Whether the agent has the tool edit_file: it drafts an edit, and a model writes the new lines from it."""
    draft_model: str = ""
    """The model that writes the lines for edit_file; empty uses the model of the conversation."""
    max_iterations: int = Field(default=500, ge=1)
    """Model calls before it asks to continue."""
    max_budget: float | None = Field(default=None, gt=0)
    """Cost of a conversation in US dollars before it asks to continue."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens before it asks to continue."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds of work before it asks to continue; waiting for you does not count."""
    delegate_model: str = ""
    """The model of delegates; empty uses the model of the conversation that starts them."""
    confirm: ConfirmMode = ConfirmMode.ALWAYS
    """Which actions need your approval in the workspace: always, risky or never."""
    acp_command: str = ""
    """The command that starts an external agent with the Agent Client Protocol, for ACPAgent. It runs as you,
    outside the sandbox, and uses its own model and tools."""
    acp_env: Names = ()
    """The environment variables that this agent gets besides PATH, HOME and the like: those with its own keys."""


class ConversationSettings(SettingsSection):
    """How many conversations are open at once, and for how long."""

    max_concurrent: int = Field(default=64, ge=1)
    """Conversations that are active at once; one more suspends the one that has been idle longest."""
    cleanup_interval_s: float = Field(default=15.0, gt=0)
    """Seconds between two checks for idle conversations that are not shown."""
    close_delay_s: float | None = Field(default=3600.0, ge=0)
    """Seconds after which an idle conversation that is not shown is closed; 0 never closes one."""
    max_age_days: float | None = Field(default=10.0, gt=0)
    """Days without an event after which the palette no longer offers a conversation. The list of sessions has all."""


class DaySettings(SettingsSection):
    """Limits for all conversations together on one day (UTC)."""

    max_iterations: int | None = Field(default=None, ge=1)
    """Model calls."""
    max_budget: float | None = Field(default=None, gt=0)
    """US dollars."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds of work; conversations that work at the same time each count."""


class SandboxSettings(SettingsSection):
    """Isolation of the agent's commands from this machine, and their limits."""

    isolation: Literal["auto", "bubblewrap", "none"] = "auto"
    """Isolation of the local runtime: auto uses bubblewrap if it works, bubblewrap refuses to start without it."""
    allowed_hosts: Names = ()
    """Hosts that isolated commands may access: example.org, *.example.org, example.org:8080, or * for all public
    ones."""
    readable_paths: Paths = ()
    """Folders that isolated commands may read, such as ~/.cargo; the rest of the home folder is hidden."""
    protected_paths: Names | None = None
    """Paths in the workspace that isolated commands may not write, because your programs run them; unset protects
    the known ones, such as .vscode. In .git, hooks and config are always protected."""
    environment: Names = ()
    """Environment variables for commands and cells, as NAME=VALUE, or NAME alone for its value on this machine."""
    max_memory_mb: int | None = Field(default=None, ge=64)
    """Memory of a sandbox in total. Unset is three quarters of the machine's memory if the system supports such a
    limit, else none."""
    max_cpus: float | None = Field(default=None, gt=0)
    """Processors that a sandbox may use."""
    max_processes: int | None = Field(default=1024, ge=16)
    """Processes and threads of an isolated sandbox."""
    max_file_mb: int | None = Field(default=None, ge=1)
    """The largest file that a command may write."""
    min_free_mb: int | None = Field(default=512, ge=1)
    """Free space to keep on the workspace's disk; commands that use more are stopped."""

    checkpoints: bool = True
    """Save a checkpoint of the workspace at each turn, so that changes can be undone; needs git."""
    plugins: Names = ("agent_skills", "browser", "jupyter", "vscode")
    """Plugins of the sandbox beyond shell and files, each started when it is first needed; plugins of other
    packages by their names, too."""
    init_git_in_empty_workspace: bool = False
    """Create a git repository in an empty workspace, if none is cloned into it."""
    git_host: str = Field(default="github.com", pattern=HOST)
    """The host of a repository that --repo names as OWNER/NAME."""
    git_tokens: Names = ()
    """Secrets with tokens of further git hosts, as HOST=NAME. GITHUB_TOKEN, GITLAB_TOKEN and BITBUCKET_TOKEN are
    those of github.com, gitlab.com and bitbucket.org."""
    git_user_name: str = Field(default="", max_length=200)
    """The author of commits in the sandbox, whatever git's settings say; empty leaves it to them."""
    git_user_email: str = Field(default="", max_length=200)
    """The address of that author."""
    run_repository_scripts: Literal["isolated", "always", "never"] = "isolated"
    """Where a repository's .openhands/setup.sh and pre-commit.sh are run: in an isolated runtime only, everywhere (then
    without isolation as you, on your machine), or nowhere."""

    @field_validator("git_tokens")
    @classmethod
    def _name_secrets(cls, tokens: tuple[str, ...]) -> tuple[str, ...]:
        for host, mark, name in (text.partition("=") for text in tokens):
            if not (mark and re.fullmatch(HOST, host) and is_usable(name) and is_secret_name(name)):
                raise ValueError(
                    "write HOST=NAME, such as git.example.org=WORK_TOKEN: the name of a secret, which ends in _TOKEN, "
                    "and not the token itself"
                )
        return tokens

    @property
    def author(self) -> dict[str, str]:
        """Git's variables for the author of commits."""
        given = {"NAME": self.git_user_name, "EMAIL": self.git_user_email}
        return {f"GIT_{who}_{what}": v for who in ("AUTHOR", "COMMITTER") for what, v in given.items() if v}


class RemoteSettings(SettingsSection):
    """An action server on another machine. Its key is never in the settings: see key_env and key_file."""

    url: str = ""
    """Its address, such as https://HOST:8443; http is only allowed for this machine."""
    key_env: str = "HANDLOOM_REMOTE_KEY"
    """The environment variable with its key."""
    key_file: Path | None = None
    """The file with its key, which only you can read; takes precedence over key_env."""
    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""
    working_dir: str = "/workspace"
    """The folder in which commands start, until the server reports it."""
    patience_s: float = Field(default=60.0, ge=0, le=300)
    """Seconds for which a broken connection is retried; less than the ten minutes for which the server waits."""


class DockerSettings(SettingsSection):
    """The runtime docker: one container for each conversation, with the limits and network access of the sandbox."""

    engine: str = ""
    """Address of the container engine, such as unix:///run/docker.sock or ssh://user@host; empty uses DOCKER_HOST,
    else the system's. For an engine on another machine, the workspace is copied there, and back when the
    conversation is closed."""
    image: str = ""
    """Your own image with the action server in it; empty uses the one that `handloom image build` makes."""
    base: str = ""
    """The base image for `handloom image build`; empty uses the official slim Python image."""
    network: str = "none"
    """The network of the container; with none, only sandbox.allowed_hosts can be accessed."""
    extra_hosts: Names = ()
    """Additional host names in the container, as NAME:ADDRESS."""
    environment: Names = ()
    """Environment variables of the whole container, as in sandbox.environment."""
    volumes: Names = ()
    """Additional folders for the container, as FOLDER:PATH, or FOLDER:PATH:ro for read-only ones."""
    gpus: int = Field(default=0, ge=-1)
    """Graphics processors that it may use; -1 for all."""
    spares: int = Field(default=1, ge=0)
    """Containers that are kept ready, so that the next conversation in the same folder starts at once."""
    on_close: Literal["remove", "pause", "run"] = "remove"
    """What happens to the container when the conversation is closed: remove it, pause it for up to a week, or let
    it run for idle_minutes."""
    idle_minutes: float = Field(default=60.0, gt=0)
    """Minutes after which a container without a connected screen stops."""


class SecretSettings(SettingsSection):
    """Redaction of values that look like secrets. Known secrets are always redacted."""

    detect: bool = True
    """Redact keys, tokens and private keys that are recognized by their format."""
    shown_kinds: Names = ()
    """Kinds of values that are shown although they look like secrets, such as "a JSON web token"."""


class Settings(SettingsSection):
    """All settings."""

    model: str = ""
    """The model for new conversations; empty asks."""
    runtime: Literal["local", "docker", "remote"] = "local"
    """Where actions run."""
    agent: AgentSettings = AgentSettings()
    day: DaySettings = DaySettings()
    llm: LLMSettings = LLMSettings()
    models: Models = {}
    """Models under your own names, each in a section [models.NAME]."""
    conversations: ConversationSettings = ConversationSettings()
    condenser: CondenserSettings = CondenserSettings()
    library: LibrarySettings = LibrarySettings()
    memory: MemorySettings = MemorySettings()
    sandbox: SandboxSettings = SandboxSettings()
    docker: DockerSettings = DockerSettings()
    remote: RemoteSettings = RemoteSettings()
    mcp: MCPSettings = MCPSettings()
    secrets: SecretSettings = SecretSettings()
    screen: ScreenSettings = ScreenSettings()
    trust: TrustSettings = TrustSettings()
    security: SecuritySettings = SecuritySettings()
    keys: Keys = {}
    """Your own shortcuts, by the ids of commands; `handloom keys` lists them."""


def load(home: Path, environ: Mapping[str, str], **options: Any) -> Settings:
    """Load the settings from all origins. `options` override the others; None values are ignored.

    Raises ConfigurationError that names the field and the problem.
    """
    merged: dict[str, Any] = {}
    for layer in layers(home, environ, **options).values():
        _merge(merged, layer)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigurationError(
            f"{_error_text(error)} Correct it in {home / 'config.toml'}, in the environment (HANDLOOM__...) or on the "
            f"command line."
        ) from None


def _error_text(error: ValidationError) -> str:
    """Describe the first error, with the value unless it may be a key."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    last = field.rpartition(".")[2]
    if last == "key_env":
        return f"The setting {field} is invalid: {first['msg'].removeprefix('Value error, ')}."
    if is_secret_name(last):
        return (
            f"There is no setting {field}: put the key into an environment variable, and its name into key_env. "
            "Or run handloom secrets adopt, which moves it out of the file and stores it."
        )
    return f"The setting {field} cannot be {first['input']!r}: {first['msg']}."


def layers(home: Path, environ: Mapping[str, str], **options: Any) -> dict[Origin, dict[str, Any]]:
    """Return the raw settings of each origin; later ones override earlier ones. Raises ConfigurationError."""
    from_environment: dict[str, Any] = {}
    for name, value in environ.items():
        if name.startswith(PREFIX):
            _put(from_environment, name[len(PREFIX) :].lower().split("__"), value)
    for field in ("model", "runtime"):
        if environ.get(f"HANDLOOM_{field.upper()}"):
            _put(from_environment, [field], environ[f"HANDLOOM_{field.upper()}"])
    from_options: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None:
            _put(from_options, name.split("__"), value)
    return {
        Origin.FILE: _read_file(home / "config.toml"),
        Origin.ENVIRONMENT: from_environment,
        Origin.COMMAND_LINE: from_options,
    }


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(file))
    except (FileNotFoundError, NotADirectoryError):  # the store reports a wrong home
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}. Correct it or move it away.") from error


def _merge(tree: dict[str, Any], layer: Mapping[str, Any], above: tuple[str, ...] = ()) -> None:
    """Merge the settings of one origin into those of earlier ones. Raises ConfigurationError."""
    for name, value in layer.items():
        if isinstance(value, Mapping) and isinstance(tree.setdefault(name, {}), dict):
            _merge(tree[name], value, (*above, name))
        else:
            _put(tree, [name], value, above)


def _put(tree: dict[str, Any], path: list[str], value: Any, above: tuple[str, ...] = ()) -> None:
    """Set a value. Raises ConfigurationError if one origin has a section and another a value."""
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise ConfigurationError(f"The setting {'.'.join(path)} is in {part}, which is not a section.")
    if path[-1] in tree and isinstance(tree[path[-1]], dict) != isinstance(value, dict):
        raise ConfigurationError(f"The setting {'.'.join((*above, *path))} is both a value and a section.")
    tree[path[-1]] = value


def remember_model(home: Path, name: str, api_base: str = "") -> None:
    """Save the model for new conversations in the user's file. Raises ConfigurationError."""
    save_settings(home, {"model": name} | ({"llm.api_base": api_base} if api_base else {}))


def save_settings(home: Path, values: Mapping[str, Any]) -> None:
    """Save settings by their names, such as `agent.confirm`, in the user's file; None removes one.

    Comments, order and everything else in the file are kept. Raises ConfigurationError if it cannot be written; then it
    is unchanged.
    """
    import tomlkit  # on first use: a start does not need it

    file = home / CONFIG
    try:
        document = tomlkit.parse(read_text(file)) if file.exists() else tomlkit.document()
        for name, value in values.items():
            *sections, field = name.split(".")
            table: Any = document
            for section in sections:
                table = table.setdefault(section, tomlkit.table()) if value is not None else table.get(section, {})
            if value is not None:
                table[field] = value
            elif field in table:
                del table[field]
        write_private(file, tomlkit.dumps(document))
    except (OSError, UnicodeDecodeError, tomlkit.exceptions.ParseError) as error:
        raise ConfigurationError(f"{file} cannot be written: {error}. The change is only temporary.") from error
