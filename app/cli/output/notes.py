"""Notes on standard error that a command writes once, however often it reads or prints."""

import click


def once(subject: str, text: str) -> None:
    """Write the text, if the command has not written one about this subject."""
    context = click.get_current_context(silent=True)
    meta = context.meta if context is not None else {}
    key = f"{__name__}.{subject}"
    if not meta.get(key):
        click.echo(text, err=True)
    meta[key] = True
