"""The behaviour of an API server that Topolog relies on: one suite for the simulated and the real one.

Subclass it and define the fixtures `client` (app.kube.client.clients.Client with all rights) and `namespace`
(an existing, empty namespace). The tests leave their objects in that namespace, nodes excepted. Override
`forget` to compact the history; otherwise the tests that need it are skipped.
"""

from tests.support.kube.contract import bindings, evictions, objects, statuses, watches


class ApiServerContract(
    statuses.Statuses, bindings.Bindings, evictions.Evictions, watches.Watches, objects.Objects
):
    """The suite. pytest runs the tests of the last base first."""
