"""``topolog completion``: the script by which a shell completes commands, options, kinds and names."""

import click
from click import shell_completion

VARIABLE = "_TOPOLOG_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a script that lets SHELL complete commands, options, kinds and names.

    \b
    bash: source <(topolog completion bash)                   in ~/.bashrc
    zsh:  source <(topolog completion zsh)                    in ~/.zshrc, after compinit
    fish: topolog completion fish > ~/.config/fish/completions/topolog.fish

    Names of nodes, pods and the objects of plugins, namespaces, flags and shadows are requested from an
    extender, for at most half a second; of many nodes or pods, the first hundred that begin as what is typed,
    and of many others, those among the first hundred.
    `kubectl topolog` is completed by kubectl itself, through kubectl_complete-topolog.
    """
    from app import cli

    found = shell_completion.get_completion_class(shell)
    assert found is not None
    click.echo(found(cli.topolog, {}, "topolog", VARIABLE).source())
