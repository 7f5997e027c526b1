"""The kube-schedulers that are known: their configurations, and what the log shows of their calls."""

import dataclasses
from collections.abc import Collection
from typing import Final

from app.doctor import api_reader
from app.doctor.scheduler import configurations, entry_checks, log_evidence, scheduler_pods

ABSENT: Final = "no pod runs one"
NAMED: Final = (
    "topolog doctor scheduler, with its configuration as --file, or the URL of its secure port as --configz"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What the checks of configurations are made on."""

    pairs: tuple[tuple[configurations.SchedulerConfiguration, scheduler_pods.Scheduler | None], ...]
    """Configurations, and the scheduler that reads each; None for one that was given."""
    expected: entry_checks.Expected
    schedulers: tuple[scheduler_pods.Scheduler, ...]
    log: log_evidence.LogEvidence | api_reader.Unseen | None
    """None if it was not to be read."""

    def calling(self) -> list[tuple[configurations.SchedulerConfiguration, scheduler_pods.Scheduler | None]]:
        """The configurations with an entry for the extender."""
        return [pair for pair in self.pairs if entry_checks.ours(pair[0], self.expected.hosts)]

    def facts(self) -> log_evidence.LogEvidence:
        """What the log shows; nothing if it was not read."""
        return self.log if isinstance(self.log, log_evidence.LogEvidence) else log_evidence.LogEvidence()

    def nevertheless(self) -> dict[str, log_evidence.LogEvidence]:
        """The schedulers that call although no entry of theirs was read, and their calls."""
        known = {one.name for configuration, _ in self.calling() for one in configuration.profiles}
        facts = self.facts()
        found = {
            name: facts.of((name,), self._started((name,))) for name in facts.names() if name not in known
        }
        return {name: log for name, log in found.items() if log.calls}

    def concerning(self, configuration: configurations.SchedulerConfiguration) -> log_evidence.LogEvidence:
        """What the log shows of the schedulers of a configuration, since the last of them was started."""
        names = [one.name for one in configuration.profiles]
        if configuration.form == configurations.LIVE:
            # It is in force: only later calls could contradict it.
            since = configuration.started
            return self.facts().of(names, since) if since else log_evidence.LogEvidence()
        return self.facts().of(names, self._started(names))

    def unread(self, names: Collection[str]) -> api_reader.Unseen | None:
        """Why it is not known whether the schedulers of these names call; None if it is known.

        A configuration that was given counts as that of the scheduler whose own was not read.
        """
        closed = [one.unseen for one in self.schedulers if one.configuration is None]
        given = any(scheduler is None for _, scheduler in self.pairs)
        read = {one.name for configuration, _ in self.pairs for one in configuration.profiles}
        others = sorted({*names} - read)
        if not others or given or (self.pairs and not closed):
            return None
        reason = closed[0] if closed else ABSENT
        return api_reader.Unseen(f"whether {', '.join(others)} calls is not known: {reason}", self.reading())

    def _started(self, names: Collection[str]) -> float:
        """When the last of the schedulers that may have these names was started; 0 if none is seen."""
        return max(
            (
                one.started
                for one in self.schedulers
                if one.configuration is None or any(each.name in names for each in one.configuration.profiles)
            ),
            default=0.0,
        )

    def reading(self) -> str:
        """How a configuration that was not read is read."""
        return next((reading(one) for one in self.schedulers if one.configuration is None), NAMED)


def reading(one: scheduler_pods.Scheduler) -> str:
    """How the configuration of a scheduler is read that was not."""
    return one.fix or (
        f"on node {one.node}: topolog doctor scheduler --file {one.file}; or from here:"
        f" {scheduler_pods.forward(one)}"
    )
