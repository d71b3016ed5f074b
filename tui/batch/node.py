"""What Ray runs on a node of a cluster for a batch. Both functions block."""

from __future__ import annotations

import asyncio
import os
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.batch.batch_options import BatchOptions
from core.batch.ray_engine import Entry, NodeFacts
from core.batch.ray_node import Node, NodeResult
from core.batch.tasks import BatchTask
from core.conversations.conversation_manager import ConversationManager
from core.environment import home_folder
from core.settings.config import Settings
from tui.cli.run import command_manager
from tui.runtime_factory import isolation_of


def carry_out(batch: BatchOptions, task: BatchTask, number: int, hub: Any) -> NodeResult:
    """Carry out one attempt on this node."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    return asyncio.run(Node(batch, hub, _manager, node).carry_out(task, number))


def describe(batch: BatchOptions) -> NodeFacts:
    """What this node is. Raises ConfigurationError."""
    from runtime.isolation.confinement import Confinement

    home = home_folder(os.environ)
    settings = batch.settings(home)
    isolation = isolation_of(settings.sandbox, home)
    is_local = settings.runtime == "local"
    why = Confinement(Path.home(), isolation).why_open if is_local else ""
    return NodeFacts(socket.gethostname(), version("handloom"), isolation.kind if is_local else settings.runtime, why)


def _manager(home: Path, settings: Settings) -> ConversationManager:
    return command_manager(home, settings)


ENTRY = Entry("handloom.node.set_path", carry_out, describe)
