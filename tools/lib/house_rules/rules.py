# SPDX-License-Identifier: Apache-2.0
"""The list of rules, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from house_rules import code, house, prose
from house_rules.tree import Finding, Tree

RULES: dict[str, Callable[[Tree], Iterator[Finding]]] = {
    "arrows": code.arrows,
    "modules": code.modules,
    "owners": code.owners,
    "banned": code.banned,
    "sizes": code.sizes,
    "titles": prose.titles,
    "links": prose.links,
    "lost": prose.lost,
    "readmes": prose.readmes,
    "changelog": prose.changelog,
    "spdx": house.spdx,
    "dead": house.dead,
    "examples": house.examples,
    "leftovers": house.leftovers,
    "machines": house.machines,
    "files": house.files,
    "fresh": house.fresh,
}
