"""Access to a simulated API server, which has neither a kubeconfig nor a ServiceAccount."""

from kubernetes.client import Configuration

from app.kube.client import credentials


def of(url: str, *, token: str = "", ca_file: str | None = None) -> credentials.Access:
    """The server by its URL alone."""
    configuration = Configuration()
    configuration.host = url
    configuration.ssl_ca_cert = ca_file
    configuration.proxy = None
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    return credentials.Access(lambda: credentials.Loaded(configuration))
