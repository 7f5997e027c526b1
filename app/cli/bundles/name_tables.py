"""Writes bundles with pseudonyms, and the names that they stand for beside them."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any, TextIO

from app import exit_codes, plugins
from app.cli import exits
from app.framework import registry, registry_builder
from app.store.bundles import bundle_reader, layout, pseudonymizer, pseudonyms, vocabulary


def beside(file: pathlib.Path) -> pathlib.Path:
    """The file with the names of a bundle: ``incident.names.json`` of ``incident.tar``."""
    return file.with_name(f"{file.stem}.names.json")


def replaced(source: pathlib.Path, file: pathlib.Path) -> None:
    """Write the bundle with pseudonyms, and its names. Raises Failed; nothing is left then."""
    names = beside(file)
    for one in (file, names):
        if one.exists():
            raise exits.Failed(exit_codes.USAGE, f"{one} exists: choose another name")
    partial = file.with_name(f".{file.name}.{os.getpid()}.pseudonyms")
    written: list[pathlib.Path] = []
    try:
        catalog = plugins.catalog()
        public = _public(catalog.classes)
        with source.open("rb") as opened, partial.open("xb") as out:
            written.append(partial)
            _, found = pseudonymizer.names_of(opened, public, catalog.schema)
            table = found.census.table(pseudonyms.tag())
            pseudonymizer.write(opened, out, found, table, catalog.schema)
        # Never readable by others, not even for a moment.
        with os.fdopen(os.open(names, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as kept:
            written.append(names)
            kept.write(table.encoded())
        partial.rename(file)
        written.clear()
    except bundle_reader.Damaged as damaged:
        raise exits.Failed(exit_codes.NEGATIVE, f"{source}: {damaged}") from damaged
    except (pseudonymizer.RewriteRefused, layout.TooLarge) as refused:
        raise exits.Failed(exit_codes.NEGATIVE, f"{source}: {refused}") from refused
    except registry.ConfigurationRefused as refused:
        raise exits.Failed(exit_codes.SETTINGS, str(refused)) from refused
    except OSError as error:
        raise exits.Failed(exit_codes.USAGE, f"{error.filename or source}: {error.strerror}") from error
    finally:
        for one in written:
            one.unlink(missing_ok=True)


def _public(classes: Sequence[type[Any]]) -> pseudonyms.Public:
    """What names nothing of a cluster that has these plugins. Raises ConfigurationRefused."""
    product = vocabulary.words(vocabulary.PRODUCT)
    others = [kind for kind in classes if kind not in plugins.IN_TREE]
    modules = {kind.__module__ for kind in others}
    bases = frozenset[str]().union(*map(vocabulary.base_modules, others))
    terms = frozenset[str]().union(
        *map(vocabulary.of_plugin, modules), *map(vocabulary.of_module, bases - modules)
    )
    return pseudonyms.Public(
        product | vocabulary.without_packages(terms, modules | bases, product),
        frozenset(plugin.name for plugin in plugins.IN_TREE),
        registry_builder.terms_of(classes),
        terms,
    )


def translate(names: pathlib.Path, text: TextIO, out: TextIO) -> None:
    """Copy a text with the names in place of their pseudonyms. Raises Failed."""
    try:
        table = pseudonyms.read(names.read_bytes())
    except OSError as error:
        raise exits.Failed(exit_codes.USAGE, f"cannot read {names}: {error.strerror}") from error
    except pseudonyms.Unreadable as unreadable:
        raise exits.Failed(exit_codes.USAGE, f"{names}: {unreadable}") from unreadable
    unknown = 0
    for line in text:
        translated, missed = table.translated(line)
        out.write(translated)
        unknown += missed
    out.flush()
    if unknown:
        raise exits.Failed(
            exit_codes.NEGATIVE, f"{unknown} pseudonyms are not of {names}: they belong to another bundle"
        )
