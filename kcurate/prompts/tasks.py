"""The prompts themselves. `FORMAT` changes with every change of a word that a model sees.

A prompt has three parts, most general first, so that a server's prompt cache can keep what repeats: rules
(the same for all), a kernel (the same for all that is asked about it), and the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcurate.prompts.material import Earlier, Example, Material, Technique
from kcurate.records import Prompt, SideName

FORMAT = "5"
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
in words and as a problem (named sizes, buffers, scalars). A side of it is device code, and a plan that \
launches it. \
"""
# What plans have in every language.
_EXTENTS = """\
(one to three integer expressions over the sizes, with + - * / % min max ceil_div align_up log2 pow2)\
"""
_MOVES = """\
Other steps: {"fill": buffer, "value": v}, {"copy": buffer, "to": buffer}, \
"""
_LOOPS = """\
{"swap": [buffer, buffer]}, {"for": name, "from": a, "to": b, "do": [steps]}, \
{"while_nonzero": buffer, "max": n, "do": [steps]}.

"""
_LAUNCH = f"""\
The plan is data, a list of steps. A launch step has "launch" (the kernel's name), "grid" and "block" \
{_EXTENTS}, \
"""
_ARGS = """\
"args" (names of buffers and scalars, {"buffer": name, "offset": expression}, or {"value": expression, \
"dtype": type}), and where needed "template" (texts in which {expression} is filled in), "shared_bytes" and \
"cluster" (blocks of a thread block cluster along each axis). \
"""
_PLANS = _LAUNCH + _ARGS + _MOVES + '{"upload": symbol, "from": buffer}, ' + _LOOPS
_OTHER_SIDE = """\
You write the other side of the same computation. What counts:
- It computes the same for all sizes of the problem and for inputs that you have not seen, to the tolerance \
of each output. \
"""
_FIRST_SIDE = """\
You write a side. What counts:
- It is right for all sizes of the problem and for inputs that you have not seen. \
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
or buffers have to change, give the whole plan. Scratch buffers that you add are declared with dtype and \
shape.
"""
_PLAN_WRITTEN = """\
- The plan uses the problem's buffers and scalars. Scratch buffers that you add are declared with dtype and \
shape.
"""
_NAMES = """\
- No comments. Names say what a thing is; no name says whether the code is quick or not.
"""
_COMMENTED = """\
- Comments say what the code does not. Names say what a thing is; no name says whether the code is quick \
or not.
"""
_TRITON_ROLE = """\
You write Triton modules (Python, compiled by Triton for one NVIDIA GPU).

A computation is given as a problem (named sizes, buffers, scalars) and as one side: code, and a plan that \
launches it. The plan is data, a list of steps. A launch step of a Triton module has "launch" (the \
function's name), "grid" \
"""
_TRITON_ARGS = """\
, "args" (names of buffers, scalars and sizes, for the parameters that are not constexpr, in order), \
"constexprs" (name to value), "num_warps" and "num_stages". \
"""
_TRITON_PLANS = _EXTENTS + _TRITON_ARGS + _MOVES + _LOOPS
_TRITON_CONTRACT = """\
Outputs are compared element by element; reading or writing out of bounds is found.
- One module: import triton, import triton.language as tl, constants, and functions with the one decorator \
@triton.jit. A function may call those above it. Parameters are pointers, numbers, and name: tl.constexpr. \
Names resolve to the module's own, tl, tl.math, triton.cdiv, triton.next_power_of_2, and abs bool float int \
len max min range. No host code, autotuning, inline assembly, libraries, prints, clocks, lambdas, classes, \
f-strings or comprehensions.
- Each load and store past an end needs its mask. Sizes are int parameters.
"""
RULES = _ROLE + _AS_A_SIDE + _PLANS + _OTHER_SIDE + _CONTRACT + _PLAN_KEPT + _NAMES
EXPLAINED_RULES = RULES.removesuffix(_NAMES) + _COMMENTED
TRITON_RULES = _TRITON_ROLE + _TRITON_PLANS + _OTHER_SIDE + _TRITON_CONTRACT + _PLAN_KEPT + _NAMES
WRITING_RULES = _ROLE + _IN_WORDS + _PLANS + _FIRST_SIDE + _CONTRACT + _PLAN_WRITTEN + _NAMES

# The same contract for small models with a short context: what the given side does not show by example.
BRIEF_RULES = """\
You rewrite CUDA device code. Given: a problem, a plan that launches the code, and the code. Write the other \
side: the same results for all sizes and inputs, to the tolerance of each output. The plan launches your \
code as well, unless you give another. Device code only: no host code, no comments, no printf, no malloc.
"""

TEXT_FORM = (
    "Answer with one fenced ```cuda block that holds the whole file and, only if the plan changes, "
    'one fenced ```json block with {"plan": [...], "buffers": {...}} after it.\n'
)
TRITON_TEXT_FORM = TEXT_FORM.replace("```cuda", "```python").replace("whole file", "whole module")

EXPLAINED_FORM = (
    'Answer in three parts. A paragraph that begins with "Diagnosis:" says what measurements of the given '
    'code show. One that begins with "Change:" says what your code does in its place, and what that gains. '
    "Then comes one fenced ```cuda block that holds the whole file and, only if the plan changes, "
    'one fenced ```json block with {"plan": [...], "buffers": {...}} after it.\n'
)

WRITING_FORM = (
    "Answer with one fenced ```cuda block that holds the whole file, and one fenced ```json block with "
    '{"plan": [...], "buffers": {...}} after it.\n'
)

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
_WRITE = "Write a side that is as fast as you can make it, by whatever technique suits it.\n"
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
    rules = BRIEF_RULES if brief else RULES
    triton = material.wants == "triton"
    form = how or (TRITON_TEXT_FORM if triton else TEXT_FORM)
    prompt = Prompt((TRITON_RULES if triton else rules) + form, _context(material), "\n".join(parts))
    return prompt if earlier is None else again(prompt, action, earlier)


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


def write(family: str, what: str, problem: str, gpu: str = "") -> Prompt:
    """The prompt for a first side of a problem, which `what` says in words."""
    context = f"Computation: {family}. {what}\n\n{_on(gpu)}Problem:\n```json\n{problem.rstrip()}\n```\n"
    return Prompt(WRITING_RULES + WRITING_FORM, context, _WRITE)


def asking_why(prompt: Prompt) -> Prompt:
    """The same request for an answer in three parts: diagnosis, change, code."""
    return replace(prompt, system=EXPLAINED_RULES + EXPLAINED_FORM)


def chat(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat messages, for servers and chat templates that know no parts."""
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": f"{prompt.context}\n{prompt.task}"},
    ]


def _context(material: Material) -> str:
    if material.language == "torch":
        code = f"PyTorch module:\n```python\n{material.code.rstrip()}\n```\n\n{_FROM_TORCH}"
    elif material.language == "triton":
        code = f"Triton module:\n```python\n{material.code.rstrip()}\n```\n"
    else:
        code = f"Device code:\n```cuda\n{material.code.rstrip()}\n```\n"
    return (
        f"Computation: {material.family}\n\n{_on(material.gpu)}"
        f"Problem:\n```json\n{material.problem.rstrip()}\n```\n\nPlan:\n```json\n{material.plan.rstrip()}\n```\n\n{code}"
    )


def _on(gpu: str) -> str:
    return f"GPU: {gpu}\n\n" if gpu else ""


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
