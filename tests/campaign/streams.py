"""Answers of models that break off: recorded streams of three providers, cut at every byte, by a reset or a plain end.

A stream that was cut before its provider said that the answer is finished is a failed call of a kind that says so. One
that was cut after that may fail too; where it is an answer, it is the whole one.
"""

from __future__ import annotations

import asyncio
import json
import os

from core.errors import ModelError, ModelErrorKind
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.settings import LLMSettings
from core.protocols import LLMRequest, LLMResponse
from tests.campaign.trial import Facts, Result, check, run_trials
from tests.llm.shapes import ARGUMENTS, OPENAI, SHAPES, TEXT, ProviderServer, Shape
from tests.openai_server import cuts, sends

PROMISE = "no tool call and no text is taken for an answer before its provider has said that it is finished"
SHORT = 101
"""Every so manieth byte; a campaign takes every one."""
CHUNK = 400
KINDS = (ModelErrorKind.CONNECTION, ModelErrorKind.BAD_RESPONSE, ModelErrorKind.SERVER)
WAYS = ("reset", "plain end")

Case = tuple[int, int, tuple[int, ...]]
"""A seed, which shape, and where it is cut."""


def run(every: int, seed: int) -> Result:
    """Cut at every so manieth byte, from one on that the seed chooses."""
    cases: list[Case] = []
    for number, shape in enumerate(SHAPES):
        places = range(seed % every, len(shape.data) + 1, every)
        cases += [(seed, number, tuple(places[at : at + CHUNK])) for at in range(0, len(places), CHUNK)]
    weighed = run_trials("streams", PROMISE, trial, cases, seed=seed)
    return Result(**{**vars(weighed), "trials": sum(len(WAYS) * len(places) for _, _, places in cases)})


def trial(case: Case) -> Facts:
    """One provider's stream, cut at these places."""
    return asyncio.run(_trial(SHAPES[case[1]], case[2]))


async def _trial(shape: Shape, places: tuple[int, ...]) -> Facts:
    facts = Facts()
    host = ModelHost({"PATH": os.environ["PATH"], "HOME": "/nonexistent", shape.variable: "key-0123456789"})
    try:
        async with ProviderServer() as server:
            base = f"{server.url}/v1" if shape is OPENAI else server.url
            llm = HostedLLM(host, shape.model, LLMSettings(num_retries=1, api_base=base))
            for at_byte in places:
                for way in WAYS:
                    server.behave = cuts(at_byte, shape.events) if way == "reset" else sends(shape.data[:at_byte])
                    outcome = await _ask(llm)
                    check_outcome(shape, at_byte, outcome)
                    name = "whole answers" if isinstance(outcome, LLMResponse) else f"failed: {outcome}"
                    facts.counts[f"{shape.model}, {way}: {name}"] += 1
    finally:
        await host.aclose()
    return facts


async def _ask(llm: HostedLLM) -> LLMResponse | ModelErrorKind:
    try:
        return await llm.complete(LLMRequest([{"role": "user", "content": "hi"}]), lambda frame: None, 1)
    except ModelError as error:
        return error.kind


def check_outcome(shape: Shape, at_byte: int, outcome: LLMResponse | ModelErrorKind) -> None:
    """Raise Violation unless this is a possible result for a stream of this length."""
    where = f"{shape.model} cut at byte {at_byte}"
    if not isinstance(outcome, LLMResponse):
        check(outcome in KINDS, f"{where}: a failure of kind {outcome}")
        return
    # Without the empty line behind it, the event that finishes may be read all the same.
    check(at_byte >= shape.finished_at - 4, f"{where}: an answer before it was finished")
    check(outcome.text == TEXT, f"{where}: half a text, {outcome.text!r}")
    calls = [json.loads(call.arguments) for call in outcome.tool_calls]
    check(calls == [json.loads(ARGUMENTS)], f"{where}: the calls {calls}")
