"""The diagrams of the documentation; ``make docs`` draws them, a test keeps them current."""

from collections.abc import Mapping

from tests.project.diagrams import Arrow, Box, Picture

PROCESSES = Picture(
    title="The processes of Topolog and what they exchange",
    description=(
        "kube-scheduler and operators call the extender; operators also call the view. The recorder "
        "writes facts of the API server to the store, the extender writes placements. The extender, "
        "the controller and the view read snapshots of the log. The compactor moves old entries to "
        "the archive, and the auditor compares the store with the log and the API server."
    ),
    width=900,
    height=520,
    boxes=(
        Box("outside", "operators", 20, 20, 190, 60, "topolog, dashboard"),
        Box("outside", "kube-scheduler", 230, 20, 170, 60, "places the pods"),
        Box("outside", "API server", 420, 20, 460, 60, "pods, nodes, policies"),
        Box("process", "view", 20, 180, 120, 60, "optional"),
        Box("process", "extender", 160, 180, 320, 60, "several replicas"),
        Box("process", "controller", 500, 180, 180, 60, "one leads"),
        Box("process", "recorder", 700, 180, 180, 60, "one leads"),
        Box(
            "store",
            "the store: Redis or Valkey",
            20,
            320,
            860,
            64,
            "log, counts, checkpoints, decisions",
        ),
        Box("process", "compactor", 20, 440, 160, 60, "archives and trims"),
        Box("outside", "archive", 300, 440, 120, 60),
        Box("process", "auditor", 500, 440, 180, 60, "compares, repairs"),
        Box("outside", "report", 760, 440, 120, 60),
    ),
    arrows=(
        Arrow("operators", "view", 80, "REST\n(mTLS)", before=True),
        Arrow("operators", "extender", 185),
        Arrow("kube-scheduler", "extender", 250, "filter, prioritize,\nbind, preempt\n(mTLS)"),
        Arrow("extender", "API server", 450, "Bindings", before=True),
        Arrow("controller", "API server", 520, "conditions, Events,\nstatuses"),
        Arrow("API server", "recorder", 720, "list, watch"),
        Arrow("the store: Redis or Valkey", "view", 40, "snapshots"),
        Arrow("the store: Redis or Valkey", "extender", 190, "snapshots"),
        Arrow("extender", "the store: Redis or Valkey", 370, "placements"),
        Arrow("the store: Redis or Valkey", "controller", 520, "snapshots"),
        Arrow("controller", "the store: Redis or Valkey", 610, "releases"),
        Arrow("recorder", "the store: Redis or Valkey", 720, "facts"),
        Arrow("the store: Redis or Valkey", "compactor", 100),
        Arrow("compactor", "archive", 470, "segments"),
        Arrow("the store: Redis or Valkey", "auditor", 590),
        Arrow("auditor", "report", 470),
    ),
)

POD = Picture(
    title="The way of one pod from filter to Binding",
    description=(
        "kube-scheduler calls the extender three times. For filter, the extender reads the new "
        "entries of the log from the store, and replies with the nodes that fit, or with reasons. For "
        "prioritize, it replies with a score for each node. For bind, it first appends the placement "
        "to the log, which the store does only if the ceilings of all counts hold, then creates the "
        "Binding at the API server, and replies. The recorder adds what the API server shows: the pod "
        "is bound."
    ),
    width=900,
    height=480,
    boxes=(
        Box("outside", "kube-scheduler", 20, 20, 150, 440),
        Box("process", "extender", 400, 20, 150, 440),
        Box("store", "store", 730, 20, 150, 280, "log and counts"),
        Box("outside", "API server", 730, 370, 150, 90),
    ),
    arrows=(
        Arrow("kube-scheduler", "extender", 90, "1. filter: pod, nodes"),
        Arrow("store", "extender", 110, "new entries of the log"),
        Arrow("extender", "kube-scheduler", 130, "nodes that fit, or reasons"),
        Arrow("kube-scheduler", "extender", 180, "2. prioritize"),
        Arrow("extender", "kube-scheduler", 220, "a score for each node"),
        Arrow("kube-scheduler", "extender", 270, "3. bind: pod, node"),
        Arrow("extender", "store", 270, "4. placement,\nif the ceilings hold"),
        Arrow("extender", "API server", 400, "5. Binding"),
        Arrow("API server", "store", 750, "6. recorder:\nit is bound"),
        Arrow("extender", "kube-scheduler", 430, "bound, or the reason"),
    ),
)

CERTIFICATES = Picture(
    title="Who shows which certificate, and who trusts it",
    description=(
        "One CA, in the Secret topolog-ca, signs all certificates of Topolog, and every side trusts "
        "its ca.crt. kube-scheduler, viewers and operators show a client certificate of their role to "
        "extender and view, which show topolog-tls. The processes show a password to the bundled "
        "store, which with TLS shows topolog-valkey-tls. Outside of this CA, the processes show the "
        "token of their service account to the API server, whose certificate is of the cluster's own "
        "CA."
    ),
    width=900,
    height=510,
    boxes=(
        Box("frame", "topolog-ca signs these certificates, and every side trusts it", 20, 20, 860, 380),
        Box("outside", "kube-scheduler", 40, 60, 230, 60, "topolog-scheduler-tls"),
        Box("outside", "viewers", 40, 140, 230, 60, "topolog-viewer-tls"),
        Box("outside", "operators", 40, 220, 230, 60, "topolog-operator-tls"),
        Box("process", "extender, view", 630, 60, 230, 220, "topolog-tls"),
        Box("process", "processes", 40, 320, 230, 60, "a password for each"),
        Box("store", "bundled store", 630, 320, 230, 60, "topolog-valkey-tls"),
        Box("process", "service accounts", 40, 430, 230, 60, "a token for each process"),
        Box("outside", "API server", 630, 430, 230, 60, "the cluster's own CA"),
    ),
    arrows=(
        Arrow("kube-scheduler", "extender, view", 90, "filter, prioritize, bind, preempt"),
        Arrow("viewers", "extender, view", 170, "read: commands, dashboard, curl"),
        Arrow("operators", "extender, view", 250, "read; set debug flags and shadows"),
        Arrow("processes", "bundled store", 350, "read and append (TLS on request)"),
        Arrow("service accounts", "API server", 460, "list, watch, bind, patch"),
    ),
)

PICTURES: Mapping[str, Picture] = {
    "architecture.svg": PROCESSES,
    "certificates.svg": CERTIFICATES,
    "one-pod.svg": POD,
}
"""File of docs/images -> what it shows."""
