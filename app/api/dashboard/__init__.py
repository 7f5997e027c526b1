"""The dashboard: plain ES modules that ask the public API, and the one page that loads them."""
