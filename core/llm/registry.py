"""LLMRegistry: the models of one process, by name and by task. Everybody who needs a model has it from here.

It owns the model host and the cassette that is recorded, if there is one. Settings are handed in with each call,
because they change while it lives. Named as in OpenHands V0 (`openhands/llm/llm_registry.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from core.errors import ConfigurationError, ModelError
from core.llm.call_pipeline import CallPipeline, CallStep
from core.llm.cassette import Scrubber
from core.llm.cassette_recorder import Recorder
from core.llm.factory import DEMO, create_llm
from core.llm.local_servers import find_servers
from core.llm.model_catalogue import KnownModel, models_of, named_models, served_models
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.no_model import AGAIN, WITHOUT
from core.llm.router import Router, helpers_of
from core.llm.settings import LLMSettings, NamedModel
from core.protocols import LLM
from core.secrets import Redactor

log = logging.getLogger(__name__)

Named = Mapping[str, NamedModel]
Task = Literal["chat", "title", "summary", "vision"]


class LLMRegistry:
    """Makes models. Close it after the last of them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """`environ` says which keys and addresses there are; the host runs with Handloom's own."""
        self.host = ModelHost()
        self._environ = environ
        self.redactor: Redactor | None = None
        """What no record may hold; None is what the environment holds."""
        self._facts: Sequence[Sequence[Any]] = ()
        self._recorder: tuple[Path, Recorder] | None = None

    def alone(self, name: str, workspace: str, settings: LLMSettings, models: Named) -> LLM:
        """The model of a name, without others that help it out. Reads files. Raises ConfigurationError."""
        return create_llm(
            name, workspace=workspace, host=self.host, settings=settings, models=models, environ=self._environ
        )

    def chat(self, name: str, workspace: str, settings: LLMSettings, models: Named) -> LLM:
        """The model of a conversation: with its helpers, and recorded where the settings say so.

        Reads files, and makes the one of the record. Raises ConfigurationError.
        """
        make = partial(self.alone, workspace=workspace, settings=settings, models=models)
        if name in (DEMO, AGAIN, WITHOUT):  # they call nobody, and so nobody in their place
            return make(name)
        named = models.get(name)
        chosen, steps = make(name), list[CallStep]()
        helpers = helpers_of(name, named.over(settings) if named is not None else settings, make)
        if helpers.all():
            steps.append(Router(chosen, helpers))
        if settings.record:
            scrubber = Scrubber(workspace, self._environ, self.redactor)
            steps.append(self._recorder_for(settings.record, name).thread(scrubber))
        return CallPipeline(chosen, *steps) if steps else chosen

    async def warm(self, llm: LLM) -> None:
        """Start the model host where a model needs it: it loads for seconds, while the user still writes."""
        if isinstance(llm, CallPipeline):
            llm = llm.model
        if isinstance(llm, HostedLLM):
            await self.host.start()

    async def near_models(self, settings: LLMSettings, models: Named) -> list[KnownModel]:
        """The user's own models and those of this machine's servers. Takes half a second at most."""
        servers = await find_servers() if settings.find_local else []
        tables = await asyncio.to_thread(models_of, self._facts, self._environ)
        return [*named_models(models, tables, self._environ), *served_models(servers)]

    async def known_models(self) -> list[KnownModel]:
        """The models of litellm's tables; none where they cannot be had. Takes seconds while the model host loads."""
        try:
            self._facts = self._facts or await self.host.models()
        except ModelError as error:
            log.warning("what is known of models cannot be had: %s", error)
        return await asyncio.to_thread(models_of, self._facts, self._environ)

    async def aclose(self) -> None:
        """End the model host. May be called twice."""
        await self.host.aclose()

    def _recorder_for(self, file: str, model: str) -> Recorder:
        """The record in this file, made with the first model that is recorded there."""
        path = Path(os.path.abspath(Path(file).expanduser()))
        if self._recorder is None or self._recorder[0] != path:
            self._recorder = (path, Recorder(path, model))
        return self._recorder[1]


def model_for(task: Task, chat: str, settings: LLMSettings) -> str:
    """The name of the model that has a task in a conversation with the model `chat`; empty where none has it."""
    match task:
        case "title":
            return settings.title_model
        case "summary":
            return settings.summary_model or chat
        case "vision":
            return settings.vision_model or chat
        case "chat":
            return chat


def model_of_agent(agent: str, settings: LLMSettings) -> str:
    """The model that an agent of this name works with as a delegate; empty where it has none of its own.

    Raises ConfigurationError for a line that is not AGENT=MODEL.
    """
    for line in settings.agent_models:
        name, equals, model = (part.strip() for part in line.partition("="))
        if not (name and equals and model):
            raise ConfigurationError(f"llm.agent_models: {line!r} is not AGENT=MODEL. Correct it in config.toml.")
        if name == agent:
            return model
    return ""
