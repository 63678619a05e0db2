"""What holds for every row of a dataset, whatever it was built from."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from benchmarks.repairs import LEFT_OVER
from kcurate.dataset import parquet
from kcurate.hub.published_rows import read_rows
from kcurate.problem.techniques import vocabulary
from kcurate.prompts import Answer
from kcurate.prompts.replies import read_reply

ANSWERS = ("completion", "chosen", "rejected")
NAMED = (
    r"NVIDIA \S.* \(compute capability \d+\.\d\)"
    r"(?:\nTarget: by the data sheet, [\w ,-]+ takes? [\d,.]+ us at the bench size\.)?"
)
GPU = re.compile(rf"GPU: (?:{NAMED}|any, judged on an emulator)")
# What a model is told of a side in Triton if a compiler of CUDA reads it, and of a worker that died.
USELESS = re.compile(r"identifier \"(?:import|tl|triton)\" is undefined|the worker process died")
# Findings that call an access a value.
MISNAMED = re.compile(r"Its results are wrong: .*(?:bytes (?:past|before)|\boutside\b|changed the input)")
# The local names of a formula: words without an index or argument.
LOCAL = re.compile(r"\b[a-z]\w*\b(?![\[(])")


def rows_of(dataset: Path, config: str) -> list[dict[str, Any]]:
    """The rows of all splits."""
    return [row for rows in read_rows(dataset, config).values() for row in rows]


def configs_of(dataset: Path) -> list[str]:
    """The configs that a dataset has."""
    return [name for name in parquet.CONFIGS if (dataset / name).is_dir()]


def conversations(dataset: Path) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Every row with a prompt, and its messages from the system's to the last."""
    for config in configs_of(dataset):
        for row in rows_of(dataset, config):
            if said := row.get("messages") or row.get("prompt"):
                yield config, row, said


def languages(row: dict[str, Any], pairs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The language of each answer of a row."""
    taught = pairs[row["id"]]["fast_language"]
    return {name: row.get(f"{name}_language", taught) for name in ANSWERS if name in row}


def keys_of(data: object) -> Iterator[str]:
    """The keys of a plan; those of `constexprs` name parameters of the code."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from () if key == "constexprs" else keys_of(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from keys_of(value)


def every_key_is_explained(dataset: Path) -> None:
    """Those of answers and of scratch buffers too; an answer's own names for buffers need no words."""
    pairs = {row["id"]: row for row in rows_of(dataset, "pairs")}
    for config in ("sft", "write", "explained", "repair", "preferences"):
        for row in rows_of(dataset, config):
            rules, shown = (message["content"] for message in row["prompt"])
            words = rules + re.sub(r"```.*?```", "", shown, flags=re.DOTALL)
            for name, language in languages(row, pairs).items():
                answer = read_reply(row[name][0]["content"], "text", language)
                assert isinstance(answer, Answer), (config, row["id"], answer)
                used = {*keys_of(answer.plan), *keys_of(list((answer.buffers or {}).values()))}
                missing = {key for key in used if f'"{key}"' not in words}
                assert not missing, (config, row["id"], missing)
            problem = json.loads(pairs[row["id"]]["problem"])
            buffers = problem["buffers"].values()
            used = {key for buffer in buffers for key in (*buffer, *(buffer.get("tolerance") or {}))}
            used |= {key for key in problem if key == "records"}
            missing = {key for key in used - {"dtype", "shape", "tolerance"} if f'"{key}"' not in words}
            assert not missing, (config, row["id"], missing)
            floats = any("float" in each["dtype"] for each in buffers if each.get("role") in ("out", "inout"))
            assert ("A float element r may be off by 8 (u |r| + 4 sqrt(K)" in words) == floats


def every_prompt_says_what_is_computed_and_where(dataset: Path) -> None:
    """The GPU; words and a module as text, not as strings in JSON; no hash in place of a name."""
    stated = {row["family"] for row in rows_of(dataset, "pairs") if "statement" in json.loads(row["problem"])}
    for config, row, messages in conversations(dataset):
        shown = messages[1]["content"]
        (where,) = re.findall(r"^GPU: .*(?:\nTarget: .*)?$", shown, re.MULTILINE)
        assert GPU.fullmatch(where), (config, row["id"], where)
        assert not re.search(r'"(?:statement|reference)":|minted-[0-9a-f]{8}', shown), (config, row["id"])
        assert shown.startswith("Computation: ") or row["family"] in stated or config == "write"
        told = "\n".join(message["content"] for message in messages[1:])
        assert not USELESS.search(told), (config, row["id"])
        assert not MISNAMED.search(told), (config, row["id"])
        assert config not in ("repair", "trajectories") or not LEFT_OVER.search(told), (config, row["id"])


def every_statement_is_clear(dataset: Path) -> None:
    """That of every problem."""
    for row in rows_of(dataset, "tasks"):
        formulas_are_clear(row["statement"], json.loads(row["problem"])["buffers"])


def formulas_are_clear(statement: str, buffers: Collection[str]) -> None:
    """No local name is that of an array, and a running fold has an index of its own."""
    steps = re.findall(r"^\d+\. (\w+) .*?(?:; (.*))?\.$", statement, re.MULTILINE)
    arrays = {*buffers, *(name for name, _ in steps)}
    for _, formula in steps:
        assert not arrays & {*LOCAL.findall(formula)}, formula
        assert "the current one" not in formula and " + -" not in formula, formula


def every_measured_kernel_is_one_of_the_code(dataset: Path) -> None:
    """No name of a compiler, and none of one of several instances."""
    for row in rows_of(dataset, "explained"):
        code, _, listed = row["prompt"][1]["content"].partition("\nMeasured:\n")
        kernels = re.findall(r"^- Kernel (\S+): ", listed, re.MULTILINE)
        kernels += re.findall(r"\bkernel (\w+)", row["completion"][0]["content"].partition("```")[0])
        assert not [name for name in kernels if not re.search(rf"\b{name}\b", code)], row["id"]


def every_preference_is_proved(dataset: Path) -> None:
    """Both answers are sides with times on one GPU model; the prompt shows neither of them."""
    pairs = {row["id"]: row for row in rows_of(dataset, "pairs")}
    made = [row["slow_code"] for row in pairs.values() if row["made"] == "slow"]
    for row in rows_of(dataset, "preferences"):
        better, worse = pairs[row["id"]], pairs[row["rejected_id"]]
        side = row["rejected_side"]
        assert (better["problem"], better["device"]) == (worse["problem"], worse["device"])
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"] and row["ratio_low"] > 1
        if side == "slow":
            assert better == worse and row["ratio"] == better["speedup"]
            assert better["made"] != "slow" or row["ratio"] >= 1.5, "a slow side that was made is much slower"
        else:
            assert (better["slow_code"], better["slow_side"]) == (worse["slow_code"], worse["slow_side"])
            assert better["speedup_low"] > worse["speedup_high"]
        known = {"chosen": better["fast_code"], "rejected": worse[f"{side}_code"]}
        assert known["chosen"] != known["rejected"], "they differ in more than a launch"
        for name, language in languages(row, pairs).items():
            answer = read_reply(row[name][0]["content"], "text", language)
            assert isinstance(answer, Answer) and answer.code.strip() == known[name].strip(), row["id"]
            assert answer.code.strip() not in row["prompt"][1]["content"]
        assert not any(f"\n{code.strip()}\n" in row["prompt"][1]["content"] for code in made), "gives it away"
        techniques = better["techniques"] != ([] if side == "slow" else worse["techniques"])
        two_languages = len(set(languages(row, pairs).values())) == 2
        assert techniques or better["rules"] != worse["rules"] or two_languages
        assert ("in CUDA or in Triton" in row["prompt"][1]["content"]) == two_languages


def preferences_are_even(dataset: Path) -> None:
    """Languages and lengths of two answers do not tell which of them was chosen."""
    for rows in read_rows(dataset, "preferences").values():
        kinds: dict[frozenset[tuple[str, bool]], Counter[str]] = defaultdict(Counter)
        for row in rows:
            chosen, rejected = (len(row[name][0]["content"]) for name in ("chosen", "rejected"))
            seen = {
                (row["chosen_language"], chosen > rejected),
                (row["rejected_language"], chosen < rejected),
            }
            kinds[frozenset(seen)]["longer" if chosen > rejected else "shorter"] += 1
        assert all(count["longer"] == count["shorter"] for count in kinds.values())


def explanations_name_what_is_asked_for_and_differ(dataset: Path) -> None:
    """At most half of those without counters name the same techniques, or four."""
    for rows in read_rows(dataset, "explained").values():
        alike = Counter[frozenset[str]]()
        for row in rows:
            change = row["completion"][0]["content"].partition("\nChange:")[2].partition("```")[0]
            assert not re.search(r"\bIts? ", change), "which code that is, the given one or the new one"
            names = frozenset(name for name in re.findall(r"[\w-]+", change) if name in vocabulary())
            assert names and row["technique"] in (None, *names), row["id"]
            alike[names] += not row["counted"]
        assert max(alike.values()) <= max(4, len(rows) / 2)


def no_column_is_empty(dataset: Path, but: Collection[str] = ()) -> None:
    """Something is in every column of every config, `but` some; shares are none above 100%."""
    for config in configs_of(dataset):
        rows = rows_of(dataset, config)
        filled = {name for row in rows for name, value in row.items() if value not in (None, [], "")}
        assert not rows[0].keys() - filled - {*but}, config
        shares = [name for name in rows[0] if name.endswith("_pct")]
        assert not [row["id"] for row in rows for name in shares if (row[name] or 0) > 100]


def check(dataset: Path) -> None:
    """All of these rules."""
    every_key_is_explained(dataset)
    every_prompt_says_what_is_computed_and_where(dataset)
    every_statement_is_clear(dataset)
    every_measured_kernel_is_one_of_the_code(dataset)
    every_preference_is_proved(dataset)
    preferences_are_even(dataset)
    explanations_name_what_is_asked_for_and_differ(dataset)
