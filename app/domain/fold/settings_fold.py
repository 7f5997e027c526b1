"""Folds the events by which operators and processes set something: flags, configurations and shadows."""

import immutables

from app.domain import events, model

MOST_CONFIGURATIONS = 32
"""Configurations that a snapshot holds; of more, the latest."""

SettingEvent = events.FlagSet | events.ConfigurationApplied | events.ShadowSet | events.ShadowGone


class SettingsFold:
    """A fold in progress."""

    def __init__(
        self,
        flags: "immutables.Map[str, model.Flag]",
        configurations: tuple[model.Configuration, ...],
        shadows: "immutables.Map[str, model.Shadow]",
    ) -> None:
        self.flags = flags
        self.configurations = configurations
        self.shadows = shadows

    def apply(self, event: SettingEvent) -> None:
        """Apply one event."""
        match event:
            case events.FlagSet(flag=flag):
                self.flags = self.flags.set(flag.name, flag)
            case events.ConfigurationApplied(configuration=applied):
                self.configurations = _with(self.configurations, applied)
            case events.ShadowSet(shadow=shadow):
                self.shadows = self.shadows.set(shadow.name, shadow)
            case events.ShadowGone(name=name):
                if name in self.shadows:
                    self.shadows = self.shadows.delete(name)


def _with(
    held: tuple[model.Configuration, ...], applied: model.Configuration
) -> tuple[model.Configuration, ...]:
    """The configurations with one more, without the oldest of more than MOST_CONFIGURATIONS."""
    if any(one.digest == applied.digest for one in held):
        return held
    return (*held, applied)[-MOST_CONFIGURATIONS:]
