"""The settings by concern; under each: its unit, what the default is for, and what a change brings about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.settings.declaring import setting

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Store:
    """The Redis or Valkey server that holds the log."""

    url: str = setting(
        "",
        pattern=r"(rediss?://|rediss?\+cluster://|unix:///)\S+|rediss?\+sentinel://[^/\s]+/[^/\s]+|",
        like="redis://HOST:PORT/DB, redis+sentinel://HOST,HOST,HOST/MASTER, redis+cluster://HOST,HOST (each"
        " with rediss for TLS), unix:///PATH, or empty",
        quiet=True,
    )
    """Where the server is, with user and password: rediss://USER:PASSWORD@HOST:PORT/0. TLS files are given
    as in redis-py: ?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE; what sentinels are to be shown
    with ?sentinel_username=USER&sentinel_password=PASSWORD. Empty: ``topolog up`` and ``topolog demo`` start
    a server of their own; the other commands refuse to start."""
    require_durable: bool = setting(True)
    """Not ready as long as the server keeps no append-only file, or never syncs it: a restart of the server
    would lose the log. false: losing it is acceptable; what the cluster still shows is read anew, the
    history and the promises under way are not. A server that evicts keys is never accepted."""
    placements: str = setting("acknowledged", one_of=("acknowledged", "fsync"))
    """When a placement counts as written. acknowledged: when the server says so; a power failure may take
    what it had not flushed (``appendfsync everysec``: about a second). fsync: when it is on the server's
    disk, and nothing is bound before: the server needs ``appendfsync always``, which is asked behind each
    placement, and makes every append wait for the disk. The extender's user needs the right to ask:
    ``topolog doctor users``."""
    socket_timeout: float = setting(2.0, at_least=0.1, at_most=60)
    """Seconds to wait for an answer of the server. Longer than it takes at its busiest, or reads fail that
    would have succeeded; shorter than the scheduler's timeout, or its calls time out before we answer."""
    decisions_kept: int = setting(100_000, at_least=0, at_most=100_000_000)
    """How many decision records the store keeps, about 300 bytes each and 2 bits for each candidate;
    older ones can no longer be explained. 0: none is recorded. See also ``compaction.decision_bytes``."""
    embedded_dir: str = setting("")
    """Folder in which the server that ``topolog up`` starts keeps its data (append-only file). Empty: a
    temporary folder, gone with the process; the state is then read anew from the cluster at each start."""


@dataclass(frozen=True, slots=True)
class Kube:
    """The API server of the cluster."""

    kubeconfig: str = setting("")
    """The kubeconfig file. Empty: the pod's service account; outside a pod $KUBECONFIG or ~/.kube/config."""
    context: str = setting("")
    """The context of the kubeconfig. Empty: its current one."""


@dataclass(frozen=True, slots=True)
class Election:
    """Of several recorders, or controllers, one works and the others stand by: a Lease decides which."""

    namespace: str = setting(
        "", pattern=r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?", like="a namespace, or empty"
    )
    """The namespace of the Leases. Empty: that of the pod's service account; outside a pod that of the
    kubeconfig's context, else ``default``. Processes that share a store must share it."""
    recorder: str = setting(
        "topolog-recorder", pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", like="a name"
    )
    """The name of the recorders' Lease."""
    controller: str = setting(
        "topolog-controller", pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", like="a name"
    )
    """The name of the controllers' Lease."""
    lease: float = setting(15.0, at_least=1, at_most=3600)
    """Seconds without a sign of life after which another process takes over: the longest gap in recording
    when one dies. One that ends in order gives its Lease up at once."""
    renew: float = setting(10.0, at_least=0.1, at_most=3600)
    """Seconds after which one that cannot renew its Lease gives up; less than ``lease``."""
    retry: float = setting(2.0, at_least=0.02, at_most=600)
    """Seconds between two attempts to renew or to get the Lease; less than ``renew``."""


@dataclass(frozen=True, slots=True)
class Server:
    """The extender's ports and threads."""

    bind: str = setting("0.0.0.0")
    """The address to listen on, of both ports. All interfaces: every caller needs a client certificate."""
    port: int = setting(8443, at_least=1, at_most=65_535)
    """The port of the verbs and of the introspection API (mTLS)."""
    health_port: int = setting(8081, at_least=1, at_most=65_535)
    """The plain port of /livez, /readyz and /metrics, which serves nothing else."""
    threads: int = setting(64, at_least=2, at_most=1_000)
    """Threads of each worker for the verbs: at least 1 + concurrent binds of every scheduler. Idle
    connections, unfinished requests and questions to the introspection API take none of them."""
    workers: int = setting(1, at_least=1, at_most=64)
    """Worker processes, beside which one more answers the introspection API. A kube-scheduler keeps to one
    connection, so more of them serve several schedulers, not one faster; each holds the whole state in
    memory. With more than one there is no /metrics: a scrape would meet one of them by chance. Run replicas
    instead."""
    connection_age: int = setting(3_600, at_least=10, at_most=604_800)
    """Seconds after which a connection is closed behind its next answer. Callers prove who they are when they
    connect: a certificate that was revoked or has run out is good on an open connection until then."""
    grace: int = setting(10, at_least=1, at_most=600)
    """Seconds that calls in flight get to finish when the process is told to stop."""
    insecure: bool = setting(False)
    """Serve plain HTTP to anybody who can reach the port, without certificates and roles. Refused unless
    ``bind`` is a loopback address: for trying things out, never for a cluster."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Who the extender says it is, and whom it believes: PEM files, or the PKCS12 stores of a keytool."""

    cert: str = setting("")
    """File of the server's certificate, its chain behind it (PEM). It needs subject alternative names: Go
    clients refuse a certificate that has only a common name."""
    key: str = setting("")
    """File of the certificate's private key (PEM)."""
    ca: str = setting("")
    """File of the CA certificates whose client certificates are accepted (PEM). No client without one."""
    crl: str = setting("")
    """File of revoked certificates (PEM). Once it is expired no client is accepted: watch its age."""
    keystore_path: str = setting("", alias="TLS_KEYSTORE_PATH")
    """PKCS12 file of certificate and key, instead of ``cert`` and ``key``."""
    keystore_password: str = setting("", secret=True, alias="TLS_KEYSTORE_PASSWORD")
    """The password of that file; it has no default."""
    truststore_path: str = setting("", alias="TLS_TRUSTSTORE_PATH")
    """PKCS12 file of the CA certificates, instead of ``ca``."""
    truststore_password: str = setting("", secret=True, alias="TLS_TRUSTSTORE_PASSWORD")
    """The password of that file; it has no default."""


@dataclass(frozen=True, slots=True)
class Identities:
    """Who may call what: subject alternative names of client certificates, by role.

    The certificates that ``topolog certs`` makes have their roles without being listed. An entry is
    ``URI:...`` or ``DNS:...``, and an entry may also go without its type.
    """

    scheduler: tuple[str, ...] = setting(())
    """Further names that may call the verbs and nothing else."""
    viewer: tuple[str, ...] = setting(())
    """Further names that may read the introspection API."""
    operator: tuple[str, ...] = setting(())
    """Further names that may read, and set debug flags."""

    def by_role(self) -> dict[str, tuple[str, ...]]:
        """Role -> subject alternative names."""
        return {"scheduler": self.scheduler, "viewer": self.viewer, "operator": self.operator}


@dataclass(frozen=True, slots=True)
class Plugins:
    """Which rules decide."""

    enabled: tuple[str, ...] = setting(("NodeLabelPriority", "JobAffinity", "WorkloadPolicy"))
    """The plugins, in order: where two refuse a node, the first one's sentence is shown. The same in every
    replica, or they decide differently."""
    weights: Mapping[str, int] = setting({})
    """Plugin -> factor of its scores. One that is not named here has 1."""
    score_max: int = setting(10, at_least=1, at_most=1_000_000)
    """The highest score of a plugin that computes percentages. kube-scheduler expects 0 to 10; 100 tells
    finer differences apart and weighs ten times as much against the scheduler's own plugins."""
    args: Mapping[str, Mapping[str, Any]] = setting({})
    """Plugin -> its own arguments, as the page of the plugin describes them. ``{WorkloadPolicy: {enforce:
    selected}}`` limits every pod that a Required policy counts; ``named``, the default, only the pods that
    name the policy. The same in every replica and in the controller."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long an answer may take."""

    filter: float = setting(2.0, at_least=0.1, at_most=60)
    """Seconds in which filter, prioritize and preempt answer, whatever the state of the store. Less than
    the scheduler's httpTimeout (5 s): a call that times out stops all scheduling for its length."""
    bind: float = setting(3.5, at_least=0.1, at_most=60)
    """Seconds in which bind answers, the API server's time included. Less than httpTimeout."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may cost."""

    names_body: int = setting(4 * _MIB, at_least=1024, at_most=1024 * _MIB)
    """Largest body in bytes of a call with node names, and of every other request. 15,000 names take
    0.7 MB."""
    nodes_body: int = setting(64 * _MIB, at_least=1024, at_most=4096 * _MIB)
    """Largest body in bytes of a call with whole nodes (nodeCacheCapable: false): about 8 kB for each
    node."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """How far the past reaches, and what it costs. ``topolog compact`` does it; without it the log grows."""

    events: int = setting(50_000, at_least=100, at_most=100_000_000)
    """A checkpoint is made once so many events have come since the last. Starting and looking back read at
    most so many events, about 100,000 a second; a checkpoint takes about 100 bytes for each pod."""
    seconds: float = setting(3600.0, at_least=1, at_most=604_800)
    """And after so many seconds, if anything has come since."""
    keep: int = setting(500_000, at_least=0, at_most=1_000_000_000)
    """Events that the log keeps at least, as long as ``keep_bytes`` and ``memory`` allow; what is older is
    trimmed, and lost where there is no archive. An event takes about 600 bytes of the store's memory."""
    keep_bytes: int = setting(512 * _MIB, at_least=_MIB, at_most=1024 * 1024 * _MIB)
    """Bytes of the store's memory that the log may take: above it, fewer events than ``keep`` are kept. The
    default is over twice what 500,000 ordinary events take; checkpoints are then made by bytes too."""
    decision_bytes: int = setting(256 * _MIB, at_least=_MIB, at_most=1024 * 1024 * _MIB)
    """Bytes of the store's memory that the decision records may take: above it, fewer than
    ``store.decisions_kept`` are kept. An ordinary record takes 1 to 2 kB."""
    memory: float = setting(0.75, at_least=0.05, at_most=0.95)
    """Share of the server's maxmemory above which decision records and events are trimmed that would be kept
    otherwise, the oldest first, so that appends are not refused. Without maxmemory nothing is."""
    checkpoints: int = setting(12, at_least=3, at_most=1_000)
    """How many checkpoints the store keeps; the older they are, the thinner they lie."""
    reader_timeout: float = setting(60.0, at_least=10, at_most=86_400)
    """Seconds after which a process that reads the log and says nothing counts as dead: until then
    nothing is trimmed that it has not read. It begins again from a checkpoint if it comes back."""
    archive: str = setting("")
    """Directory of the archive, a folder for each cluster in it: everything is written there before it is
    trimmed. The extenders need it too, to show what is older than the log. Empty: none."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Whether counts, log and API server agree. ``topolog audit`` finds out; without it nobody does."""

    interval: float = setting(1.0, at_least=0.05, at_most=3600)
    """Seconds between two looks at counts, versions and the end of the log: a difference began within them,
    so the shorter they are, the fewer events come into question. A look takes the store some milliseconds."""
    page: int = setting(2_000, at_least=10, at_most=100_000)
    """Entries of the past that are read again at each look: the whole log is proven anew every
    ``compaction.keep`` / ``page`` looks."""
    listing: float = setting(300.0, at_least=0.05, at_most=86_400)
    """Seconds between two comparisons of all nodes, pods and policies with the API server: one list of each
    kind, in pages."""
    repair: bool = setting(True)
    """Bring counts and versions that are not those of the log back to it, by an event. false: only report."""
    relist: bool = setting(True)
    """Ask the recorder to list a kind anew where the log and the API server differ. false: only report."""


@dataclass(frozen=True, slots=True)
class Debug:
    """Debug flags as they are at the start; ``/debug/flags`` changes them in every process at once."""

    scores: int = setting(0, at_least=0, at_most=10_000)
    """Write the best N nodes of each prioritized pod into the log as a table. 0: none."""
    filters: bool = setting(False)
    """Write why each node was refused into the log."""


@dataclass(frozen=True, slots=True)
class Logging:
    """What the processes write to standard error."""

    level: str = setting("info", one_of=("debug", "info", "warning", "error"))
    """The least important lines that are written. The line of each call is info."""
    format: str = setting("auto", one_of=("auto", "json", "console"))
    """One JSON object a line, or text for people. auto: text on a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True)
class Client:
    """How ``topolog get`` and ``topolog explain`` reach an extender."""

    url: str = setting("https://127.0.0.1:8443", pattern=r"https?://\S+", like="https://HOST:PORT")
    """The extender's address."""
    cert: str = setting("")
    """File of the client certificate to show (PEM): a viewer's or an operator's."""
    key: str = setting("")
    """File of the certificate's private key (PEM)."""
    ca: str = setting("")
    """File of the CA certificates that the extender's certificate is checked against (PEM)."""
    timeout: float = setting(10.0, at_least=0.1, at_most=600)
    """Seconds to wait for an answer."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator can choose; fixed when the process starts."""

    cluster: str = setting(
        "default",
        pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        like="1 to 63 lower-case letters, digits and dashes",
    )
    """The name of the Kubernetes cluster in the store. Two clusters may share a server, never a name."""
    trace: str = setting("")
    """Folder of a recorded cluster (node and pod lists as CSV) for the demo and the benchmarks. Empty: one
    of the same shape is generated."""
    store: Store = field(default_factory=Store)
    kube: Kube = field(default_factory=Kube)
    election: Election = field(default_factory=Election)
    server: Server = field(default_factory=Server)
    tls: Tls = field(default_factory=Tls)
    identities: Identities = field(default_factory=Identities)
    plugins: Plugins = field(default_factory=Plugins)
    budgets: Budgets = field(default_factory=Budgets)
    limits: Limits = field(default_factory=Limits)
    compaction: Compaction = field(default_factory=Compaction)
    audit: Audit = field(default_factory=Audit)
    debug: Debug = field(default_factory=Debug)
    logging: Logging = field(default_factory=Logging)
    client: Client = field(default_factory=Client)
