"""The bill of materials of a release: each component refers to the distributions that the lock allows.

tests/e2e/deploy/test_release.py makes that of a release.
"""

from deploy.release import artifacts


def reference(kind: str, *digests: str) -> artifacts.Document:
    hashes = [{"alg": "SHA-256", "content": each} for each in digests]
    return {"type": kind, "url": "https://packages.example/", "hashes": hashes}


def test_a_component_gets_the_digests_of_its_version() -> None:
    environment: artifacts.Document = {
        "components": [
            {"name": "Boolean.py", "version": "4", "externalReferences": [reference("website")]},
            {"name": "click", "version": "8"},
            {"name": "topolog", "version": "1"},
        ],
        "metadata": {},
    }
    lock: artifacts.Document = {
        "components": [
            {
                "name": "boolean-py",
                "version": "4",
                "externalReferences": [reference("distribution", "a", "b")],
            },
            {"name": "click", "version": "9", "externalReferences": [reference("distribution", "c")]},
            {"name": "absent", "version": "1", "externalReferences": [reference("distribution", "d")]},
        ]
    }
    made = artifacts.with_digests(environment, lock)
    assert made["metadata"] == {}
    assert [(one["name"], one["externalReferences"]) for one in made["components"]] == [
        ("Boolean.py", [reference("website"), reference("distribution", "a", "b")]),
        ("click", []),
        ("topolog", []),
    ]


def test_a_component_without_a_declared_licence_gets_that_of_its_licence_file() -> None:
    declared = [{"license": {"id": "MIT"}}]
    made = artifacts.with_licences(
        {
            "components": [
                {"name": "PySocks", "version": "1"},
                {"name": "a", "version": "1", "licenses": declared},
            ]
        }
    )
    assert [one["licenses"] for one in made["components"]] == [
        [{"license": {"id": "BSD-3-Clause"}}],
        declared,
    ]
