"""Log lines: for people, or one JSON object a line. Prompts and answers are in none of them."""

import json
import logging
import sys
import time
from typing import Final, TextIO

from arriero.core.config import LogFormat, LogLevel

TEXT_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One object a line: `at` (UTC), `level`, `logger`, `message`, then the fields given as `extra={"fields": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "at": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logs(level: LogLevel, log_format: LogFormat, stream: TextIO | None = None) -> None:
    """Send every message of this process to one stream; standard error by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else logging.Formatter(TEXT_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The event loop reports itself at debug, once; nobody asked for that.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if level is not LogLevel.DEBUG:  # both tell every detail of a start at info
        logging.getLogger("arriero.llama_cpp").setLevel(logging.WARNING)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
