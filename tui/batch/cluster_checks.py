"""`handloom doctor --cluster`: whether a cluster can be used for batches, node by node."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping

from core.batch.batch_options import BatchOptions
from core.batch.ray_engine import NodeFacts, open_cluster, survey
from core.environment import home_folder
from core.errors import ExitStatus
from core.settings.config import load
from tui.batch.node import ENTRY
from tui.cli.output import say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

WIDTH = 400


async def check_cluster(address: str, *, as_json: bool) -> int:
    """Print what each node is, and how the cluster is guarded. Raises ConfigurationError, ClusterError.

    The exit status is 1 if a batch would refuse the cluster.
    """
    settings = await asyncio.to_thread(load, home_folder(os.environ), os.environ)
    batch = BatchOptions(given={}).for_nodes(settings)
    ray = await open_cluster(address, ENTRY)
    try:
        facts = await survey(ray, ENTRY, batch)
    finally:
        await asyncio.to_thread(ray.shutdown)
    wrong = {id: wrong_with(one, batch.version) for id, one in facts.items()}
    guarded = guard_of(os.environ)
    if as_json:
        nodes = [
            {"node": id, "host": one.host, "version": one.version, "isolation": one.isolation, "wrong": wrong[id]}
            for id, one in facts.items()
        ]
        say(json.dumps({"nodes": nodes, "guard": guarded}, ensure_ascii=False))
    else:
        for id, one in facts.items():
            line = wrong[id] or _("Handloom {version}, isolation: {kind}").format(
                version=one.version, kind=one.isolation
            )
            say(sanitize_line(f"{'✕' if wrong[id] else '✓'} {one.host} {id[:6]}: {line}", WIDTH))
        say(f"✓ {guarded}" if guarded else "! " + _OPEN)
    usable = [id for id, one in facts.items() if not wrong[id]]
    broken = [id for id, one in facts.items() if one.error or one.version != batch.version]
    return ExitStatus.ERROR if broken or not usable else ExitStatus.FINISHED


def wrong_with(facts: NodeFacts, own: str) -> str:
    """Why a node cannot be used; empty if it can."""
    if facts.error:
        return _("Handloom does not run there: {error}").format(error=facts.error)
    if facts.version != own:
        return _("it has Handloom {version}, and this machine {own}").format(version=facts.version, own=own)
    return _("it cannot isolate commands: {why}").format(why=facts.why_open) if facts.why_open else ""


def guard_of(environ: Mapping[str, str]) -> str:
    """What keeps others from using the cluster; empty if nothing does."""
    if environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return _("Ray asks for a token.")
    return _("Ray uses TLS.") if environ.get("RAY_USE_TLS", "0").lower() in ("1", "true") else ""


_OPEN = _(
    "Neither TLS nor a token is set: whoever reaches the ports of this cluster can run programs on its machines. Keep "
    "them in a network of your own, or set RAY_USE_TLS or RAY_AUTH_MODE=token."
)
