"""The prompts themselves. `FORMAT` changes with every change of a word that a model sees.

A prompt has three parts, most general first, so that a server's prompt cache can keep what repeats: rules
(the same for all), a kernel (the same for all that is asked about it), and the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from kcurate.core import resources
from kcurate.prompts.plan_language import plans, triton_launches
from kcurate.records import Language, Prompt, SideName


@dataclass(frozen=True)
class Technique:
    """An optimisation technique of `schemas/techniques.json` and what it means."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Example:
    """A confirmed pair that shows a technique: the code without and with it."""

    slow: str
    fast: str
    technique: str


@dataclass(frozen=True)
class Earlier:
    """An earlier answer, with the findings on it."""

    code: str
    plan: str | None
    findings: str
    language: Language = "cuda"


@dataclass(frozen=True)
class Material:
    """A kernel to start from. `makes`: the side to be written; the given code is the other one.

    `family`: a plain name of the computation, such as `matrix-vector`. `statement`: the computation in words;
    `module`: the same as a PyTorch module, with its introduction. `language`: of the given code; `wants`: of
    the answer. `gpu`: where the answer will run, such as `NVIDIA H200 (compute capability 9.0)`; empty: any
    GPU; further lines may give its limits. `notes`: lines on keys of the problem and the plan that the rules
    do not explain.
    """

    makes: SideName
    family: str
    code: str
    plan: str
    problem: str
    language: Language = "cuda"
    gpu: str = ""
    wants: Language = "cuda"
    notes: str = ""
    statement: str = ""
    module: str = ""


FORMAT = "8"
# An example longer than this costs more than it teaches.
MAX_EXAMPLE_CHARS = 6000

_TEXTS = resources.table("kcurate.prompts", "texts.toml")["tasks"]
# The same contract for small models with a short context: what the given side does not show by example.
BRIEF_RULES: str = _TEXTS["brief_rules"]
TEXT_FORM: str = _TEXTS["text_form"]


def build(
    material: Material,
    technique: Technique | None,
    how: str | None = None,
    *,
    examples: Sequence[Example] = (),
    action: str = "write",
    earlier: Earlier | None = None,
    permitted: Sequence[str] | None = None,
    variant: int = 1,
    brief: bool = False,
) -> Prompt:
    """The prompt for one attempt; `brief` with the short rules.

    `how` tells how to answer (`tools.told`); None: as text, in fenced blocks.

    `permitted` names the techniques that the answer may show (None: no such rule). `variant` numbers the
    answers requested from the same material; the first prompt does not depend on it.
    """
    parts = [_goal(material, technique), _limits(permitted)]
    parts = [part for part in parts if part]
    parts += [_example(example, material.makes) for example in examples]
    if variant > 1:
        parts.append(
            f"The same was asked before; this is request number {variant}, and answers are not shown to each "
            "other. Let the number decide between designs that are equally natural, so that answers differ.\n"
        )
    prompt = Prompt(system(material.wants, how=how, brief=brief), _context(material), "\n".join(parts))
    return prompt if earlier is None else again(prompt, action, earlier)


Kind = Literal["rewrite", "explain", "write"]
_FORMS: Mapping[Kind, str] = {"rewrite": "text_form", "explain": "explained_form", "write": "writing_form"}


@cache
def system(
    wants: Language = "cuda", kind: Kind = "rewrite", *, how: str | None = None, brief: bool = False
) -> str:
    """The rules for answers in a language, and how to answer (`how`; None: as text, in fenced blocks)."""
    form: str = how or _TEXTS[_FORMS[kind]]
    if wants == "triton":
        form = form.replace("```cuda", "```python").replace("whole file", "whole module")
    elif brief:
        return BRIEF_RULES + form
    return rules(wants, kind) + form


@cache
def rules(wants: Language = "cuda", kind: Kind = "rewrite") -> str:
    """The rules alone."""
    of_language = "triton_" if wants == "triton" else ""
    introduction, side_text, plan = "as_a_side", "other_side", "plan_kept"
    if kind == "write":
        introduction, side_text, plan = "in_words", "first_side", "plan_written"
    after = ("data", side_text, f"{of_language}contract", plan, "commented" if kind == "explain" else "names")
    before = _TEXTS[f"{of_language}role"] + _TEXTS[introduction] + plans(wants)
    return "".join((before, *(_TEXTS[name] for name in after)))


def _goal(material: Material, technique: Technique | None) -> str:
    name = f"{material.makes}_technique" if technique else material.makes
    if material.language != material.wants and material.language != "torch":
        name = f"in_{material.wants}"
    goal: str = _TEXTS["goals"][name]
    return goal.format(name=technique.name, meaning=technique.meaning) if technique else goal


def _limits(permitted: Sequence[str] | None) -> str:
    if permitted is None:
        return ""
    names = ", ".join(permitted) or "none"
    return f"Techniques that the answer may use: {names}. Any other that shows in it is refused.\n"


def again(prompt: Prompt, action: str, earlier: Earlier) -> Prompt:
    """The prompt with an earlier answer, its findings, and the instruction to repair or improve it."""
    instruction = _TEXTS["actions"][action] if earlier.code else _TEXTS["no_code"]
    return replace(prompt, task=f"{prompt.task}\n{instruction}{_earlier(earlier)}")


def go_on(
    action: str,
    findings: str,
    *,
    material: Material | None = None,
    technique: Technique | None = None,
    permitted: Sequence[str] | None = None,
    best: Earlier | None = None,
) -> str:
    """The message after an answer in the same conversation.

    `material`: set if the goal changes. `best`: the answer to continue from, with its findings, if it is not
    the last one.
    """
    last = f"What was found:\n{findings.rstrip()}\n"
    goal = [part for part in (_goal(material, technique), _limits(permitted)) if part] if material else []
    start = [f"{_TEXTS['from']}{_earlier(best)}"] if best is not None else []
    return "\n".join([last, *start, *goal, _TEXTS["going_on"][action]])


def in_any_language(material: Material) -> Prompt:
    """The prompt for a fast side in CUDA or in Triton, whichever the model chooses."""
    common, cuda = _TEXTS["contract"].split("\n", 1)
    triton = _TEXTS["triton_contract"].split("\n", 1)[1]
    parts = (
        *(_TEXTS["any_role"], _TEXTS["as_a_side"], plans("cuda"), triton_launches()),
        *(_TEXTS["data"], _TEXTS["other_side"], f"{common}\n", _TEXTS["plan_given"], _TEXTS["names"]),
        *(f"In CUDA:\n{cuda}", f"In Triton:\n{triton}", _TEXTS["any_form"]),
    )
    return Prompt("".join(parts), _context(material), _TEXTS["in_any"])


def write(computation: str, material: Material) -> Prompt:
    """The prompt for a first side of a problem, given in words and by the reference code of `material`."""
    context = _context(material, f"{computation}\n", "Reference")
    return Prompt(system(material.wants, "write"), context, _TEXTS["write"])


def asking_why(prompt: Prompt, measured: Sequence[str], wants: Language = "cuda") -> Prompt:
    """The prompt extended by measurements of the given side, for an answer in three parts."""
    listed = "".join(f"- {line}\n" for line in measured)
    context = f"{prompt.context}\nMeasured:\n{listed}" if listed else prompt.context
    return replace(prompt, system=system(wants, "explain"), context=context)


def chat(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat messages, for servers and chat templates without a prompt cache."""
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": f"{prompt.context}\n{prompt.task}"},
    ]


def _context(material: Material, computation: str = "", role: str = "") -> str:
    """`computation`: the computation in words, if the problem has none; `role`: the role of the code, if it
    is not the side to be rewritten.
    """
    plan, of_role = (f"{role} plan", f" of the {role.lower()}") if role else ("Plan", "")
    if material.language == "torch":
        code = f"PyTorch module{of_role}:\n```python\n{material.code.rstrip()}\n```\n"
        code += "" if role else f"\n{_TEXTS['from_torch']}"
    elif material.language == "triton":
        code = f"Triton module{of_role}:\n```python\n{material.code.rstrip()}\n```\n"
    else:
        code = f"Device code{of_role}:\n```cuda\n{material.code.rstrip()}\n```\n"
    gpu = f"GPU: {material.gpu}\n\n" if material.gpu else ""
    family = f"Computation: {material.family}\n\n" if material.family else ""
    if material.statement:
        computation = f"{material.statement.rstrip()}\n"
    computation = f"{computation}\n" if computation else ""
    module = f"{material.module.rstrip()}\n\n" if material.module else ""
    return (
        f"{family}{computation}{module}{gpu}Problem:\n```json\n{material.problem.rstrip()}\n```\n{material.notes}\n"
        f"{plan}:\n```json\n{material.plan.rstrip()}\n```\n\n{code}"
    )


def _example(example: Example, makes: SideName) -> str:
    """An example pair in the direction of the task: the given side, then the side to write."""
    if len(example.slow) + len(example.fast) > MAX_EXAMPLE_CHARS:
        return ""
    sides = {
        "Without it": f"```cuda\n{example.slow.rstrip()}\n```\n",
        "With it": f"```cuda\n{example.fast.rstrip()}\n```\n",
    }
    order = ("Without it", "With it") if makes == "fast" else ("With it", "Without it")
    first, second = (f"{name}:\n{sides[name]}" for name in order)
    return f"A measured example of {example.technique}, from another computation. {first}{second}"


def _earlier(earlier: Earlier) -> str:
    if not earlier.code:
        return f"What was found:\n{earlier.findings.rstrip()}\n"
    plan = f"with the plan\n```json\n{earlier.plan.rstrip()}\n```\n" if earlier.plan else ""
    fence = "python" if earlier.language == "triton" else "cuda"
    return f"```{fence}\n{earlier.code.rstrip()}\n```\n{plan}What was found:\n{earlier.findings.rstrip()}\n"
