"""What running shows about a slow side that was made: the decisions, and the judge that takes them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import pytest
import small
from timed_rig import TimedJudge

from kcurate.backends.base import Counts
from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.judge import ablated_runs, judging, made_slow, made_slow_limits, needless
from kcurate.judge.counted_runs import Counted, CountedRuns
from kcurate.judge.made_slow_limits import above_cap, ratio_grew_too_much, wasted
from kcurate.judge.needless import Search, Suspect, suspects
from kcurate.judge.trials import largest_test, trials
from kcurate.mutate.ablations import Ablation, ablations
from kcurate.records import (
    BenchSize,
    Candidate,
    Environment,
    Origin,
    Outcome,
    Sizes,
    SizeTiming,
    Speedup,
    Verdict,
)
from kcurate.verdicts.keys import verdict_key
from kcurate.verdicts.naive import naive_speedup

MADE = Origin("model", made="slow", model="test")
TILED = "image-signal/dct8x8"


def counts(code: int, threads: int = 100_000, idle: int = 0, shared: int = 0, read: int = 0) -> Counts:
    """An access for each byte of code."""
    return Counts(threads, idle, code, code, shared, read, 0, 0)


def ran(*ratios: float, bench: float | None = None, fast: int = 1000) -> Counted:
    """Both sides at test sizes of the same work for the fast side, then at one of a hundred times that."""
    tests = tuple((counts(int(ratio * fast)), counts(fast)) for ratio in ratios)
    large = 100 * fast
    return Counted(tests, (counts(int(bench * large)), counts(large)) if bench is not None else None)


@pytest.mark.parametrize(
    "honest",
    [
        ran(1.0, 0.5, bench=0.9),
        ran(16.5, 12.1, bench=16.5),  # image-signal/dct8x8
        ran(2.9, 1.4, bench=11.6),  # cryptography-compression/hamming-match
        ran(19.0),
        ran(100.0, bench=1.0),  # what only the test sizes show is no claim
        Counted(()),
    ],
)
def test_what_hand_written_sides_run_is_no_waste(honest: Counted) -> None:
    assert wasted(honest) is None


@pytest.mark.parametrize(
    ("padded", "words"),
    [
        (ran(21.0), "21 times as many; the limit is 20 times"),
        (ran(15.0, 16.0, bench=21.0), "21 times"),
        (ran(1.0, 1.2, bench=10.0), "the limit is 9.6 times"),
        (ran(4.0, 130.0), "130 times as many; the limit is 128 times"),
        (Counted((), endless=True), "time limit"),
    ],
)
def test_far_more_code_is_waste(padded: Counted, words: str) -> None:
    found = wasted(padded)
    assert found is not None
    assert words in found


@pytest.mark.parametrize(
    ("accesses", "sectors", "refused"),
    [
        (100, 100, True),  # it only computes more
        (300, 100, False),  # it reads again what it could keep
        (100, 300, False),  # its lanes are far apart
    ],
)
def test_more_code_comes_with_more_accesses(accesses: int, sectors: int, *, refused: bool) -> None:
    slow = replace(counts(9_000), accesses=accesses, sectors=sectors)
    fast = replace(counts(1_000), accesses=100, sectors=100)
    found = wasted(Counted(((slow, fast),)))
    assert ("9 times the code" in found if found else False) is refused
    smaller = (replace(counts(400), accesses=20, sectors=20), replace(counts(200), accesses=20, sectors=20))
    assert wasted(Counted((smaller, (slow, fast)))) is None  # of a higher order


def test_a_ratio_that_grows_with_the_test_sizes_may_go_on_growing() -> None:
    sizes = ((counts(5_000), counts(1_000)), (counts(160_000), counts(8_000)))
    at_bench = (counts(1_600_000_000), counts(800_000))
    assert wasted(Counted(sizes, at_bench)) is None
    steady = ((counts(20_000), counts(1_000)), (counts(160_000), counts(8_000)))
    assert wasted(Counted(steady, at_bench)) is not None


def test_test_sizes_with_hardly_any_work_do_not_make_a_ratio_vary() -> None:
    tiny = (counts(100), counts(100))
    assert wasted(Counted((tiny, (counts(30_000), counts(1_000))))) is not None


@pytest.mark.parametrize(
    ("slow", "fast", "refused"),
    [
        (counts(10, 100_000, 99_000), counts(10, 2_000, 100), True),
        (counts(10, 100_000, 99_000), counts(10, 2_000, 1_999), False),  # so is the fast side
        (counts(10, 1_024, 1_021), counts(10, 1_024, 0), False),  # three elements in one block
        (counts(10, 100_000, 93_000), counts(10, 2_000, 0), False),  # a row of 37 in blocks of 256
    ],
)
def test_idle_threads_are_waste_where_the_fast_side_has_none(
    slow: Counts, fast: Counts, *, refused: bool
) -> None:
    assert (wasted(Counted(((slow, fast),))) is not None) == refused


def test_dynamic_shared_memory_that_no_trial_reads_is_waste() -> None:
    unread, read = counts(10, shared=4096), counts(10, shared=4096, read=4)
    assert "4096 bytes" in (wasted(Counted(((unread, counts(10)),))) or "")
    assert wasted(Counted(((unread, counts(10)), (read, counts(10))))) is None


@pytest.mark.parametrize(
    ("held", "read", "refused"),
    [
        (98_304, 1_024, True),
        (98_304, 30_000, False),
        (8_192, 64, False),  # too little to take occupancy
    ],
)
def test_much_shared_memory_that_is_hardly_read_is_waste(held: int, read: int, *, refused: bool) -> None:
    tiny = Counts(9, 0, 9, 9, 0, 0, held, 64)
    bench = Counts(9, 0, 9, 9, 0, 0, held, read)
    assert (wasted(Counted(((tiny, counts(9)),), (bench, counts(9)))) is not None) == refused
    assert wasted(Counted(((tiny, counts(9)),))) is None  # the test sizes may need little


def speedup(ratio: float) -> Speedup:
    return Speedup(ratio, 0.99 * ratio, 1.01 * ratio, 0.98, 20, 0.02)


@pytest.mark.parametrize(
    ("slow_us", "fast_us", "ratio", "refused"),
    [
        (4.0, 3.0, 17.0, True),
        (4.0, 3.0, 16.1, False),  # its interval reaches the limit
        (4.0, 0.5, 17.0, True),  # both are overhead
        (10.0, 5.0, 17.0, False),
        (2.0, 4.0, 17.0, True),  # a slow side that is faster at the test size gains nothing by it
    ],
)
def test_times_may_grow_as_hardware_explains(
    slow_us: float, fast_us: float, ratio: float, *, refused: bool
) -> None:
    test = SizeTiming("test", Outcome.CONFIRMED, slow_us, fast_us)
    assert (ratio_grew_too_much(test, speedup(ratio)) is not None) == refused


@pytest.mark.parametrize(
    ("ratio", "naive", "refused"),
    [
        (19.0, None, False),
        (21.0, None, True),
        (3.2, 3.0, False),
        (3.5, 3.0, True),
        (60.0, 62.0, False),
        (70.0, 62.0, True),
    ],
)
def test_a_made_slow_side_claims_at_most_what_the_naive_variant_gives(
    ratio: float, naive: float | None, *, refused: bool
) -> None:
    assert (above_cap(speedup(ratio), naive) is not None) == refused


def of_built_in(parent: str) -> Candidate:
    folder = resources.pairs_dir() / parent
    pair = store.read_candidate(folder if ".." not in parent else resources.pairs_dir() / TILED)
    return replace(pair, id="made", origin=replace(MADE, parent=parent))


def test_the_naive_variant_is_that_of_the_pair_a_side_was_made_from() -> None:
    later = "dense-linear-algebra/sgemm-tiled-blocked"
    folder = resources.pairs_dir() / later
    key = verdict_key(store.read_candidate(folder))
    verdict = next(verdict for verdict in store.read_verdicts(folder) if verdict.key == key)
    assert verdict.speedup is not None and verdict.fast is not None and verdict.fast.median_us is not None
    fast_us = verdict.fast.median_us
    found = naive_speedup(of_built_in(later), fast_us, verdict.environment.device, None)
    assert found is not None and found > 5 * verdict.speedup.ratio, "an earlier pair has a slower side"
    twice = naive_speedup(of_built_in(later), fast_us / 2, verdict.environment.device, None)
    assert twice == pytest.approx(2 * found)
    outside = of_built_in(f"../{resources.pairs_dir().name}/{TILED}")
    assert naive_speedup(outside, fast_us, verdict.environment.device, None) is None
    other = of_built_in(TILED)
    assert other.problem is not None
    changed = replace(other.problem, sizes=replace(other.problem.sizes, bench={"rows": 8, "columns": 8}))
    assert naive_speedup(replace(other, problem=changed), 1.0, "a gpu", None) is None


def test_the_naive_variant_may_be_a_natural_pair_of_the_same_kernel(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    natural = replace(small.scaled(), id="suite/one", origin=Origin("natural", kernels=("k1",)))
    folder = workspace.pairs / natural.id
    store.write_candidate(folder, natural)
    made = replace(natural, id="made", origin=replace(MADE, kernels=("k1",)))
    assert naive_speedup(made, 1.0, "another gpu", workspace) is None
    key = verdict_key(natural)
    gpu = Environment("cuda", "a gpu")
    store.write_verdict(
        folder, Verdict(natural.id, key, Outcome.CONFIRMED, gpu, speedup=speedup(30.0), protocol="3")
    )
    assert naive_speedup(made, 1.0, "another gpu", workspace) == 30.0
    assert naive_speedup(made, 1.0, "another gpu", workspace, "another size") is None
    other = replace(made, origin=replace(MADE, kernels=("k2",)))
    assert naive_speedup(other, 1.0, "another gpu", workspace) is None


def test_a_verdict_on_a_made_slow_side_has_a_key_of_its_own() -> None:
    one = small.scaled()
    by_hand = replace(one, origin=Origin("curated"))
    assert verdict_key(replace(one, origin=MADE)) != verdict_key(by_hand)
    assert verdict_key(replace(one, origin=replace(MADE, made="fast"))) == verdict_key(by_hand)


@pytest.fixture(scope="module")
def rig() -> Iterator[TimedJudge]:
    with contextlib.closing(TimedJudge()) as one:
        yield one


def judged(rig: TimedJudge, slow_us: float, origin: Origin = MADE) -> Verdict:
    one = small.scaled()
    assert one.problem is not None
    sizes = replace(one.problem.sizes, bench={"n": 3000})
    rig.us = {"slow": slow_us, "fast": 60.0}
    return rig.judge(replace(one, origin=origin, problem=replace(one.problem, sizes=sizes)))


def test_an_honest_made_slow_side_is_confirmed(rig: TimedJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_slow_limits, "explained_us", lambda counts, registers: 600.0)
    verdict = judged(rig, 230.0)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert {"counted_work", "explained", "minimal"} <= set(verdict.checks)
    assert isinstance(verdict.environment.details["bench_work_ratio"], float)


def test_a_time_that_no_difference_of_counts_explains_is_padded(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_slow_limits, "explained_us", lambda counts, registers: 600.0)
    verdict = judged(rig, 600.0)
    assert (verdict.outcome, verdict.side) == (Outcome.PADDED, "slow")
    assert "beside the fast side, which takes 60 us" in verdict.detail


def test_a_time_that_no_count_explains_is_padded(rig: TimedJudge) -> None:
    verdict = judged(rig, 600.0)
    assert (verdict.outcome, verdict.side) == (Outcome.PADDED, "slow")
    assert "takes 600 us at the bench size" in verdict.detail


def test_a_part_without_which_the_side_is_faster_and_right_is_needless(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Ablation("x += 1;", 7, small.scaled().slow)
    monkeypatch.setattr(made_slow, "suspects", lambda *_, **__: Search((Suspect(part, None),)))
    monkeypatch.setattr(made_slow, "unexplained", lambda *_: None)
    verdict = judged(rig, 600.0)
    assert (verdict.outcome, verdict.side) == (Outcome.PADDED, "slow")
    assert verdict.needless == "x += 1; (line 7)"


@pytest.mark.parametrize("complete", [True, False])
def test_a_search_that_was_cut_off_does_not_say_minimal(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch, *, complete: bool
) -> None:
    monkeypatch.setattr(made_slow, "unexplained", lambda *_: None)
    monkeypatch.setattr(made_slow, "suspects", lambda *_, **__: Search((), 3, complete))
    verdict = judged(rig, 600.0)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert ("minimal" in verdict.checks) is complete
    assert verdict.environment.details.get("untried_parts") == (None if complete else 3)
    assert (f"{made_slow.CUT_OFF}, 3 parts untried" in (verdict.detail or "")) is not complete


@pytest.mark.parametrize(
    ("outcome", "ratio", "minimal"),
    [
        (Outcome.NOT_FASTER, None, True),
        (Outcome.MISMATCH, None, True),
        (Outcome.AMBIGUOUS_TIMING, 1.1, True),
        (Outcome.AMBIGUOUS_TIMING, 1.3, False),
        (Outcome.AMBIGUOUS_TIMING, None, False),  # too short to time
        (Outcome.HARNESS_ERROR, None, False),
    ],
)
def test_a_suspect_that_could_not_be_timed_leaves_the_search_open(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, ratio: float | None, *, minimal: bool
) -> None:
    part = Ablation("x += 1;", 7, small.scaled().slow)
    monkeypatch.setattr(made_slow, "suspects", lambda *_, **__: Search((Suspect(part, None),), 0, True))
    environment = Environment("cuda", "a gpu")
    case = judging.Case(replace(small.scaled(), origin=MADE), "key", environment)
    timed = Verdict("a", "key", outcome, environment, speedup=speedup(ratio) if ratio else None)
    ruling = judging.Ruling(Outcome.CONFIRMED, "")
    made_slow.MadeSlow(None).admit_minimal(case, ruling, lambda _: timed, counted=False)
    assert ("minimal" in case.verdict(ruling).checks) is minimal
    assert (made_slow.CUT_OFF in ruling.detail) is not minimal


@pytest.mark.parametrize(
    ("outcome", "together", "untried"),
    [(Outcome.NOT_FASTER, True, 0), (Outcome.NOT_FASTER, False, 1), (Outcome.MISMATCH, True, 2)],
)
def test_suspects_that_are_not_timed_must_be_part_of_one_that_was(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, *, together: bool, untried: int
) -> None:
    side = replace(small.scaled().slow, code="#pragma unroll 1\n" * 5)
    found = [Suspect(part, None) for part in ablations(side) if part.attribute_offsets]
    found = found if together else found[1:]
    monkeypatch.setattr(made_slow, "suspects", lambda *_, **__: Search(tuple(found), 0, True))
    environment = Environment("cuda", "a gpu")
    case = judging.Case(replace(small.scaled(), origin=MADE), "key", environment)
    ruling, timed = judging.Ruling(Outcome.CONFIRMED, ""), list[Candidate]()

    def judge(candidate: Candidate) -> Verdict:
        timed.append(candidate)
        return Verdict("a", "key", outcome, environment)

    made_slow.MadeSlow(None).admit_minimal(case, ruling, judge, counted=False)
    assert len(timed) == needless.TIMED
    assert case.verdict(ruling).environment.details.get("untried_parts", 0) == untried


@pytest.mark.parametrize("complete", [True, False])
def test_only_a_search_that_ended_spares_the_next_side_of_a_rule(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch, *, complete: bool
) -> None:
    searched: list[Candidate] = []

    def search(_: CountedRuns, candidate: Candidate, **__: object) -> Search:
        searched.append(candidate)
        return Search((), 0, complete)

    monkeypatch.setattr(made_slow, "unexplained", lambda *_: None)
    monkeypatch.setattr(made_slow, "suspects", search)
    for _ in range(2):
        verdict = judged(rig, 600.0, Origin("rule", made="slow", rules=(f"rule-{complete}",)))
        assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert len(searched) == (1 if complete else 2)


def test_a_side_that_cannot_be_counted_is_not_confirmed(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedRuns, "count", lambda self, candidate: None)
    assert judged(rig, 600.0).outcome is Outcome.UNSUPPORTED


def test_a_claim_above_the_cap_is_padded(rig: TimedJudge) -> None:
    verdict = judged(rig, 1500.0)
    assert (verdict.outcome, verdict.side) == (Outcome.PADDED, "slow")
    assert "the limit is 20" in verdict.detail


def test_a_claim_above_the_cap_at_another_size_is_padded(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(name: str, *_: object) -> SizeTiming:
        return SizeTiming(name, Outcome.CONFIRMED, 1500.0, 60.0, speedup(25.0))

    monkeypatch.setattr(judging, "time_other_size", timed)
    one = small.scaled()
    assert one.problem is not None
    bench = (BenchSize("long", {"n": 3000}, headline=True), BenchSize("short", {"n": 2000}))
    problem = replace(one.problem, sizes=replace(one.problem.sizes, bench=bench))
    rig.us = {"slow": 120.0, "fast": 60.0}
    verdict = rig.judge(replace(one, origin=MADE, problem=problem))
    assert verdict.outcome is Outcome.PADDED, verdict.detail
    assert "claims 25 times" in verdict.detail


@pytest.mark.parametrize("origin", [Origin("curated"), replace(MADE, made="fast")])
def test_nothing_is_asked_of_a_slow_side_that_nobody_made(rig: TimedJudge, origin: Origin) -> None:
    verdict = judged(rig, 1500.0, origin)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert "counted_work" not in verdict.checks


@pytest.mark.parametrize(("at_test_us", "outcome"), [(6.0, Outcome.PADDED), (90.0, Outcome.CONFIRMED)])
def test_times_are_compared_where_nothing_can_be_counted(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch, at_test_us: float, outcome: Outcome
) -> None:
    def timed(name: str, *_: object) -> SizeTiming:
        return SizeTiming(name, Outcome.CONFIRMED, at_test_us, 6.0)

    monkeypatch.setattr(CountedRuns, "count", lambda self, candidate: None)
    monkeypatch.setattr(judging, "time_other_size", timed)
    verdict = judged(rig, 18 * 60.0, Origin("rule", made="slow"))
    assert verdict.outcome is outcome, verdict.detail
    assert verdict.environment.details["test_slow_us"] == at_test_us


def test_of_rules_one_side_each_is_searched_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[str, ...]] = []
    complete = True

    def suspects(_: CountedRuns, candidate: Candidate, **__: bool) -> Search:
        searched.append(candidate.origin.rules)
        return Search(complete=complete)

    monkeypatch.setattr(made_slow, "suspects", suspects)
    examiner = made_slow.MadeSlow(None, frozenset({"known"}))

    def examine(*rules: str, kind: Literal["rule", "model"] = "rule") -> bool:
        made = replace(small.scaled(), origin=Origin(kind, made="slow", rules=rules))
        case = judging.Case(made, "key", Environment("cuda", "a gpu"))
        ruling = judging.Ruling(Outcome.CONFIRMED, "")
        examiner.admit_minimal(case, ruling, lambda _: pytest.fail("no suspects"), counted=False)
        return bool(searched and searched[-1] == rules)

    assert not examine("known")
    assert examine("known", "a")
    assert not examine("a")
    complete = False
    assert examine("b") and examine("a", "b"), "what was cut off shows nothing"
    assert examine("a", kind="model"), "a model may write anything under a rule's name"


def test_the_largest_test_size_is_the_one_that_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[BenchSize] = []

    def timed(size: BenchSize) -> SizeTiming:
        asked.append(size)
        return SizeTiming(size.name, Outcome.CONFIRMED, 5.0, 5.0)

    by_rule = Origin("rule", made="slow")
    case = judging.Case(replace(small.scaled(), origin=by_rule), "key", Environment("cuda", "a gpu"))
    case.speedup = speedup(2.0)
    case.update_report("fast", median_us=10.0)
    case.update_report("slow", median_us=0.0)
    one = made_slow.MadeSlow(None)
    counted: list[Counted | None] = [None, ran(1.0, bench=1.0)]
    monkeypatch.setattr(CountedRuns, "count", lambda self, candidate: counted.pop(0))
    one.admit_times(case, judging.Ruling(Outcome.CONFIRMED, ""), timed)
    assert [size.sizes for size in asked] == [{"n": 1000}]
    one.admit_times(case, judging.Ruling(Outcome.NOT_FASTER, ""), timed)
    assert len(counted) == 1, "counted only where a speedup is claimed"
    one.admit_times(case, judging.Ruling(Outcome.CONFIRMED, ""), timed)
    assert len(asked) == 1 and not counted


@pytest.mark.slow
def test_what_a_fast_side_does_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran_sides: list[str] = []
    original = CountedRuns._run

    def run(self: CountedRuns, candidate: Any, side: Any, *rest: Any) -> Any:
        ran_sides.append(side)
        return original(self, candidate, side, *rest)

    monkeypatch.setattr(CountedRuns, "_run", run)
    one = replace(small.scaled(), origin=MADE)
    other = replace(one, fast=replace(one.fast, code=one.fast.code + "\n"))
    with contextlib.closing(CountedRuns()) as runs:
        found = [runs.count(candidate) for candidate in (one, one, other)]
    assert ran_sides == ["fast", "slow", "slow", "fast", "slow"]
    assert found[0] is not None and found[1] is not None
    assert [fast for _, fast in found[0].tests] == [fast for _, fast in found[1].tests]


CHEATS = Path(__file__).parents[1] / "cheats"


@pytest.mark.parametrize(("name", "suspected"), [("scattered_places", True), ("honest_column_order", False)])
def test_other_places_are_suspected_only_where_accesses_are_scattered(name: str, suspected: bool) -> None:
    runs = CountedRuns()
    try:
        texts = [suspect.text for suspect in suspects(runs, store.read_candidate(CHEATS / name)).suspects]
    finally:
        runs.close()
    assert any("place" in text and "serves" in text for text in texts) is suspected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("waits_for_the_sum", "the value of at in at = sum > 1e30f ? 0 : row;, where row serves"),
        ("ordered_for_nobody", "the order of in.load()"),
        (
            "product_by_logarithms",
            "the value (float)exp(log((double)a[i]) + log((double)b[i])), where (a[i] * b[i])",
        ),
        ("index_through_divisions", "the value wide / 1000003ull % ((unsigned long long)n + 7ull), where"),
        ("honest_squares_by_powf", ""),
        ("honest_double_literals", ""),
        ("honest_walk_along_links", ""),
    ],
)
def test_what_counts_do_not_show_is_timed(name: str, words: str) -> None:
    with contextlib.closing(CountedRuns()) as runs:
        found = suspects(runs, store.read_candidate(CHEATS / name)).suspects
    assert {part.gain for part in found} <= {None}
    assert any(part.text.startswith(words) for part in found) if words else not found


@pytest.mark.parametrize(("limit", "suspected"), [("BENCH_S", True), ("TRYING_S", False)])
def test_what_time_does_not_suffice_for_is_not_needed(
    monkeypatch: pytest.MonkeyPatch, limit: str, *, suspected: bool
) -> None:
    monkeypatch.setattr(needless, "TRYING_S", 60.0)
    monkeypatch.setattr(needless, limit, 0.0)
    with contextlib.closing(CountedRuns()) as runs:
        search = suspects(runs, store.read_candidate(CHEATS / "last_sweep_sees_all"))
    assert any(part.text.startswith("all but the last round") for part in search.suspects) is suspected
    assert not search.complete
    assert (search.untried == 0) is suspected


def test_a_part_is_tried_on_all_trials_of_the_test_sizes() -> None:
    problem = small.scaled().problem
    assert problem is not None
    series, tests = needless._largest_first(problem, 7), [*trials(problem, 7)]
    assert series[0].sizes == problem.sizes.test[largest_test(problem)]
    assert sorted(trial.slot for trial in series) == sorted(trial.slot for trial in tests)
    assert series[0] is not tests[0] or len(problem.sizes.test) == 1


def test_a_part_that_needs_all_others_does_not_hide_them() -> None:
    candidate = small.scaled()
    dear, *others = [part for part in ablations(candidate.slow) if part.numbers][:5]
    search = needless._PartSearch.__new__(needless._PartSearch)
    search._candidate, search._gains = candidate, {}
    search.ablated = Mock(out_of_time=lambda: False)

    def passes(joined: Ablation) -> bool:
        search._gains[needless._key(joined)] = 1.1 * len(joined.numbers)
        return joined.numbers == dear.numbers or not set(dear.numbers) & set(joined.numbers)

    assert search._largest_set((dear, *others), passes) == (dear,)
    assert search._costliest_set((dear, *others), passes) == tuple(others)


def test_a_busy_machine_finds_what_an_idle_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    hour_s = 3600.0

    class Busy:
        """All clocks but the processor's go on by an hour whenever they are read."""

        thread_time, now_s = staticmethod(time.thread_time), 0.0

        def perf_counter(self) -> float:
            self.now_s += hour_s
            return self.now_s

    pair = store.read_candidate(CHEATS / "last_sweep_sees_all")
    with contextlib.closing(CountedRuns()) as runs:
        idle = suspects(runs, pair, counted_only=True)
        monkeypatch.setattr(ablated_runs, "STARVED", 1e9)
        monkeypatch.setattr(needless, "time", busy_clock := Busy())
        monkeypatch.setattr(ablated_runs, "time", busy_clock)
        busy = suspects(runs, pair, counted_only=True)
        monkeypatch.setattr(ablated_runs, "STARVED", 1.0)
        starved = suspects(runs, pair, counted_only=True)
    assert idle.complete
    assert busy == idle
    assert not starved.complete


SOFTMAX = """
extern "C" __global__ void softmax(const float* in, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float largest = in[row * cols];
    for (int i = 1; i < cols; i++) largest = fmaxf(largest, in[row * cols + i]);
    float sum = 0.0f, more = 0.0f;
    for (int i = 0; i < cols; i++) sum += expf(in[row * cols + i] - largest);
    WORK
    for (int i = 0; i < cols; i++) out[row * cols + i] = expf(in[row * cols + i] - largest) / sum + more;
}
"""
# It matters only far outside the inputs' range, where the fast side does nothing of the kind.
OWN_AFFAIR = "for (int i = 0; i < cols; i++) if (expf(in[row * cols + i]) > 1e30f) more += 1.0f;"


def test_what_keeps_numbers_from_overflowing_is_needed() -> None:
    pair = store.read_candidate(resources.pairs_dir() / "deep-learning" / "softmax-thread-block")
    assert pair.problem is not None
    sizes = Sizes(({"rows": 3, "cols": 90}, {"rows": 131, "cols": 33}), {"rows": 1024, "cols": 512})
    pair = replace(pair, problem=replace(pair.problem, sizes=sizes))
    suspected = {}
    with contextlib.closing(CountedRuns()) as runs:
        for work in ("", OWN_AFFAIR):
            slow = replace(pair.slow, code=SOFTMAX.replace("WORK", work))
            search = suspects(runs, replace(pair, slow=slow))
            suspected[work] = [part.ablation.line for part in search.suspects]
    assert 6 not in suspected[""], "the loop for the maximum"
    assert 9 in suspected[OWN_AFFAIR]
