"""Serving on real parts: gunicorn processes, TLS handshakes, openssl. The application is a trivial one."""
