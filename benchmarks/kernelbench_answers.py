"""Plain answers of our own to the tasks of KernelBench's level 1: one kernel a class of computation, untuned.

They show that an honest answer passes, and what untuned code comes to beside eager PyTorch. A task is known
by its number; everything else about it comes from the problem that was made of it.
"""

from __future__ import annotations

from kernelbench_kernels import (
    ALONG,
    ALONG_FORMS,
    BACKWARD,
    CHANNELS,
    CONVOLVE,
    FORWARD,
    LOSS,
    LOSS_FORMS,
    NORM,
    PARTS,
    POINTWISE,
    POOL_AT,
    PRODUCT,
    ROW_FORMS,
    ROWS,
    SCAN,
    SCAN_FORMS,
    SQUARES,
    WINDOW,
)  # fmt: skip

from kcurate.backends.torch_text import constants
from kcurate.records import Arg, Buffer, Expr, Launch, Side, ValueArg
from kcurate.reward.task import Task

ONE = ValueArg(1.0, "float32")


def number(task: Task) -> int:
    """The task's number in the benchmark."""
    return int(task.id.rsplit("/", 1)[1].split("_")[0])


def answer(task: Task) -> Side | None:
    """A plain answer; None where there is none of ours."""
    which = number(task)
    for numbers, make in (
        (POINTWISE, _pointwise),
        (ROW_FORMS, _rows),
        (ALONG_FORMS, _along),
        (SCAN_FORMS, _scan),
        (LOSS_FORMS, _loss),
        (range(33, 38), _norm),
        ((40,), _norm),
        (range(41, 47), _pool),
        ((86,), _separable),
        ((*range(50, 51), *range(54, 88)), _convolution),
        ((5, 12), _broadcast),
        ((97,), _attention),
        (range(1, 19), _product),
    ):
        if which in numbers:
            return make(task)
    return None


def _shape(task: Task, name: str) -> tuple[Expr, ...]:
    assert task.template.problem is not None
    return task.template.problem.buffers[name].shape


def _of(*factors: Expr) -> str:
    """The product of expressions."""
    return " * ".join(f"({factor})" for factor in factors) or "1"


def _int(value: Expr) -> ValueArg:
    return ValueArg(value, "int32")


def _blocks(count: Expr, threads: int = 256) -> tuple[Expr, ...]:
    return (f"ceil_div({count}, {threads})",)


def _pointwise(task: Task, result: str | None = None) -> Side:
    count = _of(*_shape(task, "x"))
    code = (
        'extern "C" __global__ void pointwise(const float* x, float* out, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n"
        f"    float v = x[i];\n    out[i] = {result or POINTWISE[number(task)]};\n}}\n"
    )
    return Side(code, (Launch("pointwise", _blocks(count), (256,), ("x", "out", _int(count))),))


def _broadcast(task: Task) -> Side:
    count, scaled = _of(*_shape(task, "out")), number(task) == 5
    second, result = ("float s", "a[i] * s") if scaled else ("const float* b", "a[i / width] * b[i]")
    code = (
        f'extern "C" __global__ void broadcast(const float* a, {second}, float* out, int n, int width) {{\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n) out[i] = {result};\n}}\n"
    )
    args = ("A", "s" if scaled else "B", "out", _int(count), _int(_shape(task, "out")[-1]))
    return Side(code, (Launch("broadcast", _blocks(count), (256,), args),))


def _product(task: Task) -> Side:
    which, a, b, out = number(task), _shape(task, "A"), _shape(task, "B"), _shape(task, "out")
    left, right = which in (16, 18), which in (17, 18)
    batch: Expr = a[0] if which == 3 else 1
    columns, terms = out[-1], (a[0] if left else a[-1])
    rows = out[-2] if which == 3 else _of(*out[:-1])
    strides = [1, a[1]] if left else [a[-1], 1]
    strides += [1, b[-1]] if right else [b[-1], 1]
    kept = {14: "row <= column", 15: "row >= column"}.get(which, "true")
    return Side(
        PRODUCT.replace("KEPT", kept),
        (_multiply("A", "B", "out", rows, columns, terms, strides, batch, (_of(*a[1:]), _of(*b[1:]))),),
    )


def _multiply(
    a: str, b: str, out: str, rows: Expr, columns: Expr, terms: Expr, strides: list[Expr], batch: Expr,
    apart: tuple[Expr, Expr], factor: ValueArg = ONE,
) -> Launch:  # fmt: skip
    grid: tuple[Expr, ...] = (f"ceil_div({columns}, 128)", f"min({rows}, 65535)", batch)
    steps = [ValueArg(each if batch != 1 else 0, "int64") for each in apart]
    args: tuple[Arg, ...] = (
        a,
        b,
        out,
        _int(rows),
        _int(columns),
        _int(terms),
        *map(_int, strides),
        *steps,
        factor,
    )
    return Launch("product", grid, (128,), args)


def _rows(task: Task) -> Side:
    *outer, width = _shape(task, "x")
    term, result = ROW_FORMS[number(task)]
    code = ROWS.replace("TERM", term).replace("RESULT", result)
    return Side(code, (Launch("rows", (_of(*outer),), (256,), ("x", "out", _int(width))),))


def _norm(task: Task) -> Side:
    which, shape = number(task), _shape(task, "x")
    batch, channels, area = shape[0], shape[1], _of(*shape[2:])
    # inner, outer, groups: where the elements lie that share a mean
    inner, outer, groups = {
        33: (area, batch, channels), 34: (area, 1, _of(batch, channels)), 40: (_of(*shape[1:]), 1, batch),
        35: (f"{area} * ({channels}) / {constants(task.template.slow.code).get('num_groups', 1)}", 1, None),
    }.get(which, (area, 1, 1))  # fmt: skip
    if which in (36, 37):
        return _scaled(task)
    if groups is None:
        groups = f"({batch}) * {constants(task.template.slow.code)['num_groups']}"
    affine = which != 34
    weights = ("weight", "bias") if affine else ("x", "x")
    last = (_int(channels), _int(0 if which == 40 else area), _int(int(affine)))
    args: tuple[Arg, ...] = ("x", *weights, "out", _int(inner), _int(outer), _int(groups), *last)
    return Side(NORM, (Launch("norm", (groups,), (256,), args),))


def _scaled(task: Task) -> Side:
    """Root mean square over channels (36), Frobenius norm (37)."""
    shape = _shape(task, "x")
    batch, channels, area = shape[0], shape[1], _of(*shape[2:])
    if number(task) == 36:
        args: tuple[Arg, ...] = ("x", "out", _int(batch), _int(channels), _int(area))
        return Side(CHANNELS, (Launch("along", _blocks(_of(batch, area)), (256,), args),))
    count = _int(_of(*shape))
    plan = (
        Launch("squares", (PARTS,), (256,), ("x", "sums", count)),
        Launch("scale", (PARTS * 8,), (256,), ("x", "sums", "out", count, _int(PARTS))),
    )
    return Side(SQUARES, plan, {"sums": Buffer("float32", (PARTS,), role="scratch")})


def _along(task: Task) -> Side:
    kind, start, step, result = ALONG_FORMS[number(task)]
    code = ALONG.replace("OUT", kind).replace("START", start).replace("STEP", step).replace("RESULT", result)
    outer, length, inner = _shape(task, "x")
    args: tuple[Arg, ...] = ("x", "out", *map(_int, (outer, length, inner)))
    return Side(code, (Launch("along", _blocks(_of(outer, inner)), (256,), args),))


def _scan(task: Task) -> Side:
    masked = number(task) == 93
    start, back, step = SCAN_FORMS[number(task)]
    code = SCAN.replace("MASK", "const bool* mask," if masked else "").replace("START", start)
    code = code.replace("BACK", back).replace("STEP", step)
    rows, width = _shape(task, "x")
    args: tuple[Arg, ...] = ("x", *(["mask"] if masked else []), "out", _int(rows), _int(width))
    return Side(code, (Launch("scan", _blocks(rows, 64), (64,), args),))


def _loss(task: Task) -> Side:
    which = number(task)
    kind, most, step, row = LOSS_FORMS[which]
    code = LOSS.replace("TYPE", kind).replace("MOST", most).replace("STEP", step).replace("ROW", row)
    names = ("anchor", "positive", "negative") if which == 99 else ("predictions", "targets", "predictions")
    rows, width = _shape(task, names[0])
    by = rows if which in (95, 98, 99) else _of(rows, width)
    plan = (
        Launch("loss", (PARTS,), (256,), (*names, "sums", _int(rows), _int(width))),
        Launch("finish", (1,), (256,), ("sums", "out", _int(PARTS), ValueArg(by, "float32"))),
    )
    return Side(code, plan, {"sums": Buffer("float32", (PARTS,), role="scratch")})


def _attention(task: Task) -> Side:
    batch, heads, length, width = _shape(task, "Q")
    each, count = _of(length, width), _of(batch, heads)
    square = _of(length, length)
    first = (
        PRODUCT.replace("KEPT", "true")
        .replace("float factor", "int width")
        .replace("sum * factor", "sum * (width ? rsqrtf((float)width) : 1.0f)")
    )
    term, result = ROW_FORMS[23]
    code = first + ROWS.replace("TERM", term).replace("RESULT", result)
    scores: list[Expr] = [width, 1, 1, width]
    plan = (
        _multiply("Q", "K", "scores", length, length, width, scores, count, (each, each), _int(width)),
        Launch("rows", (_of(batch, heads, length),), (256,), ("scores", "shares", _int(length))),
        _multiply(
            "shares", "V", "out", length, width, length, [length, 1, width, 1], count, (square, each), _int(0)
        ),
    )
    scratch = Buffer("float32", (batch, heads, length, length), role="scratch")
    return Side(code, plan, {"scores": scratch, "shares": scratch})


def _three(task: Task, name: str, default: int, axes: int) -> list[int]:
    """A setting of a window for depth, height and width; axes that are not there have the default."""
    known = constants(task.template.slow.code)
    if name in known:
        found = [known[name]] * axes
    elif f"{name}_0" in known:
        found = [known[f"{name}_{i}"] for i in range(axes)]
    elif f"{name}_h" in known:
        found = [known[f"{name}_h"], known[f"{name}_w"]]
    else:
        found = [default] * axes
    return [default] * (3 - axes) + found


def _window(
    code: str, source: str, weight: tuple[str, ...], to: str, given: tuple[Expr, ...], made: tuple[Expr, ...],
    kernel: tuple[Expr, ...], each: Expr,
) -> Launch:  # fmt: skip
    def volume(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*([1] * (3 - len(shape))), *shape)

    numbers = (given[0], given[1], *volume(given[2:]), made[1], *volume(made[2:]), *volume(kernel), each)
    return Launch("window", _blocks(_of(*made)), (256,), (source, *weight, to, *map(_int, numbers)))


def _pool(task: Task) -> Side:
    most = "max" in task.family
    shape, out = _shape(task, "x"), _shape(task, "out")
    axes = len(shape) - 2
    kernel = _three(task, "kernel_size", 1, axes)
    known = constants(task.template.slow.code)
    settings = {
        "s": _three(task, "stride", 1, axes) if "stride" in known else kernel,
        "p": _three(task, "padding", 0, axes),
        "l": _three(task, "dilation", 1, axes),
    }
    step = f"found = fmaxf(found, {POOL_AT})" if most else f"found += {POOL_AT} / (kd * kh * kw)"
    code = WINDOW.replace("WEIGHT", "").replace("START", "-3.4e38f" if most else "0.0f").replace("FIRST", "")
    code = code.replace("CHANNELS", "1").replace("PLACE", FORWARD.format(**settings)).replace("STEP", step)
    return Side(code, (_window(code, "x", (), "out", shape, out, tuple(kernel[3 - axes :]), 1),))


def _convolving(task: Task, settings: dict[str, list[int]], bias: bool) -> str:
    """A convolution, forward or transposed; groups follow from the weights' shape."""
    back = "transposed" in task.family
    code = WINDOW.replace("START", "bias[c]" if bias else "0.0f")
    code = code.replace("STEP", CONVOLVE)
    if back:
        first = "int groups = outputs / each, inside = inputs / groups, group = c / each * inside;"
        at = "(long long)(group + channel) * each + c % each"
    else:
        first = "int inside = each, group = c / (outputs / (inputs / each)) * each;"
        at = "(long long)c * each + channel"
    code = code.replace("FIRST", first).replace("CHANNELS", "inside").replace("WEIGHT_AT", at)
    code = code.replace("GROUP", "group").replace("PLACE", (BACKWARD if back else FORWARD).format(**settings))
    return code.replace("WEIGHT", "const float* weight," + (" const float* bias," if bias else ""))


def _settings(task: Task, axes: int) -> dict[str, list[int]]:
    if number(task) == 50:
        return {"s": [1, 4, 4], "p": [0, 2, 2], "l": [1, 1, 1]}
    names = {"s": ("stride", 1), "p": ("padding", 0), "l": ("dilation", 1)}
    return {key: _three(task, name, default, axes) for key, (name, default) in names.items()}


def _convolution(task: Task) -> Side:
    assert task.template.problem is not None
    shape, out, weight = (_shape(task, name) for name in ("x", "out", "weight"))
    bias = "bias" in task.template.problem.buffers
    code = _convolving(task, _settings(task, len(shape) - 2), bias)
    names = ("weight", "bias") if bias else ("weight",)
    return Side(code, (_window(code, "x", names, "out", shape, out, weight[2:], weight[1]),))


def _separable(task: Task) -> Side:
    shape, out, deep, across = (_shape(task, n) for n in ("x", "out", "weight", "pointwise_weight"))
    between = (shape[0], shape[1], *out[2:])
    first = _convolving(task, _settings(task, 2), False)
    second = _convolving(task, {"s": [1] * 3, "p": [0] * 3, "l": [1] * 3}, False)
    one = _window(first, "x", ("weight",), "between", shape, between, deep[2:], deep[1])
    two = _window(second, "between", ("pointwise_weight",), "out", between, out, across[2:], across[1])
    plan = (one, Launch("across", two.grid, two.block, two.args))
    code = first + second.replace("void window(", "void across(")
    return Side(code, plan, {"between": Buffer("float32", between, role="scratch")})
