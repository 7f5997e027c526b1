"""How the extender is served: TLS, identities, deadlines and gunicorn. It knows nothing of scheduling."""
