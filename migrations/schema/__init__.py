"""The numbered steps. They name keys literally, on purpose: they describe the past."""
