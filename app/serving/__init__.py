"""Serves the extender: TLS, roles, deadlines and gunicorn. Independent of scheduling."""
