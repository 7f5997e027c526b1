"""``python -m app.cli``: runs the command where its script is not on PATH."""

from app import cli

cli.main()
