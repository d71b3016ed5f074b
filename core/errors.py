"""Every error of Handloom, by whose fault it is.

    HandloomError
    ├── UsageError               the caller: an option, a path, an id                 exit status 2
    │   ├── ImportRefusedError   a file that cannot be taken in whole; nothing was stored
    │   └── ConsentError         an imported conversation goes on only after the user said so
    ├── ConfigurationError       the set-up: no key, an unknown model, a bad file     exit status 2
    ├── StoreError               the disk or the database
    │   ├── StoreVersionError    written by a newer Handloom
    │   ├── StoreBusyError       another process may use it, and only one at a time can
    │   └── LeaseLostError       another process owns this conversation now
    ├── ModelError               the model or the way to it (its kinds below)
    ├── CheckpointError          git, the disk or the workspace: a checkpoint cannot be taken or restored
    └── RuntimeUnavailableError  the sandbox
        └── OutOfReachError      what is kept of a sandbox, which can be removed once its engine answers

What the agent's own programs do wrong is an observation, never an exception. Every message says what to do next.
"""

from __future__ import annotations

from enum import StrEnum


class HandloomError(Exception):
    """The root. Its text is meant for the user."""


class UsageError(HandloomError):
    """The caller asked for something that cannot be done."""


class ImportRefusedError(UsageError):
    """A file cannot become a conversation; the text says which, where, why, and what to do. Nothing was stored."""


class ConsentError(UsageError):
    """The conversation came from elsewhere, and the user has not said yet that it may go on."""


class ConfigurationError(HandloomError):
    """The set-up is incomplete or contradicts itself."""


class StoreError(HandloomError):
    """The database cannot be used, or did not take an event."""


class StoreVersionError(StoreError):
    """The database was written by a newer version."""


class StoreBusyError(StoreError):
    """Another process has the database, and this SQLite cannot share it safely."""


class LeaseLostError(StoreError):
    """The conversation belongs to another process now; nothing was written."""


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
    """The model, or the way to it, takes no tools; the call is made again with them in words."""
    BAD_REQUEST = "bad_request"
    BAD_RESPONSE = "bad_response"
    """The model answered nonsense: no choices, a broken stream, text that is no JSON."""
    HOST = "host"
    """The model host, our child process, died or did not answer."""
    SCRIPT = "script"
    """A scripted model's expectation was not met, or its turns are used up."""


class ModelError(HandloomError):
    """A model call failed for good: what could be retried was retried."""

    def __init__(self, kind: ModelErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class CheckpointError(HandloomError):
    """A checkpoint of the workspace cannot be taken, found or restored."""


class RuntimeUnavailableError(HandloomError):
    """The sandbox cannot be started or reached."""


class OutOfReachError(RuntimeUnavailableError):
    """What is to be deleted of a sandbox is out of reach for now; it can be left, and goes once it is in reach."""
