"""The prompts themselves. `FORMAT` changes with every change of a word that a model sees.

A prompt has three parts, most general first, so that a server's prompt cache can keep what repeats: rules
(the same for all), a kernel (the same for all that is asked about it), and the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

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
    """An earlier answer with the findings about it."""

    code: str
    plan: str | None
    findings: str
    language: Language = "cuda"


@dataclass(frozen=True)
class Material:
    """A kernel to start from. `makes`: the side to be written; the given code is the other one.

    `family`: a plain name of the computation, such as `matrix-vector`. `statement`: the computation in words;
    `module`: the same as a PyTorch module, with the words that introduce it. `language`: of the given code;
    `wants`: of the answer. `gpu`: where the answer will run, such as `NVIDIA H200 (compute capability 9.0)`;
    empty: any GPU; further lines may say what is to be reached. `notes`: lines on keys of the problem and
    the plan that the rules do not explain.
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


FORMAT = "7"
# An example longer than this costs more than it teaches.
MAX_EXAMPLE_CHARS = 6000

_ROLE = """\
You write CUDA device code (C++17, one file, compiled with NVRTC for one NVIDIA GPU).

A computation is given \
"""
_AS_A_SIDE = """\
as a problem (named sizes, buffers, scalars) and as one side: device code, and a plan that launches it. \
"""
_IN_WORDS = """\
in words, as a problem (named sizes, buffers, scalars) and by a reference. A side of it is code, and a \
plan that launches it. \
"""
_DATA = """\
Buffers are dense, the last axis contiguous; "role" is in if none is given; "init" says how inputs are made. \
"test" sizes are checked, "bench" sizes timed (the headline counts).

"""
_OTHER_SIDE = """\
You write the other side of the same computation. What counts:
- It computes the same for all sizes of the problem and for inputs that you have not seen, to the tolerance \
of each output. \
"""
_FIRST_SIDE = """\
You write a side. What counts:
- It computes what the reference computes, for all sizes of the problem and for inputs that you have not \
seen, to the tolerance of each output. \
"""
_CONTRACT = """\
Outputs are compared element by element; reading or writing out of bounds is found.
- Device code only: kernels, device functions, types, macros, constants. No host code, no main, no inputs \
or outputs other than the buffers and scalars. Includes only of CUDA device headers (such as cuda_fp16.h, \
cuda_bf16.h, cuda_fp8.h, mma.h, cooperative_groups.h, cuda_pipeline.h, cuda/barrier, cuda/ptx, and the \
block and warp headers of CUB such as cub/block/block_reduce.cuh). No printf, malloc, clocks, sleeps, or \
state that outlives a launch; assert does nothing.
- What the GPU's own architecture has may be used: mma.sync, ldmatrix, cp.async, bulk copies with mbarriers, \
clusters, wgmma, setmaxnreg, __launch_bounds__, __maxnreg__. Each asm statement is plain string literals \
that hold whole PTX statements; a branch stays inside its statement.
"""
_PLAN_KEPT = """\
- The given plan launches your code as well, unless you give another. Where names, parameters, grids, blocks \
or buffers have to change, give the whole plan.
"""
_PLAN_WRITTEN = """\
- The plan uses the problem's buffers and scalars.
"""
_NAMES = """\
- No comments. Names say what a thing is; no name says whether the code is quick or not.
"""
_PLAN_GIVEN = """\
- Always give the whole plan.
"""
_COMMENTED = """\
- Comments say what the code does not. Names say what a thing is; no name says whether the code is quick \
or not.
"""
_TRITON_ROLE = """\
You write Triton modules (Python, compiled by Triton for one NVIDIA GPU). "launch" names a function; its \
"args" are for the parameters that are not constexpr, in order.

A computation is given \
"""
_ANY_ROLE = """\
You write device code for one NVIDIA GPU, in CUDA (C++17, one file, compiled with NVRTC) or as a Triton \
module (Python), whichever is faster here. In a plan "launch" names a kernel, or a function of the module, \
whose "args" are for the parameters that are not constexpr, in order.

A computation is given \
"""
_TRITON_CONTRACT = """\
Outputs are compared element by element; reading or writing out of bounds is found.
- One module: import triton, import triton.language as tl, constants, and functions with the one decorator \
@triton.jit. A function may call those above it. Parameters are pointers, numbers, and name: tl.constexpr. \
Names resolve to the module's own, tl, tl.math, triton.cdiv, triton.next_power_of_2, and abs bool float int \
len max min range. No host code, autotuning, inline assembly, libraries, prints, clocks, lambdas, classes, \
f-strings or comprehensions.
- Each load and store past an end needs its mask. Sizes are int parameters.
"""
# The same contract for small models with a short context: what the given side does not show by example.
BRIEF_RULES = """\
You rewrite CUDA device code. Given: a problem, a plan that launches the code, and the code. Write the other \
side: the same results for all sizes and inputs, to the tolerance of each output. The plan launches your \
code as well, unless you give another. Device code only: no host code, no comments, no printf, no malloc.
"""

_FENCED = (
    "one fenced ```cuda block that holds the whole file and, only if the plan changes, "
    'one fenced ```json block with {"plan": [...], "buffers": {...}} after it.\n'
)
TEXT_FORM = f"Answer with {_FENCED}"
EXPLAINED_FORM = (
    'Answer in three parts. A paragraph that begins with "Diagnosis:" says what the measurements show. One '
    'that begins with "Change:" says what your code does in its place. Then comes ' + _FENCED
)
WRITING_FORM = TEXT_FORM.replace(" and, only if the plan changes,", ", and")

_ANY_FORM = WRITING_FORM.replace("```cuda block", "```cuda block, or one fenced ```python block,")

_GOALS = {
    ("slow", True): """\
The code above uses the technique "{name}": {meaning}
Write the side that a competent programmer would have written who does not know this technique. Take out \
this technique, everywhere and for real, and keep all else as it is. The result is straightforward code that \
happens to be slower on a GPU. It is not sabotage: no work done twice, no waiting, no needless barriers, no \
volatile, nothing that serves no purpose.
""",
    ("slow", False): """\
Write the side that a competent programmer would have written first, before any tuning: one thread an output \
element where that is natural, plain loads and stores, nothing clever. It is not sabotage: no work done \
twice, no waiting, no needless barriers, no volatile, nothing that serves no purpose.
""",
    ("fast", True): """\
Make this side faster with the technique "{name}": {meaning}
""",
    ("fast", False): """\
Make this side as fast as you can, by whatever technique suits it.
""",
}
_TRANSLATED = {
    "triton": "Write it as a Triton module, as fast as you can; always give the whole plan, with "
    'launches such as {"launch": "kernel_name", "grid": ["ceil_div(n, 1024)"], "args": ["x", "out", "n"], '
    '"constexprs": {"BLOCK": 1024}, "num_warps": 4}.\n',
    "cuda": "Write it as CUDA device code, as fast as you can; always give the whole plan, with launches "
    'such as {"launch": "kernel_name", "grid": ["ceil_div(n, 256)"], "block": [256], "args": '
    '["x", "out", "n"]}.\n',
}
_WRITE = """\
Write a side that is as fast as you can make it, by whatever technique suits it. The reference only says \
what to compute.
"""
_IN_ANY = """\
Write the side that is as fast as you can make it, in CUDA or in Triton.
"""
_ACTIONS = {
    "write": "",
    "repair": "The answer below was given before and was not accepted. Find out why, and put it right.\n",
    "improve": "The answer below was given before. It is right, but does not reach well enough "
    "what is asked. Write a better one.\n",
    "deepen": "The answer below was given before and is right. Go one step on from it, with the technique "
    "named above; keep what it has achieved.\n",
}

# What follows the findings on an answer in the same conversation.
_GOING_ON = {
    "repair": "Find out why, and hand in an answer that puts it right.\n",
    "improve": "It is right, but does not reach well enough what is asked. Hand in a better one.\n",
    "deepen": "It is right. Go one step on from it, with the technique named above; keep what it has "
    "achieved.\n",
}
_FROM = "Go on from this answer, which was given before and came furthest so far.\n"

# After a side in PyTorch, which has no kernel and no launch that could be kept.
_FROM_TORCH = """\
This side is a PyTorch module, and the plan calls it. Write device code from scratch, and always give the \
whole plan: launches of your kernels in place of the call, such as {"plan": [{"launch": "kernel_name", \
"grid": ["ceil_div(n, 256)"], "block": [256], "args": ["x", "out", "n"]}]} with names of this problem. Your \
kernels write the buffers of the role out; sizes are int parameters.
"""

_NO_CODE = "An answer given before could not be used at all.\n"


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

    `permitted` names the techniques that the answer may show (None: no such rule). `variant` counts the
    answers asked for from the same material; the first prompt is the same however many follow.
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
_FORMS: Mapping[Kind, str] = {"rewrite": TEXT_FORM, "explain": EXPLAINED_FORM, "write": WRITING_FORM}


@cache
def system(
    wants: Language = "cuda", kind: Kind = "rewrite", *, how: str | None = None, brief: bool = False
) -> str:
    """The rules for answers in a language, and how to answer (`how`; None: as text, in fenced blocks)."""
    form = how or _FORMS[kind]
    if wants == "triton":
        form = form.replace("```cuda", "```python").replace("whole file", "whole module")
    elif brief:
        return BRIEF_RULES + form
    return rules(wants, kind) + form


@cache
def rules(wants: Language = "cuda", kind: Kind = "rewrite") -> str:
    """The rules alone."""
    role, contract = (_TRITON_ROLE, _TRITON_CONTRACT) if wants == "triton" else (_ROLE, _CONTRACT)
    shown_as, wanted, plan = (_AS_A_SIDE, _OTHER_SIDE, _PLAN_KEPT)
    if kind == "write":
        shown_as, wanted, plan = (_IN_WORDS, _FIRST_SIDE, _PLAN_WRITTEN)
    names = _COMMENTED if kind == "explain" else _NAMES
    return "".join((role, shown_as, plans(wants), _DATA, wanted, contract, plan, names))


def _goal(material: Material, technique: Technique | None) -> str:
    goal = _GOALS[material.makes, technique is not None]
    if material.language != material.wants and material.language != "torch":
        goal = _TRANSLATED[material.wants]
    return goal.format(name=technique.name, meaning=technique.meaning) if technique else goal


def _limits(permitted: Sequence[str] | None) -> str:
    if permitted is None:
        return ""
    names = ", ".join(permitted) or "none"
    return f"Techniques that the answer may use: {names}. Any other that shows in it is refused.\n"


def again(prompt: Prompt, action: str, earlier: Earlier) -> Prompt:
    """The prompt once more, with an earlier answer to it and what to do about it."""
    what = _ACTIONS[action] if earlier.code else _NO_CODE
    return replace(prompt, task=f"{prompt.task}\n{what}{_earlier(earlier)}")


def go_on(
    action: str,
    findings: str,
    *,
    material: Material | None = None,
    technique: Technique | None = None,
    permitted: Sequence[str] | None = None,
    best: Earlier | None = None,
) -> str:
    """What a model is told after an answer, in the same conversation, so that the answer is still in view.

    `material` where the goal is another one from here on. `best`: the answer to go on from, if that is not
    the last one, with the findings on it.
    """
    last = f"What was found:\n{findings.rstrip()}\n"
    goal = [part for part in (_goal(material, technique), _limits(permitted)) if part] if material else []
    start = [f"{_FROM}{_earlier(best)}"] if best is not None else []
    return "\n".join([last, *start, *goal, _GOING_ON[action]])


def in_any_language(material: Material) -> Prompt:
    """The prompt for a fast side in CUDA or in Triton, as the model likes."""
    common, cuda = _CONTRACT.split("\n", 1)
    triton = _TRITON_CONTRACT.split("\n", 1)[1]
    parts = (
        *(_ANY_ROLE, _AS_A_SIDE, plans("cuda"), triton_launches(), _DATA, _OTHER_SIDE),
        *(f"{common}\n{_PLAN_GIVEN}{_NAMES}", f"In CUDA:\n{cuda}", f"In Triton:\n{triton}"),
    )
    return Prompt("".join(parts) + _ANY_FORM, _context(material), _IN_ANY)


def write(what: str, material: Material) -> Prompt:
    """The prompt for a first side of a problem, in words and by a reference, the code of `material`."""
    context = _context(material, f"{what}\n", "Reference")
    return Prompt(system(material.wants, "write"), context, _WRITE)


def asking_why(prompt: Prompt, measured: Sequence[str], wants: Language = "cuda") -> Prompt:
    """The same request, with measurements of the given side, for an answer in three parts."""
    listed = "".join(f"- {line}\n" for line in measured)
    context = f"{prompt.context}\nMeasured:\n{listed}" if listed else prompt.context
    return replace(prompt, system=system(wants, "explain"), context=context)


def chat(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat messages, for servers and chat templates that know no parts."""
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": f"{prompt.context}\n{prompt.task}"},
    ]


def _context(material: Material, what: str = "", role: str = "") -> str:
    """`what`: the computation in words, where the problem has none; `role`: what the code is, if not the side
    to be rewritten.
    """
    plan, of = (f"{role} plan", f" of the {role.lower()}") if role else ("Plan", "")
    if material.language == "torch":
        code = f"PyTorch module{of}:\n```python\n{material.code.rstrip()}\n```\n"
        code += "" if role else f"\n{_FROM_TORCH}"
    elif material.language == "triton":
        code = f"Triton module{of}:\n```python\n{material.code.rstrip()}\n```\n"
    else:
        code = f"Device code{of}:\n```cuda\n{material.code.rstrip()}\n```\n"
    where = f"GPU: {material.gpu}\n\n" if material.gpu else ""
    family = f"Computation: {material.family}\n\n" if material.family else ""
    if material.statement:
        what = f"{material.statement.rstrip()}\n"
    what = f"{what}\n" if what else ""
    module = f"{material.module.rstrip()}\n\n" if material.module else ""
    return (
        f"{family}{what}{module}{where}Problem:\n```json\n{material.problem.rstrip()}\n```\n{material.notes}\n"
        f"{plan}:\n```json\n{material.plan.rstrip()}\n```\n\n{code}"
    )


def _example(example: Example, makes: SideName) -> str:
    """An example in the direction that is asked for: what is given, then what is to be written."""
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
