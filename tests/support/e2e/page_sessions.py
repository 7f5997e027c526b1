"""The folder, programs and environment in which the commands of a page run beside a cluster."""

import pathlib
import shutil

from tests.support import console_sessions, how_to_pages
from tests.support.e2e import clusters

DEPLOY = how_to_pages.ROOT / "deploy"
HOME = "topolog-system"


def opened(
    folder: pathlib.Path, cluster: clusters.Cluster, binary: pathlib.Path, **environ: str
) -> console_sessions.Session:
    """A folder with the files of a checkout, kubectl with its plugin, and the kubeconfig of an admin.

    A kubelet for processes serves no logs: `kubectl logs` shows its files.
    """
    home = folder / "home"
    (home / ".kube").mkdir(parents=True)
    shutil.copy(cluster.kubeconfig(), home / ".kube" / "config")
    made = console_sessions.Session(
        folder, HOME=str(home), BROWSER="true", **{"XDG_STATE_HOME": str(folder / "state"), **environ}
    )
    made.environ.pop("KUBECONFIG", None)
    logs = cluster.folder / f"pods-{HOME}"
    made.add(
        "kubectl",
        f"""case " $* " in
*" port-forward "*) exit 0 ;;
*" logs deployment/"*) for last; do :; done; exec cat {logs}/"${{last#deployment/}}"-*.log ;;
esac
exec {binary} kubectl "$@" """,
    )
    made.add("kubectl-topolog", 'exec topolog "$@"')
    shutil.copytree(DEPLOY, made.work / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    return made
