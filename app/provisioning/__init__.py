"""Makes what an installation in a cluster needs and no manifest may contain: certificates and passwords."""
