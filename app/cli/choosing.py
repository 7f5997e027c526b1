"""``topolog settings``: every setting, what it is now, and what it means."""

import os
import textwrap

import click

from app import settings
from app.cli import tables


@click.command("settings", short_help="Show the settings and what they mean.")
@click.argument("name", required=False)
@click.option("--explain", is_flag=True, help="Also say what each setting means and what is allowed.")
@tables.output_option
@click.pass_obj
def settings_command(config: str | None, name: str | None, explain: bool, output: str) -> None:
    """Show all settings, one of them, or those of a group (NAME: store, store.url).

    What is shown is what a process would be told if it were started here and now; passwords are
    hidden. Exit code 3 if it would not start.
    """
    current = settings.current(settings.load(config, os.environ))
    chosen = [
        setting
        for setting in settings.describe()
        if name is None or setting.name == name or setting.name.startswith(f"{name}.")
    ]
    if not chosen:
        raise click.BadParameter(f"there is no setting {name}", param_hint="NAME")
    if output == tables.JSON:
        tables.show_json(
            [
                {
                    "name": setting.name,
                    "variable": setting.env,
                    "value": current[setting.name],
                    "default": "" if setting.rule.secret else setting.default,
                    "allowed": setting.allowed,
                    "meaning": setting.doc,
                }
                for setting in chosen
            ]
        )
    elif explain or name is not None:
        for setting in chosen:
            click.echo(f"{setting.name} = {tables.cell(current[setting.name])}")
            click.echo(f"    {setting.env}; {setting.allowed}; default {tables.cell(setting.default)}")
            click.echo(textwrap.indent(textwrap.fill(setting.doc, 90), "    ") + "\n")
    else:
        rows = [(setting.name, setting.env, current[setting.name]) for setting in chosen]
        tables.show(["SETTING", "VARIABLE", "VALUE"], rows)
