"""What the settings of a server become at its endpoints."""

from collections.abc import Iterator

import pytest

from arriero.cli.loading import LoadedModel, engine_options, load_model
from arriero.cli.service import make_service
from arriero.core.config import BackendKind, PolicyWord, ServeConfig
from arriero.core.config_rules import resolve
from arriero.engine.engine import Engine
from arriero.http.metrics import Metrics
from arriero.http.service import Service
from arriero.scheduler.backlog import BacklogLimits


@pytest.fixture(scope="module")
def loaded() -> Iterator[LoadedModel]:
    model = load_model(ServeConfig(backend=BackendKind.SYNTHETIC))
    yield model
    model.close()


def service_for(loaded: LoadedModel, **settings: object) -> Service:
    config = resolve({"backend": BackendKind.SYNTHETIC, **settings})
    engine = Engine(loaded.backend, engine_options(config, loaded.backend))
    return make_service(config, loaded, engine, Metrics(), None, lambda: None)


def test_limits_reach_the_door(loaded: LoadedModel) -> None:
    service = service_for(
        loaded, backlog=5, backlog_tokens=900, api_key=("k",), key_requests=2, key_tokens=300
    )  # fmt: skip
    assert service.engine.places.limits == BacklogLimits(
        sequences=8, waiting=5, waiting_tokens=900, tenant_requests=2, tenant_tokens=300
    )
    assert service.options.queue_timeout_ms is None


@pytest.mark.parametrize(("seconds", "milliseconds"), [(2.5, 2500), (0.0001, 1)])
def test_a_queue_timeout_is_kept_in_milliseconds(loaded: LoadedModel, seconds: float, milliseconds: int) -> None:
    assert service_for(loaded, queue_timeout=seconds).options.queue_timeout_ms == milliseconds


def test_the_policy_is_known_to_whoever_foresees(loaded: LoadedModel) -> None:
    assert service_for(loaded).policy == PolicyWord.FCFS
    assert service_for(loaded, policy=PolicyWord.DEADLINE.value).policy == PolicyWord.DEADLINE


def test_the_page_of_metrics_shows_the_door(loaded: LoadedModel) -> None:
    service = service_for(loaded)
    assert service.page is not None
    place = service.engine.enter(tokens=7)
    page = service.page.render()
    assert b"arriero_backlog_requests 1.0" in page
    assert b"arriero_backlog_tokens 7.0" in page
    place.leave()
    assert b"arriero_backlog_tokens 0.0" in service.page.render()
