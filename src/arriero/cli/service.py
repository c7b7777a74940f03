"""From a configuration to the service that HTTP offers."""

from collections.abc import Callable, Sequence
from functools import partial

from arriero import __version__
from arriero.cli.loading import LoadedModel, Store, no_reuse
from arriero.core.config import ServeConfig
from arriero.core.config_rules import public_view
from arriero.engine.engine import Engine
from arriero.http.exposition import MetricsPage, PageOptions
from arriero.http.metrics import Metrics
from arriero.http.request_log import RequestLog
from arriero.http.service import HttpOptions, Service, unix_now


def make_service(
    config: ServeConfig,
    loaded: LoadedModel,
    engine: Engine,
    metrics: Metrics,
    request_log: RequestLog | None,
    stop: Callable[[], None],
) -> Service:
    """Put together what the endpoints need.

    Args:
        config: what holds.
        loaded: the model.
        engine: on it.
        metrics: its observer.
        request_log: told every request, or None.
        stop: what `POST /shutdown` calls.
    """
    return Service(
        engine=engine,
        vocabulary=loaded.vocabulary,
        template=loaded.template,
        model_id=loaded.name,
        created=unix_now(),
        aliases=_aliases(config, loaded),
        options=HttpOptions(
            api_keys=config.api_key,
            max_body_bytes=config.max_body_size,
            max_prompt_tokens=config.max_prompt_tokens,
            strict_fields=config.strict_fields,
            diagnostics=config.diagnostics is not None,
            allow_shutdown=config.allow_shutdown,
            cache_scope=config.cache_scope,
            queue_timeout_ms=None if config.queue_timeout is None else max(1, round(config.queue_timeout * 1000)),
        ),
        metrics=metrics,
        page=MetricsPage(metrics, _page_options(config, loaded, engine)),
        request_log=request_log,
        config=public_view(config),
        stop=stop,
        policy=config.policy,
        no_reuse=no_reuse(config, loaded.backend.reuse_support),
        flush=None if config.cache_dir is None or loaded.store is None else partial(_flush, loaded.store),
    )


def _flush(store: Store) -> None:
    store.flush()


def _aliases(config: ServeConfig, loaded: LoadedModel) -> Sequence[str]:
    """The reference as it was given is accepted too, unless it tells where files lie."""
    return () if config.model == loaded.name or "/" in config.model else (config.model,)


def _page_options(config: ServeConfig, loaded: LoadedModel, engine: Engine) -> PageOptions:
    return PageOptions(
        model=loaded.name,
        info={
            "version": __version__,
            "llama_cpp": loaded.library,
            "model": loaded.name,
            "kv_layout": config.kv.value,
        },
        settings={"arriero_prefill_budget_rows": config.prefill_rows_per_step or 0},
        gauges={**_gauges(loaded, engine), "arriero_threads": _threads(config, engine)},
    )


def _gauges(loaded: LoadedModel, engine: Engine) -> dict[str, tuple[str, Callable[[], float]]]:
    gauges: dict[str, tuple[str, Callable[[], float]]] = {
        "arriero_backlog_requests": ("Requests that have not started.", lambda: engine.door.waiting),
        "arriero_backlog_tokens": ("Prompt tokens of these.", lambda: engine.door.waiting_tokens),
    }
    store = loaded.store
    if store is not None:
        gauges["arriero_host_bytes"] = ("Memory of runs kept outside the context.", lambda: store.num_bytes)
    return gauges


def _threads(config: ServeConfig, engine: Engine) -> tuple[str, Callable[[], float]]:
    """Those that compute now, as far as they follow the machine."""

    def read() -> float:
        threads = config.threads if engine.cost is None else engine.cost.threads
        return 0 if threads is None else max(threads.decode, threads.prefill)

    return "The most threads that compute now.", read
