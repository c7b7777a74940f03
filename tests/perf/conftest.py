"""Calls are counted while no garbage is collected: of each collection others are told by calls of their own."""

import gc
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True)
def no_collection() -> Generator[None]:
    """Collect before, and not while a test of this folder runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
