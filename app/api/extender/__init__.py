"""kube-scheduler's extender calls over HTTP: decode, run the verb, encode."""
