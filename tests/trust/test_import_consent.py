"""Consent for an import: when it is needed, how it is logged, and what is refused before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import ConsentError
from core.events import ConsentAction, EventSource
from core.store.conversations import FORK, IMPORT
from core.store.event_store import EventStore
from core.stream import EventStream
from core.trust.import_consent import ImportConsent
from tests.streams import info_of, opened_stream


async def loaded(stream: EventStream, home: Path, origin: str = IMPORT, origin_of: str = "a.zip") -> ImportConsent:
    async with EventStore(home) as store:
        info = replace(await info_of(store), origin=origin, origin_of=origin_of)
    consent = ImportConsent(stream, info)
    assert not consent.is_needed
    await consent.load()
    return consent


async def test_import_needs_consent_once(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:
        consent = await loaded(stream, tmp_path)
        assert (consent.is_needed, consent.origin) == (True, "a.zip")
        with pytest.raises(ConsentError, match="imported from a"):
            consent.require()
        await consent.give()
        consent.require()
        await consent.give()
        (stored,) = await stream.read()
        assert (stored.event, stored.source) == (ConsentAction(origin="a.zip"), EventSource.USER)
        again = await loaded(stream, tmp_path, origin_of="")
        assert (again.is_needed, again.origin) == (False, "a.zip")


async def test_own_conversation_needs_no_consent(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:
        consent = await loaded(stream, tmp_path, origin=FORK, origin_of="")
        consent.require()
        await consent.give()
        assert (await stream.read(), consent.origin) == ([], "elsewhere")
        await stream.append(ConsentAction(origin="b.zip"), EventSource.USER)
        await stream.append(ConsentAction(origin="", given=False), EventSource.USER)
        consent = await loaded(stream, tmp_path, origin=FORK, origin_of="c.zip")
        assert (consent.is_needed, consent.origin) == (True, "c.zip")
