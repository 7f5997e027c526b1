"""Texts in Markdown: rendered on a terminal, where the package rich is installed, and else as they are."""

import sys

import click


def show(text: str) -> None:
    """Write the text, in the width of the terminal."""
    if sys.stdout.isatty():
        try:
            from rich import console, markdown
        except ModuleNotFoundError:
            pass
        else:
            context = click.get_current_context(silent=True)
            plain = context is not None and context.color is False
            console.Console(no_color=plain or None).print(markdown.Markdown(text))
            return
    click.echo(text)
