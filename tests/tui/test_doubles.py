"""The doubles have the signatures of their originals: names, parameters, defaults, and what is awaited."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache

import pytest

from core.approval.approval import Approval
from core.approval.network_access import NetworkAccess
from core.controller.state import State
from core.conversations.conversation_manager import ConversationManager
from core.delegation.delegation import Delegation
from core.llm.registry import ModelOffer
from core.mcp.supervisor import Supervisor
from core.memory.memory import Memory
from core.planning.planning_mode import PlanningMode
from core.protocols import Runtime
from core.sandbox.leftovers import Leftovers
from core.secrets.provider_keys import ProviderKeys
from core.security.guard import Guard
from core.session.active_model import ActiveModel
from core.session.agent_session import AgentSession
from core.session.conversation_record import ConversationRecord
from core.session.suspend import Suspension
from core.settings.config import Settings
from core.store.conversations import ConversationListing
from core.store.event_store import EventStore
from core.stream import EventStream
from core.trust.import_consent import ImportConsent
from core.user_control.user_actions import UserShell
from core.user_control.user_browser import UserBrowser
from core.user_control.user_control import UserControl, UserTerminal
from tests.tui import doubles

PAIRS: dict[type, tuple[type, ...]] = {
    doubles.StateDouble: (State,),
    doubles.StreamDouble: (EventStream,),
    doubles.UserTerminalDouble: (UserTerminal,),
    doubles.MemoryDouble: (Memory,),
    doubles.ConsentDouble: (ImportConsent,),
    doubles.GuardDouble: (Guard,),
    doubles.UserControlDouble: (UserControl,),
    doubles.SettingsDouble: (Settings,),
    doubles.ApprovalDouble: (Approval,),
    doubles.UserBrowserDouble: (UserBrowser,),
    doubles.PlanningDouble: (PlanningMode,),
    doubles.NetworkDouble: (NetworkAccess,),
    doubles.SessionDouble: (AgentSession, Runtime, ConversationRecord, Leftovers),
    doubles.ActiveModelDouble: (ActiveModel,),
    doubles.SuspensionDouble: (Suspension,),
    doubles.DelegationDouble: (Delegation,),
    doubles.UserShellDouble: (UserShell,),
    doubles.OfferDouble: (ModelOffer,),
    doubles.StoreDouble: (EventStore, ConversationListing),
    doubles.ServersDouble: (Supervisor,),
    doubles.KeysDouble: (ProviderKeys,),
    doubles.ManagerDouble: (ConversationManager,),
}
"""Each double with its originals: if there are several, a name must belong to one of them."""
OF_TESTS: dict[type, set[str]] = {
    doubles.StreamDouble: {"append_by_agent", "blobs", "events", "listeners", "reads", "store"},
    doubles.UserTerminalDouble: {"sizes", "typed"},
    doubles.ApprovalDouble: {"kept"},
    doubles.UserBrowserDouble: {"hidden"},
    doubles.GuardDouble: {"judgement"},
    doubles.SessionDouble: {
        *(
            "become",
            "editor_address",
            "fails_with",
            "hold",
            "left",
            "listening",
            "pages",
            "publish",
            "run",
            "running",
            "say",
            "used",
            "watchers",
        ),
        *("wished", "wishes"),
    },
    doubles.KeysDouble: {"added", "checked", "offered", "refusal", "wanted"},
    doubles.ServersDouble: {"offered", "said", "servers", "tell"},
    doubles.ManagerDouble: {
        *(
            "add",
            "book",
            "catalogue",
            "chosen",
            "closed",
            "deleted",
            "environ",
            "fails_with",
            "forked",
            "home",
            "is_closed",
            "isolation",
        ),
        *("models", "near", "user_inputs", "sessions", "viewed"),
    },
}
"""Names that only the doubles have, to control them and to read calls."""


@cache
def names_of(cls: type) -> set[str]:
    """Public attributes of a class and its instances: defined, annotated, or assigned to `self`."""
    found = {name for name in dir(cls) if not hasattr(object, name)}
    for base in cls.__mro__:
        found |= inspect.get_annotations(base).keys() | set(_assigned(base))
    return {name for name in found if not name.startswith("_")}


def _assigned(cls: type) -> Iterator[str]:
    """The names that the methods of a class assign to their `self`."""
    if cls.__module__ in ("builtins", "typing", "abc"):
        return
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def shape(cls: type, name: str) -> str:
    """How an attribute is used: as a value, or as a function with these parameters that is awaited or not."""
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if not inspect.isfunction(found):
        return "a value"
    parameters = [
        f"{parameter.kind.name} {parameter.name}{_default(parameter)}"
        for parameter in list(inspect.signature(found).parameters.values())[1:]
    ]
    way = "await" if inspect.iscoroutinefunction(found) else "call"
    if inspect.isasyncgenfunction(found) or str(found.__annotations__.get("return")).startswith("AsyncGenerator["):
        way = "async for"
    return f"{way} ({', '.join(parameters)})"


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return ""
    return " = a function" if inspect.isfunction(parameter.default) else f" = {parameter.default!r}"


@pytest.mark.parametrize("double", PAIRS, ids=lambda double: double.__name__)
def test_double_has_the_shape_of_its_original(double: type) -> None:
    wrong = []
    for name in sorted(names_of(double) - OF_TESTS.get(double, set())):
        having = [real for real in PAIRS[double] if name in names_of(real)]
        shapes = {shape(real, name) for real in having}
        if not having:
            wrong.append(f"{name}: there is no such thing")
        elif shape(double, name) not in shapes:
            wrong.append(f"{name}: {shape(double, name)}, and really {' or '.join(shapes)}")
    assert wrong == []


@pytest.mark.parametrize("double", PAIRS, ids=lambda double: double.__name__)
def test_names_for_tests_exist_only_in_the_double(double: type) -> None:
    own = OF_TESTS.get(double, set())
    assert own - names_of(double) == set()
    assert {name for name in own for real in PAIRS[double] if name in names_of(real)} == set()


def test_every_double_is_compared() -> None:
    found = {cls for name, cls in vars(doubles).items() if inspect.isclass(cls) and cls.__module__ == doubles.__name__}
    assert found == set(PAIRS)
