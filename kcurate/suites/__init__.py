"""Suites as data: which manifest a tree belongs to, and what a path in it means.

A suite is a TOML file in `sources/` (layout rules and facts); no code here is specific to one suite.
Not covered: reading or parsing source files (`kcurate.extract`, `kcurate.cuda_source`).
"""

from kcurate.suites.layout import Layout, PairRule, Place, locate
from kcurate.suites.manifest import Benchmark, Manifest, load_manifest, load_manifests
from kcurate.suites.tree import Tree, find_tree, forced_tree, generic_tree

__all__ = [
    "Benchmark",
    "Layout",
    "Manifest",
    "PairRule",
    "Place",
    "Tree",
    "find_tree",
    "forced_tree",
    "generic_tree",
    "load_manifest",
    "load_manifests",
    "locate",
]
