"""The settings, grouped by subject; each states its unit, its default and the effect of changing it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.settings.declarations import setting

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Store:
    """The Redis or Valkey server that stores the log."""

    url: str = setting(
        "",
        pattern=r"(rediss?://|rediss?\+cluster://|unix:///)\S+|rediss?\+sentinel://[^/\s]+/[^/\s]+|",
        like="redis://HOST:PORT/DB, redis+sentinel://HOST,HOST,HOST/MASTER, redis+cluster://HOST,HOST (each"
        " with rediss for TLS), unix:///PATH, or empty",
        quiet=True,
    )
    """URL of the server, with user and password: rediss://USER:PASSWORD@HOST:PORT/0. TLS files are set as
    in redis-py: ?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE; the credentials for sentinels with
    ?sentinel_username=USER&sentinel_password=PASSWORD. Unknown options and wrong values are refused. Empty:
    ``topolog up`` and ``topolog demo`` start a server; the other commands refuse to start."""
    require_durable: bool = setting(True)
    """Readiness requires an append-only file that the server syncs; otherwise a restart of the server loses
    the log. false: losing the log is acceptable. The current state is then listed again from the cluster;
    the history and the placements not yet bound are lost. A server that evicts keys is never accepted."""
    placements: str = setting("acknowledged", one_of=("acknowledged", "fsync"))
    """When a placement counts as written. acknowledged: when the server has acknowledged it; a power failure
    can lose what was not flushed (``appendfsync everysec``: about a second). fsync: when it is on the
    server's disk; no pod is bound before. This requires ``appendfsync always``, which makes every append
    wait for the disk. ``topolog up`` and the Helm chart start their server so; a kustomization has to patch
    the arguments of the bundled one, and the variables of its access list. The extender checks it after each
    placement, and is not ready without it; its user needs the permission for that check
    (``topolog doctor users``)."""
    socket_timeout: float = setting(2.0, at_least=0.1, at_most=60)
    """Seconds to wait for a reply of the server. Must be longer than its slowest reply, or reads fail that
    would have succeeded, and shorter than the scheduler's timeout, or its calls time out first."""
    decisions_kept: int = setting(100_000, at_least=0, at_most=100_000_000)
    """Number of decision records to keep, as far as ``compaction.decision_bytes`` allows. Older decisions
    cannot be explained. 0: decisions are not recorded, and the controller wakes no pod that was refused on
    an outdated state, which then waits for kube-scheduler's next attempt, up to five minutes."""
    embedded_dir: str = setting("")
    """Data directory of the server that ``topolog up`` starts (append-only file); each ``topolog up`` needs
    one of its own. Empty: a temporary directory, removed on exit; each start then lists the state from the
    cluster again."""

    @property
    def synced(self) -> bool:
        """Whether a placement must be on the server's disk before a pod is bound."""
        return self.placements == "fsync"


@dataclass(frozen=True, slots=True)
class Kube:
    """The API server of the cluster."""

    kubeconfig: str = setting("")
    """The kubeconfig file. Empty: the pod's service account; outside a pod $KUBECONFIG or ~/.kube/config.

    The file itself is read at the start of a process; token files and files of certificates that it names
    are read again once a minute, and tokens of OpenID Connect are renewed. An exec plugin runs at the start,
    again after nine tenths of the time until its credentials expire, and once the API server refuses them
    (401). Between two runs there is a second, and up to half a minute while its credentials are refused or
    expired soon after each. While it runs or fails, the last ones are used: one that never ends has to be
    killed, as for kubectl, before it runs again.
    """
    context: str = setting("")
    """The context of the kubeconfig. Empty: its current context."""


@dataclass(frozen=True, slots=True)
class Election:
    """Leader election: one recorder and one controller are active; the others are on standby."""

    namespace: str = setting(
        "", pattern=r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?", like="a namespace, or empty"
    )
    """The namespace of the Leases. Empty: that of the pod's service account; outside a pod that of the
    kubeconfig's context, else ``default``. Must be the same for all processes that share a store."""
    recorder: str = setting(
        "topolog-recorder", pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", like="a name"
    )
    """Name of the recorders' Lease."""
    controller: str = setting(
        "topolog-controller", pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", like="a name"
    )
    """Name of the controllers' Lease."""
    lease: float = setting(15.0, at_least=1, at_most=3600)
    """Seconds without a renewal after which a standby replica takes over: the longest gap in recording after
    a crash. A process that shuts down normally releases its Lease immediately."""
    renew: float = setting(10.0, at_least=0.1, at_most=3600)
    """Seconds after which a leader that cannot renew its Lease steps down; less than ``lease``."""
    retry: float = setting(2.0, at_least=0.02, at_most=600)
    """Seconds between attempts to renew or acquire the Lease; less than ``renew``."""


@dataclass(frozen=True, slots=True)
class Server:
    """The extender's ports and threads."""

    bind: str = setting("")
    """Listen address of both ports. Empty: all interfaces, by IPv6 and IPv4; the mTLS port requires client
    certificates."""
    port: int = setting(8443, at_least=1, at_most=65_535)
    """Port of the verbs and of the introspection API (mTLS)."""
    health_port: int = setting(8081, at_least=1, at_most=65_535)
    """Plain HTTP port of /livez, /readyz and /metrics only."""
    threads: int = setting(64, at_least=2, at_most=1_000)
    """Threads per worker for the verbs: at least 1 + the concurrent binds of every scheduler. Idle
    connections, incomplete requests and requests to the introspection API use none of them."""
    workers: int = setting(1, at_least=1, at_most=64)
    """Number of worker processes, in addition to the one for the introspection API. Of the calls of
    a kube-scheduler only binds overlap with others, so more workers serve more schedulers but do not filter
    for one of them faster; each holds the whole state in memory. With more than one, /metrics is disabled,
    because a scrape would reach an arbitrary worker: no alert watches the extender, and TopologExtenderDown
    fires. Prefer replicas."""
    connection_age: int = setting(3_600, at_least=10, at_most=604_800)
    """Seconds after which a connection is closed after its next response. Certificates are verified only in
    the handshake: a revoked or expired one remains valid on an open connection until then."""
    grace: int = setting(10, at_least=1, at_most=600)
    """Seconds that calls in flight may take to finish when the process is stopped. The
    ``terminationGracePeriodSeconds`` of the pod has to be 20 s longer: the Helm chart sets it so, and a
    kustomization has to patch the 30 s of the Deployment."""
    insecure: bool = setting(False)
    """Serve plain HTTP without certificates and roles. Allowed only if ``bind`` is a loopback address: for
    local experiments, never for a cluster. A request whose ``Host`` is not localhost or a loopback address is
    refused (403): it may be of a page whose name leads to this machine."""


@dataclass(frozen=True, slots=True)
class View:
    """The process of ``topolog view``: the dashboard, streams, and questions that are heavy."""

    port: int = setting(0, at_least=0, at_most=65_535)
    """Port of the dashboard and of the introspection API (mTLS), at ``server.bind``. 0: the port after
    ``server.port``."""
    nice: int = setting(10, at_least=0, at_most=19)
    """Niceness of the process: a higher value leaves more of the CPU to the verbs."""
    idle: bool = setting(True)
    """Whether the process runs only in CPU time that no other process of its cgroup uses (SCHED_IDLE): a
    verb then never waits for its time slice. Set to false where it answers too slowly on a busy machine."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The server's certificate and the CAs of client certificates: PEM files or PKCS12 stores."""

    cert: str = setting("")
    """File of the server's certificate, followed by its chain (PEM). It needs subject alternative names: Go
    clients reject a certificate that has only a common name."""
    key: str = setting("")
    """File of the certificate's private key (PEM)."""
    ca: str = setting("")
    """File of the CA certificates that verify client certificates (PEM)."""
    crl: str = setting("")
    """File of certificate revocation lists (PEM). An expired list rejects every client: monitor its age."""
    keystore_path: str = setting("", alias="TLS_KEYSTORE_PATH")
    """PKCS12 file of certificate and key, instead of ``cert`` and ``key``."""
    keystore_password: str = setting("", secret=True, alias="TLS_KEYSTORE_PASSWORD")
    """Password of that file; it has no default."""
    truststore_path: str = setting("", alias="TLS_TRUSTSTORE_PATH")
    """PKCS12 file of the CA certificates, instead of ``ca``."""
    truststore_password: str = setting("", secret=True, alias="TLS_TRUSTSTORE_PASSWORD")
    """Password of that file; it has no default."""


@dataclass(frozen=True, slots=True)
class Identities:
    """Roles of callers: subject alternative names of client certificates, by role.

    Certificates created by ``topolog certs`` carry their role and need not be listed. An entry is
    ``URI:...`` or ``DNS:...``; the type may be omitted.
    """

    scheduler: tuple[str, ...] = setting(())
    """Additional names that may call the verbs and nothing else."""
    viewer: tuple[str, ...] = setting(())
    """Additional names that may read the introspection API."""
    operator: tuple[str, ...] = setting(())
    """Additional names that may read the introspection API, set debug flags, and set and remove shadows."""

    def by_role(self) -> dict[str, tuple[str, ...]]:
        """Role -> subject alternative names."""
        return {"scheduler": self.scheduler, "viewer": self.viewer, "operator": self.operator}


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins and their arguments."""

    enabled: tuple[str, ...] = setting(("*",))
    """The plugins in order: if several refuse a node, the reason of the first one is shown. ``*`` stands for
    the usual plugins of this version (``docs/reference/plugins.md`` lists them); all others are enabled by
    name. Must be the same in every replica, or they decide differently."""
    weights: Mapping[str, int] = setting({})
    """Plugin -> weight of its scores; 1 for a plugin that is not listed."""
    score_max: int = setting(10, at_least=1, at_most=1_000_000)
    """Maximum score of a plugin that computes percentages. kube-scheduler expects 0 to 10; 100 has a finer
    resolution and ten times the weight relative to the scheduler's in-tree plugins."""
    args: Mapping[str, Mapping[str, Any]] = setting({})
    """Plugin -> its arguments, which are listed below. Must be the same in every replica and in the
    controller."""
    controllers: tuple[str, ...] = setting(("*",))
    """The plugins whose controllers run: ``NAME``, ``-NAME`` for all but it, and ``*`` for those that are not
    named. The first entry for a plugin decides. Without its controller, a plugin decides as before, but
    writes no status and posts no Event."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """Time limits of the verbs."""

    filter: float = setting(2.0, at_least=0.1, at_most=60)
    """Seconds in which filter, prioritize and preempt respond, even if the store is unavailable. Less than
    the scheduler's httpTimeout (5 s): a call that times out blocks all scheduling until then."""
    bind: float = setting(3.5, at_least=0.1, at_most=60)
    """Seconds in which bind responds, including the API server's time. Less than httpTimeout."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of requests."""

    names_body: int = setting(4 * _MIB, at_least=1024, at_most=1024 * _MIB)
    """Maximum body size in bytes of a call with node names, and of every other request. 15,000 names take
    0.7 MB."""
    nodes_body: int = setting(64 * _MIB, at_least=1024, at_most=4096 * _MIB)
    """Maximum body size in bytes of a call with whole nodes, or of preempt with whole pods
    (nodeCacheCapable: false): about 8 kB per node, 5 kB per victim."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """Retention of the log, applied by ``topolog compact``; without it the log grows without bound."""

    events: int = setting(50_000, at_least=100, at_most=100_000_000)
    """Number of events after which a checkpoint is created. A start replays at most this many events, at
    about 100,000 per second; a query of the past more, because fewer old checkpoints are kept. A checkpoint
    takes about 100 bytes per pod."""
    seconds: float = setting(3600.0, at_least=1, at_most=604_800)
    """Seconds after which a checkpoint is created if there are new events."""
    keep: int = setting(500_000, at_least=0, at_most=1_000_000_000)
    """Minimum number of events in the log, as far as ``keep_bytes`` and ``memory`` allow. Older events are
    trimmed, and lost without an archive. An event takes about 370 bytes of the store's memory."""
    keep_bytes: int = setting(512 * _MIB, at_least=_MIB, at_most=1024 * 1024 * _MIB)
    """Maximum size of the log in bytes of the store's memory: above it, fewer events than ``keep`` are kept
    and checkpoints are also created by size. The default is more than twice the size of 500,000 typical
    events."""
    decision_bytes: int = setting(256 * _MIB, at_least=_MIB, at_most=1024 * 1024 * _MIB)
    """Maximum size of the decision records in bytes of the store's memory: above it, fewer than
    ``store.decisions_kept`` are kept. A typical record takes 1 to 2 kB."""
    memory: float = setting(0.75, at_least=0.05, at_most=0.95)
    """Share of the server's maxmemory above which the oldest decision records and events are trimmed even
    if they would otherwise be kept, so that appends are not refused. No effect without maxmemory."""
    checkpoints: int = setting(12, at_least=3, at_most=1_000)
    """Number of checkpoints to keep; the distance between them grows with their age."""
    reader_timeout: float = setting(60.0, at_least=10, at_most=86_400)
    """Seconds without a heartbeat after which a reader of the log counts as dead. Until then, events that
    it has not read are not trimmed. A reader that returns later starts again from a checkpoint."""
    archive: str = setting("")
    """Directory of the archive, with a subdirectory per cluster: events are written there before they are
    trimmed. Or the URL of an object store: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX;
    its credentials are read from the environment. Extenders also need it, to show events older than the log.
    Empty: no archive."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Consistency checks of ``topolog audit``."""

    interval: float = setting(1.0, at_least=0.05, at_most=3600)
    """Seconds between checks of counts, versions and the end of the log. A difference began between two
    checks: the shorter the interval, the fewer events can have caused it. A check takes the store a few
    milliseconds. Less than ``compaction.reader_timeout``: an auditor is a reader of the log. While it lists
    objects of the API server, or reads the log for the first time, at most a second."""
    page: int = setting(2_000, at_least=10, at_most=100_000)
    """Log entries that each check reads again: the whole log is verified every ``compaction.keep`` /
    ``page`` checks. An auditor that begins reads page after page for half of each second, until it has
    read the whole log once: nothing is repaired before."""
    listing: float = setting(300.0, at_least=0.05, at_most=86_400)
    """Seconds between comparisons of all objects with the API server: one paginated list per kind."""
    repair: bool = setting(True)
    """Repair counts and versions that differ from the log, by an event. false: only report."""
    relist: bool = setting(True)
    """Request a new list of a kind if the log and the API server differ. false: only report."""


@dataclass(frozen=True, slots=True)
class Debug:
    """Initial debug flags; ``/debug/flags`` changes them in all processes."""

    scores: int = setting(0, at_least=0, at_most=10_000)
    """Log the best N nodes of each prioritized pod as a table. 0: off."""
    filters: bool = setting(False)
    """Log why each node was refused."""


@dataclass(frozen=True, slots=True)
class Logging:
    """Log lines on standard error."""

    level: str = setting("info", one_of=("debug", "info", "warning", "error"))
    """Minimum level of log lines. The line of each call is info."""
    format: str = setting("auto", one_of=("auto", "json", "console"))
    """json: one object per line. console: text. auto: text on a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of the controller about single objects."""

    object_series: int = setting(2_000, at_least=0, at_most=100_000)
    """Maximum number of series about the objects of plugins: one for each resource of which an object uses
    more than it may, and two for each domain of an object. ``topolog_object_series_omitted`` is the number
    left out. 0: none."""


@dataclass(frozen=True, slots=True)
class Client:
    """How commands reach an extender or ``topolog view``."""

    url: str = setting("https://127.0.0.1:8443", pattern=r"https?://[^@\s]+", like="https://HOST:PORT")
    """URL of the extender."""
    view_url: str = setting("", pattern=r"(https?://[^@\s]+)?", like="https://HOST:PORT, or empty")
    """URL of ``topolog view``. Empty: the host of ``url`` at the next port, or a view of the cluster."""
    server_name: str = setting("", pattern=r"[-A-Za-z0-9.:]*", like="a host name or an address")
    """Name that the extender's certificate must have; empty: the host of ``client.url``. Set it if the
    extender is reached by another name, such as through a port-forward."""
    cert: str = setting("")
    """File of the client certificate (PEM): a viewer's or an operator's."""
    key: str = setting("")
    """File of the certificate's private key (PEM)."""
    ca: str = setting("")
    """File of the CA certificates that verify the extender's certificate (PEM)."""
    timeout: float = setting(10.0, at_least=0.1, at_most=600)
    """Seconds to wait for a response."""
    namespace: str = setting(
        "topolog-system", pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", like="a namespace"
    )
    """The namespace of Topolog in the cluster of the kubeconfig. Used where ``client.url`` and
    ``client.cert`` are not set, and ``topolog up`` has made no certificates on this machine: kubectl forwards
    a port to a ready extender or ``topolog view``, and the certificate is that of the Secret
    ``topolog-viewer-tls``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; fixed when the process starts."""

    cluster: str = setting(
        "default",
        pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        like="1 to 63 lower-case letters, digits and dashes",
    )
    """Name of the Kubernetes cluster in the store. Clusters may share a server but not a name. Another name
    is another log: stop every process before it is changed
    (``docs/how-to/replace-the-store.md#stop-every-process``)."""
    trace: str = setting("")
    """Directory of a recorded cluster (node and pod lists as CSV) for the demo and the benchmarks. Empty: a
    cluster of the same shape is generated."""
    store: Store = field(default_factory=Store)
    kube: Kube = field(default_factory=Kube)
    election: Election = field(default_factory=Election)
    server: Server = field(default_factory=Server)
    view: View = field(default_factory=View)
    tls: Tls = field(default_factory=Tls)
    identities: Identities = field(default_factory=Identities)
    plugins: Plugins = field(default_factory=Plugins)
    budgets: Budgets = field(default_factory=Budgets)
    limits: Limits = field(default_factory=Limits)
    compaction: Compaction = field(default_factory=Compaction)
    audit: Audit = field(default_factory=Audit)
    debug: Debug = field(default_factory=Debug)
    logging: Logging = field(default_factory=Logging)
    metrics: Metrics = field(default_factory=Metrics)
    client: Client = field(default_factory=Client)

    @property
    def view_port(self) -> int:
        """The port of ``topolog view``."""
        return self.view.port or self.server.port + 1
