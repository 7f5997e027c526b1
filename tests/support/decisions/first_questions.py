"""The first questions of processes whose threads ask at once: prints each way in which one has ended.

Run as a module, so that no thread exists before the processes are forked.
"""

import os
import sys
import threading
import traceback

from app import plugins
from app.framework import registry_builder
from app.verbs.questions import question_schema
from app.verbs.questions.shadows import shadowed

PROCESSES, THREADS = 60, 4
QUESTIONS: tuple[tuple[type[question_schema.Question], dict[str, object]], ...] = (
    (question_schema.Simulate, {"gang": {"members": 2, "template": {}}, "situation": {"at": "1"}}),
    (question_schema.Fit, {"gang": {"members": 2, "template": {}}, "situation": {"configuration": {}}}),
    (question_schema.Diff, {"from": {"at": "1"}, "to": {"configuration": {"scoreMax": 3}}}),
    (question_schema.Replay, {"configuration": {"enabled": []}, "mode": "chain", "first": ["node"]}),
    (question_schema.Bisect, {"count": {"count": "a"}, "waiting": {"atLeast": 2}}),
    (shadowed.SetShadow, {"configuration": {"weights": {"a": 1}}}),
)
OVERRIDES = (
    {"op": "addNodes", "count": 1, "labels": {"a": "b"}, "allocatable": {"cpu": "1"}},
    {"op": "cordon", "nodes": ["a"]},
    {"op": "addPods", "like": "a/b", "count": 2},
    {"op": "scaleQuota", "quota": "a/b", "max": {"cpu": "+2"}},
    {"op": "scalePolicy", "policy": "a/b", "allocations": {"host": "+1"}},
    {"op": "scaleGang", "gang": "a/b", "minimum": 2},
)


def ask() -> None:
    """Read questions, and overrides of plugins that they enable."""
    known = plugins.catalog().classes
    enabled = [one.name for one in known]
    configured = registry_builder.build(known, enabled=enabled, weights={}, score_max=10, args={})
    question_schema.overrides(OVERRIDES, configured)
    for kind, document in QUESTIONS:
        question_schema.read(document, kind)


def ask_at_once() -> int:
    """How many of the threads of this process failed."""
    failed: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def first() -> None:
        try:
            start.wait()
            ask()
        except BaseException as error:
            traceback.print_exc()
            failed.append(error)

    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=first) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failed)


def main() -> None:
    """Print the exit codes, each once; that of a process ended by a signal is negative."""
    plugins.catalog()
    ended: set[int] = set()
    for _ in range(PROCESSES):
        child = os.fork()
        if not child:
            code = 1
            try:
                code = ask_at_once()
            finally:
                os._exit(code)
        ended.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(sorted(ended))


if __name__ == "__main__":
    main()
