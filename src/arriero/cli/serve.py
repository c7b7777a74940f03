"""`arriero serve`: reads the settings and asks the system for what it needs; `serving.py` does the rest."""

import logging
import os
from collections.abc import Sequence
from importlib import import_module

from arriero.cli.listen import check_files, reserve
from arriero.cli.logs import set_up_logs
from arriero.cli.sources import add_options, configure, make_parser, misspelled

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal, `POST /shutdown` or the death of the engine; the exit status."""
    parser = make_parser("serve", "Serve a model over HTTP. Every flag is also a variable, ARRIERO_CTX_SIZE and so on.")
    add_options(parser)
    config = configure(parser.parse_args(arguments), os.environ)
    set_up_logs(config.log_level, config.log_format)
    for line in misspelled(os.environ):
        logger.warning("%s", line)
    if config.allow_shutdown and not config.shutdown_allowed:
        logger.warning("--allow-shutdown: without --diagnostics there is no POST /shutdown; add --diagnostics FILE")
    check_files(config)
    with reserve(config.host, config.port) as reserved:
        status: int = import_module("arriero.cli.serving").serve(config, reserved)
    return status
