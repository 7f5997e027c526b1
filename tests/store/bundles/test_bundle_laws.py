"""Whatever happened before, a bundle explains each of its decisions as its source did."""

import random
import secrets

import pytest

from app.store.bundles import pseudonyms
from app.store.server import embedded
from tests.support.campaigns import sizes
from tests.support.extender import api_worlds, bundled

LENGTH, EVERY = 150, 15
"""Events of a history, and from one round of decisions to the next."""
AS_THEY_ARE = pseudonyms.Names(pseudonyms.KIND, pseudonyms.VERSION, "none", {})


def explained_alike(server: embedded.Server, seed: int) -> None:
    """The bundle of a random part of a random history, with pseudonyms for every other seed."""
    with api_worlds.processes(server, f"law{secrets.token_hex(4)}") as start:
        source = bundled.lived(start(), seed=seed, length=LENGTH, every=EVERY)
        first = random.Random(seed).randint(1, LENGTH // 2)
        data, names = bundled.exported(source, f"?from={first}"), AS_THEY_ARE
        if seed % 2:
            data, names = bundled.renamed(data)

        def real(text: str) -> str:
            translated, unknown = names.translated(text)
            assert not unknown
            return translated

        within = [
            row["id"] for row in bundled.decisions(source) if int(row["position"].rpartition("/")[2]) >= first
        ]
        with bundled.opened(server, data) as elsewhere:
            rows = list(bundled.decisions(elsewhere))
            assert [row["id"] for row in rows] == within
            assert len(rows) > LENGTH // (2 * EVERY)
            for row in rows:
                path = bundled.path_of(row)
                there = bundled.explanation(elsewhere, path, real)
                assert there == bundled.explanation(source, real(path)), path


@pytest.mark.scenario("WI-10")
@pytest.mark.parametrize("seed", range(2))
def test_a_bundle_of_any_history_explains_as_its_source(store_server: embedded.Server, seed: int) -> None:
    explained_alike(store_server, seed)


@pytest.mark.campaign
@pytest.mark.scenario("WI-10")
def test_bundles_of_very_many_histories_explain_as_their_sources(store_server: embedded.Server) -> None:
    first = sizes.first_seed()
    for seed in range(first, first + sizes.of("BUNDLE_SEEDS", 200)):
        print("seed", seed)
        explained_alike(store_server, seed)
