"""The gates: seeded secrets, licences, duplicates and contamination are all caught, honest rows are not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch_modules
from dataset.making import a_row, pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcurate.core import resources, store
from kcurate.dataset import contamination, gates, licences, secrets
from kcurate.dataset.gates import Gates, Rules
from kcurate.dataset.rows import row
from kcurate.dataset.stage import RowOutcome
from kcurate.errors import InputError, RecordError
from kcurate.records import Origin

HEX = "0123456789abcdef"
SEEDED = {
    "a private key": "-----BEGIN RSA PRIVATE " + "KEY-----",
    "a Hub token": "hf_" + "aB3" * 12,
    "a GitHub token": "ghp_" + "aB3d" * 9,
    "a GitLab token": "glpat-" + "aB3d" * 5,
    "an AWS key": "AKIA" + "ABCD2345" * 2,
    "a Google key": "AIza" + "aB3d_" * 7,
    "a Slack token": "xoxb-" + "1234567890",
    "a model API key": "sk-" + "ant-" + "aB3d" * 6,
    "a JSON web token": ".".join(["eyJ" + HEX, "eyJ" + HEX, HEX]),
    "a password": 'password = "' + 'correct-horse"',
    "a password in an address": "https://someone:" + "else@example.org/x",
    "a local path": "/home/" + "someone/kernels/a.cu",
    "a local address": "file:///" + "srv/tree",
}


@pytest.mark.parametrize("kind", SEEDED)
@pytest.mark.parametrize("column", ["slow_original", "problem", "url"])
def test_a_seeded_secret_is_caught_and_not_repeated(kind: str, column: str) -> None:
    found = list(secrets.findings({**a_row(pair("demo/a")), column: f"x {SEEDED[kind]} y"}))
    assert f"{kind} in {column}" in found
    assert SEEDED[kind] not in " ".join(found)


@pytest.mark.parametrize("kind", secrets.KINDS)
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_fits_a_pattern_holds_one_of_its_words(kind: str, data: st.DataObject) -> None:
    hit = data.draw(st.from_regex(secrets.KINDS[kind][1]))
    assert f"{kind} in x" in list(secrets.findings({"x": ["nothing", hit]}))


def test_a_secret_does_not_span_two_columns() -> None:
    assert not list(secrets.findings({"one": "password = ", "two": "'correct-horse'"}))


@pytest.mark.parametrize("path", ["C:\\Users\\me", "/Users/me/x", "/root/x", "/tmp/build/x", "(/work/tree)"])
def test_paths_of_a_machine_are_caught(path: str) -> None:
    assert list(secrets.findings({"url": path})) == ["a local path in url"]


@pytest.mark.parametrize(
    "text",
    ["a/home/b", "https://example.org/home/x", "x = y /tmp/ z", "#include <cuda/std/array>", "a//root/b"],
)
def test_what_only_looks_like_a_path_is_let_through(text: str) -> None:
    assert not list(secrets.findings({"slow_code": text}))


@pytest.mark.parametrize("license", ["MIT", "apache-2.0", "NCSA AND BSD-3-Clause", "GPL-2.0-only OR MIT"])
def test_known_licences_may_leave(license: str) -> None:
    assert licences.refusal(license, ()) is None
    assert licences.keeps_original(license)


@pytest.mark.parametrize(
    ("license", "reason"),
    [
        (None, "no licence is known"),
        ("", "no licence is known"),
        ("Freeware", "not an SPDX expression"),
        ("MIT AND", "not an SPDX expression"),
        ("LicenseRef-UIUC-educational-only", "SPDX does not know"),
        ("MIT AND LicenseRef-NVIDIA-EULA", "SPDX does not know LicenseRef-NVIDIA-EULA"),
        ("CC-BY-ND-4.0", "forbids modified copies"),
    ],
)
def test_other_licences_are_refused(license: str | None, reason: str) -> None:
    assert reason in str(licences.refusal(license, ()))
    assert not licences.keeps_original(license)


def test_a_licence_is_allowed_by_its_own_name_only() -> None:
    assert licences.refusal("LicenseRef-A", ("LicenseRef-A",)) is None
    assert licences.refusal(None, ("unknown",)) is None
    assert licences.refusal("MIT AND LicenseRef-B", ("LicenseRef-B",)) is None
    assert licences.refusal("LicenseRef-A AND LicenseRef-B", ("LicenseRef-A",))
    assert licences.refusal("LicenseRef-A", ("unknown",))


def test_the_original_stays_behind_where_the_licence_is_only_allowed() -> None:
    held_back = a_row(pair("demo/a", license="LicenseRef-A"))
    assert held_back["slow_original"] is None and "A remark" not in held_back["slow_code"]
    assert "A remark" in a_row(pair("demo/a"))["slow_original"]


def test_attribution_repeats_the_notices_of_the_files() -> None:
    base = pair("demo/a")
    notice = "/* Copyright (c) 2010 Somebody\n * All rights reserved. */\n// not a right\n"
    other = replace(base, fast=replace(base.fast, code=notice + base.fast.code))
    page = licences.attribution([(other, []), (base, [])])
    assert "## demo: MIT" in page and "- rows: 2" in page
    assert "Copyright (c) 2010 Somebody\nAll rights reserved.\n" in page
    assert "not a right" not in page and "A remark" not in page


def reasons(*rows: dict[str, object], rules: Rules | None = None) -> list[str | None]:
    gates = Gates(rules or Rules())
    return [refused.reason if (refused := gates.offer(one)) else None for one in rows]


def test_exact_near_and_binary_duplicates_are_caught() -> None:
    base = pair("demo/a", 1)
    layout = replace(base, id="demo/b", slow=replace(base.slow, code=base.slow.code.replace(" = ", "  =\n")))
    touched = replace(
        base, id="demo/c", fast=replace(base.fast, code=base.fast.code.replace("1.3f", "1.35f"))
    )
    renamed = pair("demo/d", 9)
    same_binary = {key: a_row(base)[key] for key in ("slow_binary_sha256", "fast_binary_sha256")}
    rows = [
        a_row(base),
        a_row(layout),
        a_row(touched),
        a_row(renamed, **same_binary),
        a_row(pair("demo/e", 4)),
    ]
    for one in rows[1:3]:
        one |= {"slow_binary_sha256": None}
    assert reasons(*rows, rules=Rules(near=0.9)) == [None, "duplicate", "duplicate", "duplicate", None]


def test_equal_host_code_of_the_emulator_is_no_duplicate() -> None:
    emulated = {"slow_binary_sha256": "a", "fast_binary_sha256": "b", "backend": "emulator"}
    assert reasons(a_row(pair("demo/a", 1), **emulated), a_row(pair("demo/b", 8), **emulated)) == [None, None]


def test_rungs_of_a_ladder_share_a_side() -> None:
    first, second = pair("demo/a", 1), pair("demo/b", 7)
    rung = replace(first, id="demo/b", fast=second.fast)
    assert reasons(a_row(first), a_row(rung)) == [None, None]


tokens = st.lists(st.sampled_from(["a", "b", "c", "<", "1"]), max_size=30)


def shingles(code: list[str], plan: list[str]) -> set[tuple[str, ...]]:
    """The runs of five tokens of code and plan, told apart by their first item."""
    both = (("code", code), ("plan", plan))
    return {(kind, *found[i : i + 5]) for kind, found in both for i in range(max(1, len(found) - 4))}


@settings(deadline=None)
@given(tokens, tokens, tokens, tokens)
def test_similarity_is_that_of_the_sets_of_shingles(
    code: list[str], plan: list[str], other_code: list[str], other_plan: list[str]
) -> None:
    one, other = shingles(code, plan), shingles(other_code, other_plan)
    sketches = (
        gates.sketch(" ".join(code), " ".join(plan)),
        gates.sketch(" ".join(other_code), " ".join(other_plan)),
    )
    found = gates.similarity(*(sketch.shingles for sketch in sketches))
    assert found == pytest.approx(len(one & other) / len(one | other))


@pytest.mark.parametrize("near", [0.95, 0.8, 0.5, 0.3])
def test_no_pair_that_is_alike_enough_is_overlooked(near: float) -> None:
    own = int(200 * (1 - near) / (1 + near)) - 3
    shared = " ".join(f"x{i} =" for i in range(200 - own))
    for number in range(100):
        rows = [
            a_row(pair(f"demo/{name}"), slow_code=code, fast_code=f"{name} {code}", backend="emulator")
            for name in (f"a{number}", f"b{number}")
            for code in (" ".join([shared, *(f"{name}_{i} ;" for i in range(own))]),)
        ]
        seen = gates.Seen(near)
        seen.add(rows[0])
        assert f"the tokens of both sides of {rows[0]['id']}" in str(seen.find(rows[1]))


def test_a_row_that_is_no_pair_is_refused() -> None:
    good = a_row(pair("demo/a"))
    bad = [{**good, "slow_us": "fast"}, {**good, "problem": "{"}, {**good, "slow_side": '{"plan": 3}'}]
    assert reasons(*bad, {k: v for k, v in good.items() if k != "key"}) == ["bad_row"] * 4


def reference_sets(root: Path, code: str) -> list[Path]:
    folder = root / "set"
    folder.mkdir()
    body = code.replace("\n", "\n// a comment of theirs\n")
    (folder / "ex.py").write_text(f'import torch\nsource = """{body}"""\n')
    (folder / "other.cu").write_text("__global__ void f(int* a) { a[0] = 1; }\n" * 9)
    (root / "set.jsonl").write_text(json.dumps({"id": 3, "code": code}) + "\n")
    pq.write_table(pa.table({"code": ["nothing", code]}), root / "set.parquet")
    return [folder, root / "set.jsonl", root / "set.parquet"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ev.jsonl", b'{"code": "x"}\n\n{"code"\n', r"ev\.jsonl:3: not JSON"),
        ("ev.jsonl", b"[" * 200_000, r"ev\.jsonl:1: not JSON: nested"),
        ("ev.parquet", b"no columns here", r"ev\.parquet: not Parquet"),
        ("ev.parquet", b"PAR1 no columns PAR1", r"ev\.parquet: not Parquet"),
        ("ev.parquet", b"", r"ev\.parquet: not Parquet"),
    ],
)
def test_evaluation_set_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for place in (tmp_path, tmp_path / name):
        with pytest.raises(RecordError, match=message):
            contamination.read(place)


def test_contamination_is_caught_in_every_form_of_a_set(tmp_path: Path) -> None:
    taken, own = pair("demo/a", 1), pair("demo/b", 8)
    for place in reference_sets(tmp_path, a_row(taken)["fast_code"]):
        gates = Gates(Rules(against=(place,)))
        refused = gates.offer(a_row(taken))
        if place.is_dir():
            assert gates.overlaps[0].item == "ex.py"
        assert refused is not None and refused.reason == "contaminated" and gates.sets[0].name == "set"
        assert gates.offer(a_row(own)) is None


def test_triton_is_found_under_comments_and_docstrings(tmp_path: Path) -> None:
    folder = resources.pairs_dir() / "deep-learning" / "layernorm-triton"
    taken = a_row(store.read_candidate(folder))
    code = str(taken["fast_code"]).replace("    row = ", '    "Theirs."\n    # a // comment\n    row = ', 1)
    (tmp_path / "one.py").write_text(f"import torch\n{code}")
    (tmp_path / "all.json").write_text(json.dumps([{"file": "one.py", "output": code}]))
    for place in (tmp_path / "all.json", tmp_path):
        refused = Gates(Rules(against=(place,))).offer(taken)
        assert refused is not None and refused.reason == "contaminated"


def test_a_set_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such evaluation set"):
        contamination.read(tmp_path / "nothing")
    with pytest.raises(InputError, match="nothing to compare with"):
        contamination.read(tmp_path)


def test_the_built_in_pairs_pass_every_gate() -> None:
    gates = Gates(Rules())
    for folder in store.find_candidates(resources.pairs_dir())[::6]:
        verdicts = store.read_verdicts(folder)
        if verdicts:
            assert gates.offer(row(store.read_candidate(folder), verdicts[0])) is None


def test_problem_of_one_recorded_size_is_counted_apart() -> None:
    own = pair("demo/a")
    assert own.problem is not None
    refused = Gates(Rules()).offer(a_row(replace(own, problem=replace(own.problem, single_size=True))))
    assert refused is not None
    assert refused.reason == RowOutcome.SINGLE_SIZE
    assert Gates(Rules()).offer(a_row(own)) is None


def test_a_side_in_pytorch_is_no_row() -> None:
    row = a_row(torch_modules.scaled_candidate(), license="MIT")
    assert gates.bad_row(row) == "a side is in PyTorch; a row holds device code"
    assert reasons(row) == [gates.BAD_ROW]


def test_an_imported_answer_needs_the_option_and_a_licence() -> None:
    candidate = torch_modules.scaled_candidate()
    imported = replace(candidate, license="MIT", origin=Origin("imported", made="fast"))
    assert reasons(a_row(imported)) == [gates.IMPORTED]
    assert reasons(a_row(imported), rules=Rules(with_imported=True)) == [None]
    unknown = a_row(replace(imported, license=None))
    assert reasons(unknown, rules=Rules(with_imported=True)) == [gates.LICENCE]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"speedup": float("nan")}, "not within its interval"),
        ({"speedup": -2.0, "speedup_low": -3.0, "speedup_high": -1.0}, "not within its interval"),
        ({"speedup": 1e308, "speedup_low": 1e308, "speedup_high": float("inf")}, "not within its interval"),
        ({"speedup": None}, "confirmed without times"),
        ({"slow_us": 100.0, "fast_us": 50.0, "speedup": 500.0, "speedup_low": 499.0, "speedup_high": 501.0},
         "is not that of 100 against 50 us"),
        ({"id": "../../etc/passwd"}, "leads outside the workspace"),
        ({"id": "/etc/passwd"}, "leads outside the workspace"),
        ({"id": "demo/a\n# heading"}, "has characters that no id has"),
    ],
)  # fmt: skip
def test_rows_that_contradict_themselves_are_refused(changes: dict[str, object], why: str) -> None:
    good = a_row(pair("demo/a"))
    assert gates.bad_row(good) is None
    assert why in str(gates.bad_row({**good, **changes}))
