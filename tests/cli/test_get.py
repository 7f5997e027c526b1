"""``topolog get`` of a real extender: formats, names that can be asked again, completion, and flags."""

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.support import commands, polling
from tests.support.extender import interactive_shells
from tests.support.monitoring import installations

BIN = pathlib.Path(sys.executable).parent
KINDS = (
    "nodes",
    "pods",
    "pending",
    "topology",
    "decisions",
    "events",
    "flags",
    "policies",
    "groups",
    "budgets",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """An installation with nodes, a policy and a pending pod."""
    with installations.running(tmp_path_factory.mktemp("get")) as made:
        for number in range(3):
            made.stage.node(f"n{number}", zone="a")
        spec = {
            "topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "allocationPolicy": [{"name": "a", "replicas": 1}],
        }
        made.stage.policy("shop", "spread", spec)
        made.stage.pod("shop", "web-0", {"app": "web", "workload-policy/kosmos.io": "spread"})
        polling.eventually(lambda: get(made, "pods", "shop/web-0").returncode == 0, "it is known", within=30)
        yield made


def environ(found: installations.Installation) -> dict[str, str]:
    tls = found.stage.folder / "tls"
    return {
        "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{found.processes['extender'].port}",
        "TOPOLOG_CLIENT_CERT": str(tls / "viewer.crt"),
        "TOPOLOG_CLIENT_KEY": str(tls / "viewer.key"),
        "TOPOLOG_CLIENT_CA": str(tls / "ca.crt"),
    }


def get(found: installations.Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.called("get", *arguments, **environ(found))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_every_format(running: installations.Installation, kind: str) -> None:
    document = json.loads(get(running, kind, "-o", "json").stdout)
    other = yaml.safe_load(get(running, kind, "-o", "yaml").stdout)
    assert other["items"] == document["items"] or kind in ("pending", "flags")
    number = len(document["items"])
    for output in ("table", "wide"):
        lines = get(running, kind, "-o", output).stdout.splitlines()
        assert len(lines) == (number + 1 if number else 0)
    names = get(running, kind, "-o", "name").stdout.splitlines()
    assert len(names) == len(set(names)) == number
    assert all(name.startswith(f"{kind}/") for name in names)
    lengths = get(running, kind, "-o", "jsonpath=$.items[*]").stdout.splitlines()
    assert len(lengths) == number


def test_wide_has_the_columns_that_a_table_leaves_out(running: installations.Installation) -> None:
    table = get(running, "nodes").stdout.splitlines()[0].split()
    wide = get(running, "nodes", "-o", "wide").stdout.splitlines()[0].split()
    fields = json.loads(get(running, "nodes", "-o", "json").stdout)["items"][0]
    assert wide[: len(table)] == table
    assert len(wide) == len(fields)
    assert "LABELS" in wide


@pytest.mark.parametrize("kind", ["nodes", "policies"])
def test_names_can_be_asked_again(running: installations.Installation, kind: str) -> None:
    names = get(running, kind, "-o", "name").stdout.split()
    assert names
    done = get(running, *names, "-o", "name")
    assert (done.returncode, done.stdout.split()) == (0, names)
    assert len(get(running, *names, "-o", "jsonpath=$").stdout.splitlines()) == len(names)


def test_short_names_are_those_of_kubectl(running: installations.Installation) -> None:
    assert get(running, "no", "-o", "name").stdout == get(running, "nodes", "-o", "name").stdout
    assert get(running, "po", "shop/web-0", "-o", "name").stdout == "pods/shop/web-0\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("pod shop/web-0", "pods/shop/web-0"),
        ("pod/shop/web-0 node/n0", "pods/shop/web-0 nodes/n0"),
        ("node n1", "nodes/n1"),
        ("policy spread -n shop", "policies/shop/spread"),
        ("flag debugTopNScores", "flags/debugTopNScores"),
    ],
)
def test_a_kind_may_be_singular(running: installations.Installation, words: str, name: str) -> None:
    done = get(running, *words.split(), "-o", "name")
    assert (done.returncode, done.stdout.split()) == (0, name.split()), done.stderr


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("pods shop/nope", "pod shop/nope"),
        ("policies shop/nope", "policy shop/nope"),
        ("flags x", "flag x"),
        ("topology zone", "topology zone"),
        ("events 99999", "event 99999"),
        ("shadows nope", "shadow nope; set are: none"),
    ],
)
def test_what_does_not_exist_is_named_by_its_singular(
    running: installations.Installation, words: str, missing: str
) -> None:
    done = get(running, *words.split())
    assert (done.returncode, done.stderr) == (1, f"topolog: cannot find {missing}\n")


def test_a_flag_has_the_name_that_its_table_shows(running: installations.Installation) -> None:
    header, first, *_ = (line.split() for line in get(running, "flags").stdout.splitlines())
    by = dict(zip(header, first, strict=False))
    one, other = (get(running, "flags", by[column], "-o", "json").stdout for column in ("FLAG", "NAME"))
    assert one == other != ""


SELECTED = {
    "nodes -l zone=a": ["nodes/n0", "nodes/n1", "nodes/n2"],
    "nodes -l zone!=a": [],
    "nodes -l zone,!other --limit 2": ["nodes/n0", "nodes/n1"],
    "pods -l app=web": ["pods/shop/web-0"],
    "pods -l app=web,app=other": [],
    "pods -n shop -l app=web": ["pods/shop/web-0"],
    "pods -n other -l app=web": [],
    "pending -l app=web": ["pending/shop/web-0"],
    "pending -l !app": [],
}


@pytest.mark.parametrize("words", SELECTED)
def test_a_label_selector_selects(running: installations.Installation, words: str) -> None:
    done = get(running, *words.split(), "-o", "name")
    assert (done.returncode, done.stdout.split()) == (0, SELECTED[words])


USAGE = {
    "flags -l a=b": "leave out -l: nothing of flags has labels",
    "nodes n0 -l a=b": "-l selects items of a list; leave out the name, or -l",
    "nodes -l a=b,": "'a=b,' is not a selector such as a=b,c!=d",
    "nothing": "'nothing' is not one of nodes, pods",
    "polices": "; did you mean policies?",
    "Pod": "; did you mean pod?",
    "pods --where state=pending": "there is no condition 'state' of pods; known: namespace; -o 'jsonpath=",
    "topology --where zone=a": "there is no condition 'zone' of topology; known: levels, within; -o",
    "pods --where limit=1": "there is no condition 'limit' of pods; known: namespace",
    "pods --where kept<3": "'kept<3' is not FIELD=VALUE; only decisions are compared, as in kept<3",
    "nodes --where ready=true": "there are no conditions of nodes, only of pods, topology, decisions, events",
    "events --where limit=1": "there is no condition 'limit' of events; known: from, to, type, object",
    "nodes n0 -n shop": "leave out -n: no namespace contains nodes",
    "nodes ../lag": "'../lag' is not the name of one of nodes",
    "pods shop/": "'shop/' is not the name of one of pods",
    "pods web-0": "pods/web-0 needs a namespace: NAMESPACE/web-0, or -n NAMESPACE",
    "policies/spread nodes/n0": "policies/spread needs a namespace",
    "pods other/web-0 -n shop": "pods/other/web-0 is not in the namespace shop of -n",
    "pods -n shop -A": "-n and -A exclude each other",
    "nodes -w --at 3": "-w watches the present; leave out --at",
    "nodes/a nodes/b -w": "-w watches one kind, or one item",
    "events -w": "events are watched by `topolog watch`",
    "lag --at 5": "lag is a report on the present; leave out --at",
    "consistency --at 5": "consistency is a report on the present; leave out --at",
    "lag -w": "lag is one report and has no rows to watch",
    "--raw /apis/v1/map -w": "is not watched",
    **{
        f"--raw /apis/v1/nodes {option}": "--raw takes a path with its parameters, such as"
        for option in (
            "--at 5",
            "--at now",
            "--limit 5",
            "--where namespace=shop",
            "-n shop",
            "-l a=b",
            "-A",
            "--sort-by .name",
            "--facet reason",
            "--no-headers",
        )
    },
    "nodes --sort-by name": "'name' is not a path; write .name",
    "nodes --sort-by {.a}{.b}": "'{.a}{.b}' is a template of kubectl; write one path, such as .name",
    "nodes --sort-by .a[": "'.a[' is not a path such as .name, or a JSONPath of RFC 9535",
    "nodes -o custom-columns=": "column 1, '', is not HEADING:PATH; write NAME:.name,CPU:.remaining.cpu",
    "nodes -o custom-columns=NAME:.name,CPU": "column 2, 'CPU', is not HEADING:PATH",
    "nodes -o custom-columns=A:.x[": "column A: '.x[' is not a path",
    "nodes -o custom-columns-file=/none": "cannot read the file '/none': No such file or directory",
    "lag 7": "lag does not take a name",
    "nodes a b": "name several as KIND/NAME",
    "nodes/a b": "b is not KIND/NAME",
    "pods a/b/c": "'a/b/c' is not the name of one of pods",
    "nodes nodes/x": "'nodes/x' is not the name of one of nodes",
    "decisions/a/b": "'a/b' is not the name of one of decisions",
    "pods -n a --where namespace=b": "-n and --where namespace=... exclude each other",
}


@pytest.mark.parametrize("arguments", USAGE)
def test_what_cannot_be_asked_is_a_usage_error(arguments: str) -> None:
    done = commands.called("get", *arguments.split())
    assert done.returncode == 2
    assert USAGE[arguments] in " ".join(done.stderr.split())


def test_the_help_names_the_conditions_of_each_kind() -> None:
    text = " ".join(commands.called("get", "--help").stdout.split())
    assert (
        "FIELD=VALUE: pods by namespace; topology by levels, within; events by from, to, type, object."
        in text
    )


# -- completion ---------------------------------------------------------------------------------


def completed(words: str, **variables: str) -> list[str]:
    """What bash offers for the last of the words, by the script that the command prints."""
    script = (
        f'source <("{BIN}/topolog" completion bash)\n'
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_topolog_completion topolog\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        env=commands.environment({**variables, "PATH": f"{BIN}:/usr/bin:/bin"}),
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_bash_completes_commands_options_formats_and_kinds() -> None:
    assert completed("topolog sta") == ["status"]
    assert set(completed("topolog get p")) >= {"pods", "pending", "policies"}
    assert completed("topolog get nodes -o y") == ["yaml"]
    assert "--server-name" in completed("topolog get --server")


@pytest.mark.parametrize(
    ("kind", "names"),
    [("nodes", ["n0", "n1", "n2"]), ("policies", ["shop/spread"]), ("pods", ["shop/web-0"])],
)
def test_bash_completes_names_of_the_extender(
    running: installations.Installation, kind: str, names: list[str]
) -> None:
    def found() -> list[str]:
        return completed(f'topolog get {kind} ""', **environ(running))

    # An answer that takes longer than the limit of completion leaves it empty.
    polling.eventually(lambda: found() == names, f"the names of {kind}", within=60, seen=found)


def test_completion_without_an_extender_is_silent() -> None:
    assert completed('topolog get nodes ""', TOPOLOG_CLIENT_URL="https://127.0.0.1:9") == []
    assert completed('topolog get nodes ""', TOPOLOG_SERVER_PORT="0") == []


@pytest.mark.parametrize("shell", interactive_shells.SHELLS)
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("topolog sta", "topolog status"),
        ("topolog get pol", "topolog get policies"),
        ("topolog get policies sh", "topolog get policies shop/spread"),
    ],
    ids=["command", "kind", "name"],
)
def test_a_shell_in_a_terminal_completes(
    running: installations.Installation, shell: str, typed: str, expected: str, tmp_path: pathlib.Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    given = {**environ(running), "PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path)}
    interactive_shells.completed(shell, typed, expected, commands.environment(given))


@pytest.mark.parametrize("shell", interactive_shells.SHELLS)
def test_every_shell_has_a_script(shell: str) -> None:
    done = commands.called("completion", shell)
    assert done.returncode == 0
    assert "_TOPOLOG_COMPLETE" in done.stdout


# Debug flags


def set_flags(found: installations.Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    tls = found.stage.folder / "tls"
    files = ("--cert", str(tls / "operator.crt"), "--key", str(tls / "operator.key"))
    return commands.called("flags", *arguments, *files, **environ(found))


def flag(found: installations.Installation, letter: str) -> dict[str, object]:
    every: list[dict[str, object]] = json.loads(get(found, "flags", "-o", "json").stdout)["items"]
    (one,) = [each for each in every if each["name"] == letter]
    return one


def test_a_flag_is_set_by_its_name_and_returns_to_its_value_at_start(
    running: installations.Installation,
) -> None:
    started = flag(running, "f")
    done = set_flags(running, "set", "debugFilterFailure", "true", "--pod", "shop/web-0", "--ttl", "15m")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"successfully set debugFilterFailure to true\nfor shop/web-0, until {flag(running, 'f')['until']}\n",
        "",
    )
    changed = flag(running, "f")
    assert (changed["value"], changed["pod"]) == ("true", "shop/web-0")
    assert changed["until"]
    assert str(changed["by"]).startswith("spiffe://topolog.io/role/operator (serial ")
    assert set_flags(running, "unset", "f").stdout == "successfully set debugFilterFailure to false\n"
    assert set_flags(running, "set", "f", "true").stdout == "successfully set debugFilterFailure to true\n"
    assert set_flags(running, "unset", "f").stdout == "successfully set debugFilterFailure to false\n"
    last = {"changed": 0, "by": "", "at": ""}
    assert {**flag(running, "f"), **last} == {**started, **last}


def test_a_flag_that_was_never_set_is_not_unset(running: installations.Installation) -> None:
    done = set_flags(running, "unset", "d")
    assert (done.returncode, done.stdout) == (0, "debugDiagnosis was never set: it is false\n")
    assert flag(running, "d")["changed"] == 0


def test_a_flag_that_does_not_exist_and_a_value_that_does_not_fit_are_usage_errors(
    running: installations.Installation,
) -> None:
    unknown = set_flags(running, "set", "x", "true")
    assert unknown.returncode == 2
    assert "no such debug flag: x; the flags are s (debugTopNScores), f (" in unknown.stderr
    unfit = set_flags(running, "set", "f", "perhaps")
    assert unfit.returncode == 2
    assert "cannot set debugFilterFailure to 'perhaps': must be true or false" in unfit.stderr
    late = set_flags(running, "set", "f", "true", "--ttl", "169h")
    assert late.returncode == 2
    assert "--ttl: must be more than 0 and at most 168h" in late.stderr
    assert flag(running, "f")["value"] == "false"


def test_a_viewer_may_not_set_flags(running: installations.Installation) -> None:
    done = commands.called("flags", "set", "s", "5", **environ(running))
    assert done.returncode != 0
    assert "viewer.crt" in done.stderr
    assert flag(running, "s")["value"] == "0"
