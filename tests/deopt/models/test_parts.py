"""The small parts: model names, prices, the budget, likeness, sides of answers, examples."""

from __future__ import annotations

import threading
import time
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from deopt.models import workbench
from deopt.models.workbench import FAST, NO_LDG, NO_UNROLL
from hypothesis import given
from hypothesis import strategies as st

from kcurate.core import store
from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.deopt.models.examples import Examples
from kcurate.deopt.models.gates import Known, Variants
from kcurate.deopt.models.targets import Target, chosen_techniques, targets
from kcurate.deopt.starts import Start
from kcurate.errors import InputError
from kcurate.models import prices
from kcurate.models.naming import ModelName, parse_model
from kcurate.models.prices import Budget, BudgetSpentError
from kcurate.problem.answered import side_of
from kcurate.problem.techniques import vocabulary
from kcurate.prompts import Answer
from kcurate.records import AttemptOutcome, Candidate, Environment, Origin, Outcome, Side, Usage, Verdict

MODELS = tuple(tomllib.loads(files("kcurate.models").joinpath("prices.toml").read_text())["models"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("claude", ModelName("anthropic", prices.default_model())),
        ("claude-opus-4-8", ModelName("anthropic", "claude-opus-4-8")),
        ("openai:qwen@http://localhost:8000/v1", ModelName("openai", "qwen", "http://localhost:8000/v1")),
        ("openai:org/a@b@https://host/v1", ModelName("openai", "org/a@b", "https://host/v1")),
        ("openai:gpt-9", ModelName("openai", "gpt-9")),
    ],
)
def test_model_names(text: str, expected: ModelName) -> None:
    assert parse_model(text) == expected


@pytest.mark.parametrize(
    "text", ["", "gpt", "Claude", "claude-", "openai:", "openai:q@", "openai:@http://x", "openai:q@x"]
)
def test_invalid_model_names(text: str) -> None:
    with pytest.raises(InputError, match="not a model"):
        parse_model(text)


def test_slugs_are_file_names() -> None:
    assert ModelName("openai", "org/Model:7b").slug == "org-Model-7b"
    assert ModelName("openai", "../..").slug == "model"


def test_the_default_model_has_a_price_and_every_price_is_sane() -> None:
    assert prices.default_model() in MODELS
    for model in MODELS:
        price = prices.find_price(model)
        assert price is not None
        assert 0 < price.cache_read < price.input < price.cache_write < price.output
    assert prices.find_price("claude-haiku-4-5-20251001") == prices.find_price("claude-haiku-4-5")
    assert prices.find_price("claude-nonsense") is None
    assert prices.facts("claude-nonsense") == prices.Facts()  # a new model is spoken to as the newest are
    assert not prices.facts("claude-haiku-4-5-20251001").adaptive


def test_a_long_prompt_costs_more_where_the_table_says_so() -> None:
    price = prices.find_price("claude-haiku-5-5")
    assert price is not None
    short, long = Usage(99_999, 0), Usage(60_000, 0, cache_read_tokens=60_000)
    assert price.cost_usd(short) == pytest.approx(0.0099999)
    assert price.cost_usd(long) == pytest.approx(5 * (60_000 * 0.1 + 60_000 * 0.01) / 1e6)


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.sampled_from(MODELS), st.booleans())
def test_no_exchange_costs_more_than_was_reserved(size: int, out: int, model: str, batch: bool) -> None:
    price = prices.find_price(model)
    assert price is not None
    most = price.most_usd(size, out, batch=batch)
    for usage in (Usage(size, out), Usage(0, out, cache_write_tokens=size), Usage(0, out, 0, size)):
        assert price.cost_usd(usage, batch=batch) <= most + 1e-12


def test_given_prices() -> None:
    assert prices.parse_price("0,0").cost_usd(Usage(100, 100)) == 0
    assert prices.parse_price("2,10").cache_write == 2.5
    assert prices.parse_price("2,10,3,0.2").cache_read == 0.2
    for text in ("", "1", "1,2,3", "a,b", "-1,2", "nan,1", "inf,1"):
        with pytest.raises(InputError, match="not a price"):
            prices.parse_price(text)


def test_a_budget_waits_for_reservations_to_be_released() -> None:
    budget = Budget(1.0)
    budget.hold(0.9)
    held = threading.Event()

    def hold() -> None:
        budget.hold(0.8)
        held.set()

    thread = threading.Thread(target=hold)
    thread.start()
    assert not held.wait(0.05)
    budget.settle(0.9, 0.1)
    thread.join(5)
    assert held.is_set()
    with pytest.raises(BudgetSpentError, match=r"\$0\.1000 spent, the next may cost \$0\.9500"):
        budget.hold(0.95)  # more than can ever be left: no waiting
    budget.settle(0.8, 0.8)
    assert budget.spent_usd == pytest.approx(0.9)


def test_a_budget_holds_whatever_runs_side_by_side() -> None:
    budget = Budget(1.0)
    peak: list[float] = []

    def work() -> None:
        for _ in range(20):
            try:
                budget.hold(0.07)
            except BudgetSpentError:
                return
            time.sleep(0.0005)
            budget.settle(0.07, 0.03)
            peak.append(budget.spent_usd)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert 0.9 < max(peak) <= 1.0


def test_renaming_does_not_change_a_fingerprint_and_swapping_axes_does() -> None:
    body = "int i = threadIdx.x; int j = threadIdx.y; a[i * n + j] = sqrtf(n);"
    code = f"__global__ void k(float *a, int n) {{ {body} }}"
    renamed = (
        code.replace("a[", "out[").replace("*a", "*out").replace("int n", "int size").replace("n)", "size)")
    )
    renamed = renamed.replace("n +", "size +")
    assert fingerprint(code).exact == fingerprint(renamed).exact
    swapped = code.replace("threadIdx.x", "threadIdx.z")
    assert fingerprint(code).exact != fingerprint(swapped).exact
    assert fingerprint(code).exact != fingerprint(code.replace("sqrtf", "rsqrtf")).exact
    assert fingerprint(code).exact != fingerprint(code.replace("i * n + j", "j * n + i")).exact
    assert fingerprint(code).likeness(fingerprint(code)) == 1.0
    assert fingerprint(code).likeness(fingerprint("int x;")) < 0.2


def test_variants_of_other_techniques_may_be_nearly_the_same() -> None:
    variants = Variants()
    long = FAST + "".join(f"__device__ int f{i}(int x) {{ return x * {i}; }}\n" for i in range(40))
    unroll, ldg = frozenset({"loop-unrolling"}), frozenset({"read-only-cache"})
    changed = long.replace("__ldg(x + at)", "x[at]")
    assert variants.admit(Known("a", unroll, fingerprint(long))) is None
    assert variants.refuse(Known("b", ldg, fingerprint(changed))) is None
    refusal = variants.refuse(Known("b", unroll, fingerprint(changed)))
    assert refusal is not None
    assert refusal.outcome is AttemptOutcome.NEAR_DUPLICATE
    assert variants.refuse(Known("a", unroll, fingerprint(changed))) is None  # itself, written again
    variants.add(Known("c", unroll, fingerprint("int other;"), "b1"))
    same = variants.refuse(Known("d", ldg, fingerprint("float else;"), "b1"))
    assert same is not None
    assert same.outcome is AttemptOutcome.SAME_MACHINE_CODE


def test_a_fast_side_that_is_nearly_another_is_judged_and_stays_if_it_is_faster() -> None:
    variants = Variants()
    long = FAST + "".join(f"__device__ int f{i}(int x) {{ return x * {i}; }}\n" for i in range(40))
    unroll, changed = (
        frozenset({"loop-unrolling"}),
        fingerprint(long.replace("#pragma unroll 4", "#pragma unroll 8")),
    )
    assert variants.admit(Known("a", unroll, fingerprint(long), ratio=2.0)) is None
    assert variants.refuse(Known("b", unroll, changed)) is None
    assert variants.refuse(Known("b", unroll, changed, ratio=2.09)) is not None
    assert variants.admit(Known("b", unroll, changed, ratio=2.11)) is None
    variants.add(Known("c", unroll, fingerprint(long)))  # of another model: its time is not known
    assert variants.refuse(Known("d", unroll, changed, ratio=9.0)) is not None


def start(code: str = FAST, *, techniques: tuple[str, ...] = ()) -> Start:
    side = workbench.side(code)
    return Start("own/scale", side, workbench.problem(), "scale", "d", "MIT", Origin("model"), techniques)


def goal(code: str = FAST) -> Target:
    (target,) = targets(start(code), "slow", chosen_techniques(["loop-unrolling"]), 1, ladders=False)
    return target


def test_targets_follow_what_the_start_is_known_for_or_shows() -> None:
    def names(**options: object) -> list[list[str]]:
        found = targets(start(**options), "slow", (), 2, ladders=False)  # type: ignore[arg-type]
        return [[technique.name for technique in target.ladder] for target in found]

    assert names() == [["loop-unrolling"]] * 2 + [["read-only-cache"]] * 2 + [[]]
    assert names(techniques=("warp-vote", "unheard-of")) == [["warp-vote"]] * 2 + [[]]
    assert names(code="__global__ void k() {}") == [[]] * 2
    (ladder,) = targets(start(), "slow", (), 1, ladders=True)
    assert [technique.name for technique in ladder.ladder] == ["loop-unrolling", "read-only-cache"]


def test_techniques_are_those_of_the_vocabulary() -> None:
    assert [one.name for one in chosen_techniques(["warp-vote, loop-unrolling", "warp-vote"])] == [
        "warp-vote",
        "loop-unrolling",
    ]
    assert all(technique.meaning for technique in vocabulary().values())


LAUNCH = {"launch": "scale", "grid": [1], "block": [1], "args": ["part", "y", "n"]}


def answered(answer: Answer) -> Side | str:
    return side_of(answer, goal().given, goal().problem)


def test_an_answer_keeps_the_plan_or_brings_its_own_with_scratch() -> None:
    kept = answered(Answer(NO_LDG))
    assert isinstance(kept, Side)
    assert kept.plan == goal().given.plan
    own = side_of(
        Answer(NO_LDG, [LAUNCH], {"part": {"dtype": "float32", "shape": ["n"]}}), goal().given, goal().problem
    )
    assert isinstance(own, Side)
    assert own.plan[0].args == ("part", "y", "n")  # type: ignore[union-attr]
    assert own.buffers["part"].role == "scratch"
    assert own.nondeterministic == ()
    atomics = side_of(
        Answer(NO_LDG.replace("y[at] =", "atomicAdd(y + at, 1.0f); y[at] =")), goal().given, goal().problem
    )
    assert isinstance(atomics, Side)
    assert atomics.nondeterministic == ("y",)


deep: object = [LAUNCH]
for _ in range(300):
    deep = [{"for": "t", "to": 2, "do": deep}]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer("int " * 30_000), "too long"),
        (Answer("x += 1;\n" * 4000), "repeats itself"),
        (Answer("__shared__ " * 30), "a statement is too long"),
        (Answer(NO_LDG, buffers={"part": {"dtype": "float32", "shape": [1]}}), "buffers without a plan"),
        (Answer(NO_LDG, [LAUNCH] * 500), "the plan is too long"),
        (Answer(NO_LDG, [LAUNCH], {"y": {"dtype": "float32", "shape": [1]}}), "the problem already has a y"),
        (Answer(NO_LDG, [LAUNCH], {"part": {"dtype": "float32"}}), "needs dtype and shape"),
        (
            Answer(NO_LDG, [LAUNCH], {"part": {"dtype": "float32", "shape": [1], "role": "in"}}),
            "only be scratch",
        ),
        (Answer(NO_LDG, ["text"]), "plan step needs one of"),
        (Answer(NO_LDG, deep), "nested too deeply"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_makes_no_side_says_why(answer: Answer, said: str) -> None:
    found = answered(answer)
    assert said in (found if isinstance(found, str) else "")


def test_examples_are_confirmed_pairs_of_other_families(tmp_path: Path) -> None:
    technique = vocabulary()["loop-unrolling"]
    for name, family, techniques, confirmed in (
        ("right", "other", ("loop-unrolling",), True),
        ("same-family", "scale", ("loop-unrolling",), True),
        ("other-technique", "other", ("warp-vote",), True),
        ("unproved", "other", ("loop-unrolling",), False),
    ):
        folder = tmp_path / name
        sides = (workbench.side("// said\n" + NO_UNROLL + f"// {name}\n"), workbench.side(FAST))
        pair = Candidate(
            name, family, "d", None, Origin("curated"), techniques, "", workbench.problem(), *sides
        )
        store.write_candidate(folder, pair)
        if confirmed:
            store.write_verdict(folder, Verdict(name, "k", Outcome.CONFIRMED, Environment("cuda", "GPU")))
    (example,) = Examples(tmp_path)(goal(), technique)
    assert (example.slow, example.fast, example.technique) == (NO_UNROLL, FAST, "loop-unrolling")
    assert Examples(tmp_path)(goal(), None) == ()
