"""Makes the Helm chart from the overlays, so that neither is a copy of the other kept by hand."""
