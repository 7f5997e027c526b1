"""The extender's process: ``python -m app.wsgi``, which is what ``topolog extender`` becomes."""

import os
import sys
from typing import NoReturn

from app import bootstrap, settings, telemetry
from app.framework import registry
from app.kube import errors as kube_errors
from app.serving import errors as serving_errors
from app.store import errors as store_errors

BAD_SETTINGS, STORE_AWAY, CLUSTER_AWAY = 3, 4, 5
"""Exit codes, those of the ``topolog`` command."""


def main() -> NoReturn:
    """Serve until a signal says otherwise; a mistake in the settings ends it with one sentence."""
    try:
        chosen = settings.load(None, os.environ)
        telemetry.configure(level=chosen.logging.level, form=chosen.logging.format, process="extender")
        bootstrap.serve(chosen)
    except (settings.SettingsRefused, registry.ConfigurationRefused, serving_errors.ServingError) as error:
        telemetry.log.error("cannot start", reason=str(error))
        sys.exit(BAD_SETTINGS)
    except store_errors.StoreError as error:
        telemetry.log.error("cannot start: the store", reason=str(error))
        sys.exit(STORE_AWAY)
    except kube_errors.KubeError as error:
        telemetry.log.error("cannot start: the cluster", reason=str(error))
        sys.exit(CLUSTER_AWAY)


if __name__ == "__main__":
    main()
