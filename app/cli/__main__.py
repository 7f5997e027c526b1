"""``python -m app.cli``: the command, where its script is not on PATH."""

from app import cli

cli.main()
