"""How log lines look and where they go; called once by each process, after its settings are read."""

import atexit
import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from app.telemetry import repeats

_SECRET = re.compile(r"pass(word)?$|pwd|secret|token|authorization|credential|private", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=//)[^\s'\"]+(?=@)|[^\s'\"]*:[^\s'\"]+(?=@)|(?<=password=)[^&\s]+", re.IGNORECASE)
"""Up to the last @ of a word: what stands before it may be a password with / and @ in it."""
_HIDDEN = "(hidden)"

log: structlog.stdlib.BoundLogger = structlog.get_logger("topolog")
"""For everything but the lines of calls."""

_repeats = repeats.Repeats(lambda level, event, count: getattr(log, level)(event, repeated=count))
atexit.register(_repeats.flush)


class Shape:
    """How this process writes; the lines of calls follow it too."""

    console = False
    calls = True
    """Whether the line of each call is written (level info)."""
    process = ""


shape = Shape()


def configure(*, level: str = "info", form: str = "auto", process: str = "") -> None:
    """Set up logging: ``level`` and ``form`` as in settings.Logging; ``process`` stands in each line.

    Lines of libraries take the same shape; of theirs only warnings and worse are written, unless
    the level is debug.
    """
    shape.console = form == "console" or (form == "auto" and sys.stderr.isatty())
    shape.calls = level in ("debug", "info")
    shape.process = process
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.stdlib.ExtraAdder(),
        _named,
        # On a terminal, too: a traceback that is rendered later would be shown with its secrets.
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
    handler = logging.StreamHandler(sys.stderr)
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


def without_secrets(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide what has the name of a secret, and the passwords of URLs."""
    for key, value in event.items():
        if _SECRET.search(key):
            event[key] = _HIDDEN
        else:
            event[key] = _hidden(value)
    return event


def _hidden(value: object) -> object:
    match value:
        case str():
            return _IN_URL.sub(_HIDDEN, value)
        case list() | tuple():
            return [_hidden(one) for one in value]
        case dict():
            return {key: _HIDDEN if _SECRET.search(str(key)) else _hidden(one) for key, one in value.items()}
        case BaseException():
            return _IN_URL.sub(_HIDDEN, repr(value))
    return value


def _ordered(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Every line begins as those of calls do."""
    first = {key: event[key] for key in ("time", "level", "event") if key in event}
    return {**first, **event}


def _named(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if shape.process:
        event["process"] = shape.process
    return event


def _renderer() -> structlog.typing.Processor:
    if shape.console:
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.JSONRenderer(sort_keys=False)
