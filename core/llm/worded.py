"""Models without tools, made to have some: what the model itself cannot, `calls_in_text` says in words.

WordedLLM goes around a model. It asks as if the model had tools, until that, its provider or what is known of it says
that it has none; from then on calls are written in words, and the user is told once. So a conversation may move between
models of both kinds: what is stored of it is the same.
"""

from __future__ import annotations

from dataclasses import replace

from core.errors import ModelError, ModelErrorKind
from core.events import Frame, Status, TokenDelta
from core.llm.calls_in_text import OPENING, calls_of, in_words
from core.notices import NO_TOOLS
from core.ports import LLM, FrameSink, LLMRequest, LLMResponse

TOOLS_STATUS = "STATUS$TOOLS_IN_TEXT"


class WordedLLM:
    """A model that can call tools, one way or the other. Implements core.ports.LLM."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._in_words = False

    @property
    def name(self) -> str:
        return self._llm.name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """As the model's own `complete`; the text of a call is not shown while it comes in."""
        if not self._in_words:
            try:
                return await self._llm.complete(request, on_frame, cause)
            except ModelError as error:
                if error.kind is not ModelErrorKind.NO_TOOLS:
                    raise
            self._in_words = True
            on_frame(Status("info", TOOLS_STATUS, NO_TOOLS.format(model=self.name)))
        response = await self._llm.complete(in_words(request), _Curtain(on_frame), cause)
        return calls_of(response, request.tools)

    async def aclose(self) -> None:
        await self._llm.aclose()


class _Curtain:
    """A frame sink that lets the words of an answer through until its call begins."""

    def __init__(self, on_frame: FrameSink) -> None:
        self._on_frame = on_frame
        self._held = ""
        """The end of the text, where it may become the beginning of a call."""
        self._is_down = False

    def __call__(self, frame: Frame) -> None:
        if not isinstance(frame, TokenDelta) or frame.channel != "answer":
            self._on_frame(frame)
            return
        if self._is_down:
            return
        text = self._held + frame.text
        begins = text.find(OPENING)
        self._is_down = begins >= 0
        ends = begins if self._is_down else len(text) - _beginning(text)
        self._held = text[ends:]
        if ends:
            self._on_frame(replace(frame, text=text[:ends]))


def _beginning(text: str) -> int:
    """How many characters at the end of the text may be the beginning of a call."""
    longest = min(len(text), len(OPENING) - 1)
    return next((n for n in range(longest, 0, -1) if OPENING.startswith(text[-n:])), 0)
