"""Configures logging; called once by each process after its settings are loaded."""

import atexit
import logging
import os
import sys
import time
from collections.abc import MutableMapping
from typing import Any

from app import optional_modules

with optional_modules.hidden("rich"):
    import structlog

from app.telemetry import repeated_lines, secret_texts

log: structlog.stdlib.BoundLogger = structlog.get_logger("topolog")
"""Logger of all lines except those of calls."""

_repeats = repeated_lines.RepeatFilter(
    lambda level, event, count, common: getattr(log, level)(event, **common, repeated=count)
)
close = _repeats.stop
"""Writes the counts of repeated lines, and ends the thread that does."""
atexit.register(close)


class _StandardError:
    """What sys.stderr is when a line is written: a stream that replaced it for a while may be closed."""

    def write(self, text: str) -> None:
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class Format:
    """The format of this process's lines, including those of calls."""

    console = False
    calls = True
    """Whether calls are logged (level info)."""
    process = ""


line_format = Format()


def configure(*, level: str = "info", form: str = "auto", process: str = "") -> None:
    """Set up logging: ``level`` and ``form`` as in settings.Logging; ``process`` is a field of each line.

    Lines of libraries have the same format; only their warnings and errors are written, unless the level
    is debug.
    """
    line_format.console = form == "console" or (form == "auto" and sys.stderr.isatty())
    line_format.calls = level in ("debug", "info")
    line_format.process = process
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        _timed,
        structlog.stdlib.ExtraAdder(),
        _named,
        # Also on a terminal: a traceback rendered later would bypass the removal of secrets.
        structlog.processors.format_exc_info,
        without_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            _repeats,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(_StandardError())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _ordered, _renderer()],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number if level == "debug" else max(number, logging.WARNING))
    for name in ("topolog", "app", "workers", "migrations"):
        logging.getLogger(name).setLevel(number)


_second = (0, "")


def now() -> str:
    """The wall clock as RFC 3339 with milliseconds; the part up to the second is cached."""
    global _second
    present = time.time()
    whole = int(present)
    at, text = _second
    if at != whole:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        _second = (whole, text)
    return f"{text}.{int((present - whole) * 1000):03d}Z"


def without_secrets(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide values whose key names a secret, and passwords in URLs."""
    for key, value in event.items():
        if secret_texts.is_secret(key):
            event[key] = secret_texts.HIDDEN
        else:
            event[key] = _hidden(value)
    return event


def _hidden(value: object) -> object:
    match value:
        case str():
            return secret_texts.hidden(value)
        case list() | tuple():
            return [_hidden(one) for one in value]
        case dict():
            return {
                key: secret_texts.HIDDEN if secret_texts.is_secret(str(key)) else _hidden(one)
                for key, one in value.items()
            }
        case BaseException():
            return secret_texts.hidden(repr(value))
    return value


def _ordered(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Order the fields as in the lines of calls."""
    first = {key: event[key] for key in ("time", "level", "event") if key in event}
    return {**first, **event}


def _timed(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["time"] = now()
    return event


def _named(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if line_format.process:
        event["process"] = line_format.process
    return event


def _renderer() -> structlog.typing.Processor:
    if line_format.console:
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
    # As the lines of calls, so that one pattern finds both.
    return structlog.processors.JSONRenderer(sort_keys=False, separators=(",", ":"))
