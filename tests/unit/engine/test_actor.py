"""The end of an actor, closed by hand."""

from concurrent.futures import Future

import pytest

from arriero.backend.synthetic import SyntheticBackend
from arriero.core.errors import EngineDied
from arriero.core.events import RetainedAction, RetainedReport
from arriero.engine.engine import Engine
from arriero.engine.inbox import TakePicture, Tend
from arriero.kv.reuse import CachePicture


def test_who_asks_no_more_does_not_keep_others_from_hearing_that_the_engine_died() -> None:
    actor = Engine(SyntheticBackend())._build(0)
    gone: Future[CachePicture | None] = Future()
    waiting: Future[RetainedReport] = Future()
    assert gone.cancel()
    assert actor.inbox.post(TakePicture(gone))
    assert actor.inbox.post(Tend(RetainedAction.ERASE, waiting))
    actor.close(0, actor.executor.close(), RuntimeError("out of luck"))
    with pytest.raises(EngineDied, match="out of luck"):
        waiting.result(timeout=0)
