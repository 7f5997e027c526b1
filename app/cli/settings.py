"""``topolog settings``: shows every setting with its value and meaning."""

import json
import os
import textwrap

import click

from app import misspellings, settings
from app.cli.output import formats, tables
from app.settings import json_schemas


@click.command("settings")
@click.argument("name", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the settings file, for editors.")
@click.option("--explain", is_flag=True, help="Also show the meaning and the allowed values of each setting.")
@formats.option()
@click.pass_obj
def settings_command(config: str | None, name: str | None, schema: bool, explain: bool, output: str) -> None:
    """Show all settings, one setting, or a group of settings (NAME: store.url, store).

    The values are those that a process started here would use; passwords are hidden. Exit code 3 if the
    settings are invalid.
    """
    if schema:
        click.echo(json.dumps(json_schemas.whole(settings.describe()), indent=2))
        return
    current = settings.current(settings.load(config, os.environ))
    selected = [
        setting
        for setting in settings.describe()
        if name is None or setting.name == name or setting.name.startswith(f"{name}.")
    ]
    if not selected:
        raise click.BadParameter(f"unknown setting {name}{_nearest(str(name))}", param_hint="NAME")
    if formats.is_document(output):
        formats.show_document(
            [
                {
                    "name": setting.name,
                    "variable": setting.env,
                    "value": current[setting.name],
                    "default": "" if setting.rule.secret else setting.default,
                    "allowed": setting.allowed,
                    "meaning": setting.doc,
                }
                for setting in selected
            ],
            output,
        )
    elif explain or name is not None:
        for setting in selected:
            click.echo(f"{setting.name} = {_shown(current[setting.name])}")
            click.echo(f"    {setting.env}; {setting.allowed}; default {_shown(setting.default)}")
            click.echo(textwrap.indent(textwrap.fill(setting.doc, 90), "    ") + "\n")
    else:
        rows = [(setting.name, setting.env, current[setting.name]) for setting in selected]
        tables.show(["SETTING", "VARIABLE", "VALUE"], rows)


def _nearest(name: str) -> str:
    """A setting or a group that is like it, or where they are listed."""
    names = [setting.name for setting in settings.describe()]
    groups = [one.rpartition(".")[0] for one in names if "." in one]
    return misspellings.meant(name, [*names, *groups], otherwise="; `topolog settings` lists them all")


def _shown(value: object) -> str:
    return "empty" if value == "" else tables.cell(value)
