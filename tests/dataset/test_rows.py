"""Rows: neutral code, the way back to a pair, training rows, splits and the card."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import yaml
from dataset.making import H200, a_row, pair, verdict
from huggingface_hub import DatasetCard
from small import honest

from kcurate import prompts
from kcurate.core import codec, resources
from kcurate.core.workspace import Workspace
from kcurate.dataset import card, columns, croissant, parquet, secrets
from kcurate.dataset.gates import Gates, Rules, bad_row
from kcurate.dataset.rows import COLUMNS, content_of, row
from kcurate.dataset.tuning import tables
from kcurate.errors import RecordError
from kcurate.hub.published_rows import candidate_of
from kcurate.judge.checks.static import hints
from kcurate.problem.neutral import neutral, neutral_side
from kcurate.records import Kernel, Launch, Side, Source, Span, Upload
from kcurate.reward import splits
from kcurate.verdicts import readable, standing


@pytest.mark.parametrize("family", honest())
def test_a_row_holds_the_whole_pair(family: str) -> None:
    candidate = replace(honest()[family], license="MIT")
    made = row(candidate, verdict(candidate))
    assert list(made) == list(COLUMNS)
    assert candidate_of(made) == neutral(candidate)
    assert made["content"] == content_of(neutral(candidate))


def test_every_reading_of_the_verdict_is_in_the_row() -> None:
    one = pair("demo/a")
    made = row(one, verdict(one), [replace(verdict(one), environment=replace(H200, device="NVIDIA L4"))])
    assert (made["slow_us"], made["speedup"], made["copy_fraction"]) == (30.0, 1.5, 0.8)
    assert made["slow_samples_us"] == [[30.0, 30.5], [29.5]] and made["slow_registers"] == 32
    assert made["seeds"] == [7] and made["fast_registers"] is None
    assert codec.canonical_json(codec.to_data(verdict(one)))[:20].decode() in made["other_verdicts"][0]


def test_the_row_in_the_readme_is_one_of_the_dataset() -> None:
    root = resources.pairs_dir().parent
    (text,) = re.findall(
        r"^```json\n(.*?)^```$", (root / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    shown = json.loads(text)
    (found,) = readable.judged([root / "pairs" / shown["id"]], Workspace(root / "kcurate-work"))
    assert isinstance(found, readable.Judged)
    best = standing.best(standing.current(found.candidate, found.verdicts))
    assert best is not None
    made = row(found.candidate, best)
    assert len(shown) > 8
    for name, value in shown.items():
        assert made[name] == (pytest.approx(value, rel=2e-3) if isinstance(value, float) else value), name


def test_a_row_says_where_it_comes_from_and_what_changed() -> None:
    one = pair("demo/a")
    launch = one.fast.plan[-1]
    assert isinstance(launch, Launch)
    fast = replace(one.fast, plan=(*one.fast.plan[:-1], replace(launch, block=(64,))))
    one = replace(one, fast=fast, origin=replace(one.origin, problem="drafted"))
    kernel = Kernel("s/k", Source("s"), "b", None, "k", Span("src/k.cu", 10, 90, 3, 9), "src/k.cu", ())
    made = row(one, verdict(one), (), [kernel])
    assert made["sources"] == [{"kernel": "s/k", "path": "src/k.cu", "first_line": 3, "last_line": 9}]
    assert (made["problem_source"], made["slow_language"], made["fast_language"]) == (
        "drafted",
        "cuda",
        "cuda",
    )
    assert made["changed"] == [
        name for name in ("code", "plan") if getattr(one.slow, name) != getattr(fast, name)
    ]
    assert "plan" in made["changed"]
    assert candidate_of(made).origin.problem == "drafted" and bad_row(made) is None
    assert not list(secrets.findings(made))
    private = [{**made["sources"][0], "path": "/home/somebody/k.cu"}]
    assert [found.split(" in ")[-1] for found in secrets.findings({**made, "sources": private})] == [
        "sources"
    ]
    assert "sources is not of type" in str(bad_row({**made, "sources": [{"kernel": "s/k"}]}))


def test_a_broken_row_is_a_record_error() -> None:
    with pytest.raises(RecordError):
        candidate_of({**a_row(pair("demo/a")), "origin": "somewhere"})


def test_names_that_label_a_side_are_neutral_in_code_and_plan() -> None:
    code = """
// The naive version.
__constant__ float fast_table[4];
template <int N> __device__ float optimized(float x) { return __fdividef(x, N); }
__device__ float my__slow_kernel(float x) { return x; }
__global__ void gemm_naive(float* x, int n) { x[n] = optimized<2>(x[0]) * fast_table[1]; }
__global__ void gemm(float* x) { x[0] = 1; }
"""
    plan = (
        Upload("fast_table", "t"),
        Launch("gemm_naive", (1,), (1,), ("x", "n")),
        Launch("gemm", (1,), (1,)),
    )
    shown = neutral_side(Side(code, plan))
    assert not hints(shown)
    assert [getattr(step, "launch", getattr(step, "upload", "")) for step in shown.plan] == [
        "table",
        "gemm_2",
        "gemm",
    ]
    assert "slow" not in shown.code
    assert "void gemm_2(float* x, int n)" in shown.code and "__fdividef" in shown.code
    assert neutral_side(shown) == shown


def test_an_sft_completion_reads_back_as_the_fast_side() -> None:
    one = a_row(pair("demo/a"))
    (made,) = tables([one])[0]["sft"]
    assert [message["role"] for message in made["prompt"]] == ["system", "user"]
    answer = prompts.read_reply(made["completion"][0]["content"], "text")
    assert isinstance(answer, prompts.Answer)
    assert answer.code.strip() == one["fast_code"].strip()
    assert answer.plan == codec.to_data(candidate_of(one).fast)["plan"]
    assert one["slow_code"].strip() in made["prompt"][1]["content"]


def test_a_grpo_row_gives_the_reward_what_it_judges_with() -> None:
    one = a_row(pair("demo/a"))
    found, _ = tables([one])
    (made,) = found["grpo"]
    assert made["prompt"] == found["sft"][0]["prompt"] and "completion" not in made
    assert one["fast_code"] not in "".join(str(value) for value in made.values())
    judged = candidate_of({**one, "slow_code": made["given_code"], "slow_side": made["given_side"]})
    assert judged == candidate_of(one)


def test_no_family_is_in_two_splits_and_splits_stay() -> None:
    def rows(families: dict[str, str]) -> list[dict[str, str]]:
        return [
            {
                "id": name,
                "family": family,
                "slow_code": f"__device__ int a() {{ return {family[7:]}; }}",
                "fast_code": "",
            }
            for name, family in families.items()
        ]

    families = {f"demo/{i}": f"family-{i // 2}" for i in range(400)}
    found = splits.assign(rows(families))
    assert all(found[f"demo/{i}"] == found[f"demo/{i + 1}"] for i in range(0, 400, 2))
    assert 20 < sum(split == "test" for split in found.values()) / 2 < 48
    grown = splits.assign(rows({**families, "demo/new": "another"}))
    assert {key: grown[key] for key in found} == found
    few = next(name for name, family in families.items() if found[name] == "test")
    assert splits.assign(rows({few: families[few]})) == {few: "train"}, "all would be for tests"


def test_families_of_which_one_holds_a_function_of_the_other_are_in_one_split() -> None:
    """Renamed, and among other code."""
    body = "".join(f"    v = v * {k}.5f + w[{k}] / u;\n" for k in range(12))
    function = f"__device__ float mixed(float v, const float *w, float u)\n{{\n{body}    return v;\n}}\n"
    other = (
        re.sub(r"\bv\b", "sum", function)
        .replace("mixed", "blend")
        .replace(" u)", " d)")
        .replace("/ u", "/ d")
    )
    names = [f"family-{i}" for i in range(40)]
    rows = [
        {
            "id": name,
            "family": name,
            "slow_code": f"__device__ int a{i}(int b) {{ return b + {i}; }}",
            "fast_code": "",
        }
        for i, name in enumerate(names)
    ]
    found = splits.assign(rows)
    test = next(name for name in names if found[name] == "test")
    train = next(name for name in names if found[name] == "train")
    places = {row["id"]: row for row in rows}
    places[test]["slow_code"] += function
    places[train]["fast_code"] = "__device__ int unlike(int a) { return a * a * 3; }\n" + other
    joined = splits.assign(rows)
    assert joined[test] == joined[train]
    assert {name: joined[name] for name in names if name not in (test, train)} == {
        name: found[name] for name in names if name not in (test, train)
    }


def test_a_large_group_is_for_training() -> None:
    """Here all families share one function."""
    body = "".join(f"    v = v * {k}.5f + {k}.25f;\n" for k in range(12))
    function = f"__device__ float mixed(float v)\n{{\n{body}    return v;\n}}\n"
    rows = [
        {"id": f"f{i}", "family": f"f{i}", "slow_code": f"{function}int f{i};", "fast_code": f"int g{i};"}
        for i in range(splits.MANY + 1)
    ]
    assert set(splits.assign(rows).values()) == {"train"}


def content(*rows: dict[str, object]) -> card.Content:
    gates = Gates(Rules())
    assert not [refused for one in rows if (refused := gates.offer(one))]
    return card.Content({"train": rows}, parquet.data_files("pairs", {"train": rows}), gates, "1.2.3")


def test_the_card_counts_the_rows_and_its_metadata_validates() -> None:
    text = card.render(content(a_row(pair("demo/a", 1)), a_row(pair("demo/b", 2))))
    parsed = DatasetCard(text)
    assert parsed.data.to_dict()["license"] == "mit"
    assert yaml.safe_load(text.split("---")[1])["configs"][0]["config_name"] == "pairs"
    assert "2 pairs in 2 families: 2 confirmed" in text and "| loop-unrolling | 2 | 1.50 |" in text
    assert "NVIDIA H200 (2)" in text and "1.2.3" in text and "@misc" in text


def test_every_column_has_words_and_no_other_name_has() -> None:
    assert {column for listed in parquet.CONFIGS.values() for column in listed} == set(columns.WORDS)


def test_the_croissant_description_names_every_file_and_column() -> None:
    (file,) = parquet.data_files("pairs", {"train": [a_row(pair("demo/a"))]})
    data = json.loads(croissant.describe("Pairs", "What it is.", "1.0.0", [file]))
    (listed,), (records,) = data["distribution"], data["recordSet"]
    assert listed["contentUrl"] == file.path and listed["sha256"] == hashlib.sha256(file.content).hexdigest()
    # No suite's tree, model or second GPU model has a part in it, but a suite is named.
    missing = columns.SPARSE - {"suite"}
    assert [field["name"] for field in records["field"]] == [name for name in COLUMNS if name not in missing]
    assert {field["source"]["fileObject"]["@id"] for field in records["field"]} == {listed["@id"]}
    assert {field["@id"].rpartition("/")[0] for field in records["field"]} == {records["@id"]}


@pytest.mark.parametrize(
    ("licences", "stated"),
    [(("MIT", "Apache-2.0"), ["apache-2.0", "mit"]), (("MIT", "NCSA AND BSD-3-Clause"), "other")],
)
def test_the_card_states_every_licence(licences: tuple[str, str], stated: object) -> None:
    rows = [a_row(pair(f"demo/{i}", i, license=name)) for i, name in enumerate(licences)]
    assert card.metadata(content(*rows))["license"] == stated


def test_the_plot_shows_every_speedup_once() -> None:
    drawn = card.speedups_svg([1.1, 1.1, 3.0, 500.0], "Speedups & more")
    titles = [
        found.text or "" for found in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")
    ]
    counted = [int(match[1]) for text in titles if (match := re.search(r": (\d+)$", text))]
    assert sum(counted) == 4 and titles[0] == "Speedups & more"
