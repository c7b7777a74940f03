"""The context that a configuration asks for."""

from dataclasses import replace

import pytest

from arriero.cli.loading_llama import context_options
from arriero.core.config import ServeConfig


@pytest.mark.parametrize("wanted", [True, False])
def test_work_buffers_are_aligned_unless_that_is_left_out(wanted: bool) -> None:  # noqa: FBT001 - a table
    assert context_options(replace(ServeConfig(), align_work=wanted)).align_work is wanted
    assert context_options(ServeConfig()).align_work
