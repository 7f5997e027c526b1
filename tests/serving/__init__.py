"""Tests with real gunicorn processes, TLS handshakes and openssl; only the application is trivial."""
