"""The exceptions of Handloom, by whose fault they are, and the exit status of its commands.

    HandloomError
    ├── UsageError               the caller: an option, a path, an id                 exit status 2
    │   ├── ImportRefusedError   a file that cannot be imported; nothing was stored
    │   └── ConsentError         an imported conversation continues only after the user agreed
    ├── ConfigurationError       the configuration: no key, an unknown model, a bad file   exit status 2
    ├── StoreError               the disk or the database
    │   ├── StoreVersionError    written by a newer Handloom
    │   ├── StoreBusyError       another process may use it, and only one at a time can
    │   └── LeaseLostError       another process owns this conversation now
    ├── ModelError               the model or the connection to it (`ModelErrorKind`)
    ├── CheckpointError          git, the disk or the workspace: a checkpoint cannot be taken or restored
    └── RuntimeUnavailableError  the sandbox
        └── OutOfReachError      the sandbox's data, which can be removed once its engine answers

A failure of the agent's own programs is an observation, never an exception. Every message says what to do next.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitStatus(IntEnum):
    """The exit status of a command."""

    FINISHED = 0
    ERROR = 1
    """The agent, the model, the sandbox or the disk failed."""
    USAGE = 2
    """The command line or the configuration is wrong."""
    STUCK = 3
    LIMIT = 4
    INTERRUPTED = 130


class HandloomError(Exception):
    """The root. Its text is meant for the user."""


class UsageError(HandloomError):
    """The caller asked for something that cannot be done."""


class ImportRefusedError(UsageError):
    """A file cannot be imported. The text says which, where, why, and what to do. Nothing was stored."""


class ConsentError(UsageError):
    """The conversation was imported, and the user has not yet agreed that it continues."""


class ConfigurationError(HandloomError):
    """The configuration is incomplete or contradicts itself."""


class StoreError(HandloomError):
    """The database cannot be used, or did not accept an event."""


class StoreVersionError(StoreError):
    """The database was written by a newer version."""


class StoreBusyError(StoreError):
    """Another process has the database open, and this SQLite cannot share it safely."""


class LeaseLostError(StoreError):
    """Another process owns the conversation now; nothing was written."""


class ModelErrorKind(StrEnum):
    """What went wrong with a model, by what can be done about it."""

    AUTHENTICATION = "authentication"
    """The key is missing, wrong or not allowed to do this (401, 403). Never retried."""
    NOT_FOUND = "not_found"
    """No such model or address (404). Never retried."""
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER = "server"
    CONTEXT_WINDOW = "context_window"
    """The conversation no longer fits the model."""
    CONTENT_POLICY = "content_policy"
    BUDGET = "budget"
    """The account has no money left."""
    NO_TOOLS = "no_tools"
    """The model or its provider does not support tools; the call is repeated with tools described in the prompt."""
    BAD_REQUEST = "bad_request"
    BAD_RESPONSE = "bad_response"
    """The answer was invalid: no choices, a broken stream, text that is not JSON."""
    HOST = "host"
    """The model host, our child process, died or did not answer."""
    SCRIPT = "script"
    """A scripted model's expectation was not met, or it has no turns left."""


class ModelError(HandloomError):
    """A model call failed after all retries."""

    def __init__(self, kind: ModelErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class CheckpointError(HandloomError):
    """A checkpoint of the workspace cannot be taken, found or restored."""


class RuntimeUnavailableError(HandloomError):
    """The sandbox cannot be started or reached."""


class OutOfReachError(RuntimeUnavailableError):
    """The sandbox's data cannot be deleted now; it can be left, and is deleted once its engine can be reached."""
