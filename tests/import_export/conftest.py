"""The open store of the tests of the store."""

from tests.store.conftest import store

__all__ = ["store"]
