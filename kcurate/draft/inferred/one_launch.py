"""The draft that one launch of a kernel gives: buffers, scalars, arguments, launch step, remarks.

`draft_of` fills in `Parts` step by step; the example is `scale<<<(n + 255) / 256, 256>>>(x, 0.5f, n)` of a
kernel `scale(float *x, float factor, int n)` that does `if (i < n) x[i] *= factor`:

| step | fills in | in the example |
|---|---|---|
| `Configuration.read` | block, grid | `(256,)`, `(ceil_div(n, 256),)` |
| `record_value` | `values`: integers that the host passes | `n` |
| `Bounds`, `settled` | the range of every index; a grid that the host code leaves open | `0 <= i < n` |
| `_arguments` | `pointers`, `scalars`, then `counts`: elements of each buffer | `x` has `n` |
| `uploads` | steps that fill `__constant__` memory | none |
| `add_buffers` | `buffers`: shape, role, contents | `x`: inout |
| `shared_of` | dynamic shared memory | 0 |
| `_draft` | sizes to test and bench from counts and grid; what is still open | `n` |

Not covered: choosing the launch (`from_code`), buffer contents (`buffer_contents`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.draft import size_settings
from kcurate.draft.algebra import Poly, factor
from kcurate.draft.inferred import launch_configuration, pointer_parameters, scalar_parameters
from kcurate.draft.inferred.draft_parts import Parts
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import Configuration
from kcurate.draft.sketch import OPEN, Draft, Reason, known_problem
from kcurate.problem import c_types as types
from kcurate.problem.expressions import names_in
from kcurate.records import Arg, KnownProblem, KnownSide, Launch, Problem, Sizes, Step


def draft_of(parts: Parts, name: str, template: tuple[str, ...]) -> Draft:
    """The draft for the launch in `parts`; `name`, `template`: the kernel as the plan launches it."""
    site, params = parts.site, parts.kernel.params
    site.taken = frozenset(
        param.name for param in params if param.pointer or scalar_parameters.real_type(parts, param)
    )
    configuration = Configuration(
        parts.kernel, parts.device, parts.function, site, parts.remarks, parts.values
    )
    block, grid = configuration.read()
    texts = [argument.expression for argument in site.launch.arguments]
    for param, text in zip(params, texts, strict=False):
        if not param.pointer:
            scalar_parameters.record_value(parts, param, text)
    bounds = Bounds(parts.device, parts.function, parts.values, block, grid or ())
    grid = configuration.settled(grid, bounds, block)
    bounds.grid = grid
    args = _arguments(parts, texts, bounds)
    if len(texts) != len(params):
        parts.note("plan.args", f"{len(params)} parameters, {len(texts)} arguments", Reason.NO_VALUE)
    steps = pointer_parameters.uploads(parts)
    pointer_parameters.add_buffers(parts, bounds)
    shared, remarks = launch_configuration.shared_of(site, parts.device.text)
    parts.offsets += [factor(name) for name in names_in(shared)]
    parts.remarks += remarks
    steps.append(Launch(name, tuple(extent.expr() for extent in grid), block, args, template, shared))
    return _draft(parts, tuple(steps), block, grid, bounds)


def _arguments(parts: Parts, texts: Sequence[str], bounds: Bounds) -> tuple[Arg, ...]:
    """The launch step's arguments; buffers are sized in a second pass, when all pointers are known."""
    args = tuple(
        pointer_parameters.buffer_argument(parts, param, text)
        if param.pointer
        else scalar_parameters.scalar_argument(parts, param)
        for param, text in zip(parts.kernel.params, texts, strict=False)
    )
    for param, text in zip(parts.kernel.params, texts, strict=False):
        if param.name in parts.pointers:
            count = pointer_parameters.element_count(parts, param, text, bounds)
            parts.counts[param.name] = count if count is not None else factor(OPEN)
    return args


def _draft(
    parts: Parts, steps: tuple[Step, ...], block: tuple[int, ...], grid: tuple[Poly, ...], bounds: Bounds
) -> Draft:
    limits = parts.sizes(grid)
    counts = [count for count in parts.counts.values() if OPEN not in count.text()]
    extents = [extent for extent in grid if OPEN not in extent.text()]
    ladder = size_settings.ladder(limits, [*counts, *extents], block)
    if not limits and launch_configuration.work(bounds, block, parts.site) > launch_configuration.MAX_WORK:
        ladder = ()
    if not ladder:
        why = "sizes of two scales that fit" if limits else "all are constants of the code, and too large"
        parts.note("sizes.test", why, Reason.ONE_SIZE)
    if "texture" in parts.kernel.features:
        parts.note("plan", "the texture that the kernel reads is not bound", Reason.TEXTURE)
    test = ladder[0].test if ladder else ({name: value or 64 for name, value in limits.items()},)
    sizes = Sizes(test, size_settings.bench(limits, counts))
    # The sizes that a buffer's extent or the grid depends on.
    shaping = frozenset[str]().union(*map(launch_configuration.names_of, (*parts.counts.values(), *grid)))
    return Draft(
        parts.kernel.id,
        _known_problem(parts, steps, sizes, single_size=not limits),
        tuple(parts.remarks),
        ladder,
        pointer_parameters.needed_elements(parts, bounds),
        tuple(name for name, value in limits.items() if value is None and name not in shaping),
        tuple(limits.items()),
    )


def _known_problem(parts: Parts, steps: tuple[Step, ...], sizes: Sizes, single_size: bool) -> KnownProblem:
    # Atomic adds to floats come in any order, and their rounding depends on it: results differ between runs.
    nondeterministic = tuple(
        name
        for name, usage in parts.usages.items()
        if usage.atomic and parts.elements[name].dtype in types.FLOATS
    )
    problem = Problem(sizes, parts.buffers, parts.scalars, single_size=single_size)
    return known_problem(parts.kernel, problem, KnownSide(steps, nondeterministic=nondeterministic))
