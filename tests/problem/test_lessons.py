"""Which pairs teach, and what each prompt asks for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from small import scaled

from kcurate.problem.lessons import FEW, RULE_GAIN, Lesson, Proved, Untaught, gpu_named, lessons, together
from kcurate.records import Candidate, Origin, View


def rung(name: str, body: str, *techniques: str) -> Candidate:
    """A pair with the slow side of all others, and another fast side."""
    base = scaled("demo")
    code = base.fast.code.rstrip().removesuffix("}") + f"    {body}\n}}\n"
    return replace(base, id=name, techniques=techniques, fast=replace(base.fast, code=code))


def asked(found: tuple[Lesson, ...]) -> dict[str, str | None]:
    return {one.pair.id: one.technique for one in found}


def test_a_prompt_stands_once_and_other_answers_ask_for_a_technique() -> None:
    best = rung("demo/best", "int best = 1;", "loop-unrolling", "warp-shuffle")
    one = rung("demo/one", "int one = 1;", "loop-unrolling")
    other = rung("demo/other", "int other = 1;", "loop-unrolling")
    found = lessons([Proved(one, 2.0), Proved(best, 5.0), Proved(other, 3.0)])
    assert asked(found.taught) == {"demo/best": None, "demo/other": "loop-unrolling"}
    assert found.untaught == {"demo/one": Untaught.SAME_PROMPT}
    by_id = {lesson.pair.id: lesson for lesson in found.taught}
    assert "loop-unrolling" in by_id["demo/other"].prompt.task
    assert "as fast as you can" in by_id["demo/best"].prompt.task
    assert lessons([Proved(other, 3.0), Proved(best, 5.0), Proved(one, 2.0)]) == found


def test_prompts_that_differ_in_the_gpu_alone_are_one() -> None:
    one, other = rung("demo/one", "int one = 1;"), rung("demo/other", "int other = 1;")
    found = lessons([Proved(one, 2.0, "NVIDIA H100"), Proved(other, 3.0, "NVIDIA H200")])
    assert [lesson.pair.id for lesson in found.taught] == ["demo/other"]
    assert "GPU: NVIDIA H200\n" in found.taught[0].prompt.context


def test_an_answer_stands_once_for_a_prompt() -> None:
    one = rung("demo/one", "int one = 1;", "loop-unrolling")
    found = lessons([Proved(one, 2.0), Proved(replace(one, id="demo/two"), 2.0)])
    assert asked(found.taught) == {"demo/one": None}


def test_layouts_and_single_sizes_are_not_asked_for() -> None:
    one = scaled("demo/one")
    assert one.problem is not None
    laid_out = replace(one, slow=replace(one.slow, views={"x": View(pad=((0, 3),))}))
    single = replace(one, id="demo/single", problem=replace(one.problem, single_size=True))
    found = lessons([Proved(laid_out), Proved(single)])
    assert not found.taught
    assert found.untaught == {one.id: Untaught.LAYOUT, "demo/single": Untaught.SINGLE_SIZE}


def made_by(name: str, *rules: str, local: bool = False) -> Candidate:
    """A pair whose given side a rule made: the answer and one line more, or code with none of its lines."""
    base = scaled("demo")
    lines = "".join(f"    // {name}\n    int v{i} = {i}; (void)v{i};\n" for i in range(30))
    fast = base.fast.code.rstrip().removesuffix("}") + lines + "}\n"
    given = fast if local else base.slow.code
    slow = given.replace("{", "{ int " + name.replace("/", "_") + " = 0;", 1)
    origin = Origin("rule", made="slow", rules=rules)
    return replace(
        base,
        id=name,
        origin=origin,
        slow=replace(base.slow, code=slow),
        fast=replace(base.fast, code=fast),
    )


def test_sides_made_by_rules_are_taught_in_measure() -> None:
    proved = [Proved(made_by(f"demo/a{i}", "unroll"), 2.0 + i) for i in range(FEW + 3)]
    proved += [Proved(made_by(f"demo/b{i}", "barrier"), 1.9) for i in range(2)]
    proved += [Proved(made_by("demo/small", "padding"), RULE_GAIN - 0.01)]
    found = lessons(proved)
    assert set(asked(found.taught)) == {*(f"demo/a{i}" for i in range(3, FEW + 3)), "demo/b0", "demo/b1"}
    assert found.untaught == {
        "demo/small": Untaught.SMALL_GAIN,
        **{f"demo/a{i}": Untaught.MANY_OF_A_RULE for i in range(3)},
    }


def test_caps_hold_among_what_is_kept() -> None:
    """Not among what was offered: here every third of it is dropped by another cap."""
    proved = [Proved(made_by(f"demo/a{i:02}", "unroll", local=i % 2 == 0), 9.0 + i) for i in range(30)]
    proved += [Proved(made_by(f"demo/b{i:02}", f"rule-{i % 7}"), 2.0) for i in range(30)]
    schedules = ["tiles"] * 20 + ["tiles scan"] * 20 + [f"kind-{i % 5}" for i in range(40)]
    for at, names in enumerate(schedules):
        pair = made_by(f"minted/{at}/triton", *names.split(), "tiles")
        proved.append(Proved(replace(pair, origin=replace(pair.origin, kind="minted", made=None)), 1.1))
    found = lessons(proved)
    for minted in (True, False):
        kept = [lesson for lesson in found.taught if lesson.pair.id.startswith("minted/") == minted]
        names = Counter(
            name
            for lesson in kept
            for name in ([tuple(sorted({*lesson.pair.origin.rules}))] if minted else lesson.pair.origin.rules)
        )
        assert len(kept) > 20
        assert max(names.values()) <= len(kept) / 5
        assert sum(lesson.local_edit for lesson in kept) <= len(kept) / 3
    assert Counter(found.untaught.values())[Untaught.MANY_OF_A_SCHEDULE] > 0


def test_a_minted_answer_without_schedules_is_taught_once() -> None:
    pair = made_by("minted/0/model")
    proved = Proved(replace(pair, origin=replace(pair.origin, kind="minted", made=None)), 2.0)
    assert [lesson.pair.id for lesson in lessons([proved]).taught] == ["minted/0/model"]


def test_few_local_edits_of_rules_are_taught() -> None:
    proved = [Proved(made_by(f"demo/a{i}", f"rule-{i}", local=True), 3.0 + i) for i in range(FEW + 2)]
    found = lessons(proved)
    assert all(one.local_edit for one in found.taught) and len(found.taught) == FEW
    assert found.untaught == {f"demo/a{i}": Untaught.MANY_LOCAL_EDITS for i in range(2)}
    by_hand = [replace(one, pair=replace(one.pair, origin=Origin("curated"))) for one in proved]
    assert len(lessons(by_hand).taught) == FEW + 2


def test_a_gpu_is_named_with_its_compute_capability() -> None:
    assert gpu_named("NVIDIA H200", "nvrtc 13.0 sm_90a") == "NVIDIA H200 (compute capability 9.0)"
    assert gpu_named("NVIDIA B300", "nvrtc 13.1 sm_103") == "NVIDIA B300 (compute capability 10.3)"
    details = {"compute_capability": "9.0"}
    assert (
        gpu_named("NVIDIA H200", "triton 3.6.0 ptxas 12.8", details) == "NVIDIA H200 (compute capability 9.0)"
    )
    assert gpu_named("x86_64", "g++ 12.2") == gpu_named("NVIDIA H200", None) == ""


def test_families_are_together_through_others() -> None:
    def code(*numbers: int) -> str:
        steps = ["".join(f"v = v * {k}.5f + {n}.0f / w; " for k in range(9)) for n in numbers]
        return "".join(
            f"__device__ float f{i}(float v, float w) {{ {s} return v; }}" for i, s in enumerate(steps)
        )

    found = together([("a", code(1)), ("b", code(1, 2)), ("c", code(2)), ("d", code(3))])
    assert found["a"] == found["c"] == {"a", "b", "c"} and found["d"] == {"d"}


def test_a_target_stands_only_behind_a_gpu() -> None:
    one = Proved(rung("demo/one", "int one = 1;"), 2.0, target="Target: 1 us.")
    assert (one.where, replace(one, gpu="G").where) == ("", "G\nTarget: 1 us.")
