"""Loading a cluster trace: what a wrong file is reported as."""

import pathlib

import pytest

from app.simulation import traces

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,32000,131072,4,V100M16\n"
PODS = "name,cpu_milli,memory_mib,num_gpu\npod-0,2000,4096,1\n"


def write(folder: pathlib.Path, nodes: str | None = NODES, pods: str | None = PODS) -> pathlib.Path:
    for name, text in ((traces.NODES_FILE, nodes), (traces.PODS_FILE, pods)):
        if text is not None:
            (folder / name).write_text(text)
    return folder


def test_a_trace_is_loaded(tmp_path: pathlib.Path) -> None:
    found = traces.load(write(tmp_path))
    assert found.nodes == (traces.NodeShape("node-0", 32_000, 131_072, 4, "V100M16"),)
    assert found.pods == (traces.PodShape("pod-0", 2_000, 4_096, 1),)


def test_a_missing_file_names_both_files_and_their_source(tmp_path: pathlib.Path) -> None:
    with pytest.raises(traces.InvalidTrace, match="TOPOLOG_TRACE") as found:
        traces.load(write(tmp_path, pods=None))
    text = str(found.value)
    assert text.startswith(f"{tmp_path / traces.PODS_FILE}: ")
    assert traces.NODES_FILE in text
    assert "https://github.com/alibaba/clusterdata" in text


def test_a_missing_column_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(traces.InvalidTrace, match=r"openb_node_list_all_node\.csv: no column gpu, model"):
        traces.load(write(tmp_path, nodes="sn,cpu_milli,memory_mib\n"))


def test_a_value_that_is_not_a_number_is_reported_with_its_line(tmp_path: pathlib.Path) -> None:
    with pytest.raises(traces.InvalidTrace, match="line 3: num_gpu is 'one', not a whole number"):
        traces.load(write(tmp_path, pods=f"{PODS}pod-1,2000,4096,one\n"))
