"""What a PyTorch module shows of itself at given constants, without data: shapes, dtypes, lengths of sums.

Runs the module's text on torch's `meta` device, in the process that is there for it. Not covered: values
(`kernelbench.values`), which constants matter (`kernelbench.sizes`).
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcurate.backends import torch_module
from kcurate.errors import ProblemError

MODEL = "Model"
# What is known of the error of each operator: how many terms lie behind one element of its result.
_MATRIX = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "addmv": 1, "baddbmm": 1}
# Operators that add up (or multiply) elements of one tensor.
_REDUCING = (
    "sum", "mean", "var", "std", "norm", "linalg_vector_norm", "prod", "nansum", "trace", "cdist", "pdist",
    "mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "nll_loss", "binary_cross_entropy", "kl_div",
)  # fmt: skip
_ALONG_A_DIMENSION = ("cumsum", "cumprod", "softmax", "logsumexp", "logcumsumexp")


@dataclass(frozen=True)
class Array:
    """A tensor's shape (a scalar's is (1,)) and dtype."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Facts:
    """What a module shows.

    `inputs`: a number is a scalar argument. `state`: parameters and registered buffers by path. `bounds`: low
    and high of integers drawn, by the input that they became. `terms`: how many lie behind an element of each
    operator's result, for operators that add up; `reduced`: which of them only add up one tensor. `product`:
    whether something is multiplied up.
    """

    inputs: tuple[Array | float, ...]
    state: Mapping[str, Array]
    outputs: tuple[Array, ...]
    bounds: Mapping[int, tuple[int, int]]
    terms: tuple[int, ...]
    reduced: tuple[bool, ...]
    product: bool

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Inputs, state, outputs, in this order."""
        return (*self.input_arrays, *self.state.values(), *self.outputs)

    @property
    def input_arrays(self) -> tuple[Array, ...]:
        """The inputs that are tensors."""
        return tuple(one for one in self.inputs if isinstance(one, Array))

    def numbers(self) -> tuple[int, ...]:
        """Every number of these facts in a fixed order, those of the inputs first."""
        extents = [extent for array in self.arrays for extent in array.shape]
        return (*extents, *(high for _, high in self.bounds.values()), *self.terms)

    def form(self) -> object:
        """Everything but those numbers: equal for modules that differ in sizes alone."""
        return (
            [(len(a.shape), a.dtype) for a in self.arrays],
            [one if not isinstance(one, Array) else None for one in self.inputs],
            list(self.state),
            [(index, low) for index, (low, _) in self.bounds.items()],
            self.reduced,
            self.product,
        )


def look(code: str, sizes: Mapping[str, int]) -> Facts:
    """The facts at these constants.

    Raises:
        ProblemError: the module does not run, or its shapes depend on values.
    """
    import torch

    with torch.device("meta"), torch.no_grad():
        model, names = torch_module.build(code, MODEL, sizes)
        with torch_module.module_errors(MODEL):
            with _drawn_integers() as drawn:
                given = list(names["get_inputs"]())
            counter = _Counter()
            with counter.watching():
                results = torch_module.flat(model(*given))
    state = {path: array_of(tensor) for path, tensor in state_of(model).items()}
    return Facts(
        inputs=tuple(_input(one) for one in given),
        state=state,
        outputs=tuple(array_of(result) for result in results),
        bounds=_bounds(given, drawn),
        terms=tuple(counter.terms),
        reduced=tuple(counter.reduced),
        product=counter.product,
    )


def state_of(model: Any) -> dict[str, Any]:
    """Parameters and registered buffers by path; of those that are shared, the first path."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def array_of(tensor: Any) -> Array:
    """A tensor's shape and dtype."""
    return Array(tuple(tensor.shape) or (1,), str(tensor.dtype).removeprefix("torch."))


def forward_names(names: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of the forward pass, without `self`."""
    found = inspect.signature(names[MODEL].forward).parameters.values()
    return tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))[1:]


def _input(given: Any) -> Array | float:
    import torch

    if isinstance(given, torch.Tensor):
        return array_of(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return given
    raise ProblemError(f"an input is a {type(given).__name__}")


@contextlib.contextmanager
def _drawn_integers() -> Iterator[list[tuple[tuple[int, ...], int, int]]]:
    """The (shape, low, high) of every `torch.randint`, in order."""
    import torch

    drawn: list[tuple[tuple[int, ...], int, int]] = []
    whole: Callable[..., Any] = torch.randint

    def watched(*args: Any, **kwargs: Any) -> Any:
        made = whole(*args, **kwargs)
        numbers = [int(one) for one in args if isinstance(one, int)]
        low, high = (0, *numbers)[-2:] if numbers else (kwargs.get("low", 0), kwargs["high"])
        drawn.append((tuple(made.shape) or (1,), int(low), int(high)))
        return made

    torch.randint = watched
    try:
        yield drawn
    finally:
        torch.randint = whole


def _bounds(
    given: Sequence[Any], drawn: Sequence[tuple[tuple[int, ...], int, int]]
) -> dict[int, tuple[int, int]]:
    """Low and high of each integer input, from the draw of its shape."""
    found: dict[int, tuple[int, int]] = {}
    waiting = list(drawn)
    for index, one in enumerate(given):
        if not hasattr(one, "shape") or one.is_floating_point():
            continue
        shape = tuple(one.shape) or (1,)
        match = next((draw for draw in waiting if draw[0] == shape), None)
        if match is not None:
            waiting.remove(match)
            found[index] = match[1:]
    return found


class _Counter:
    """Notes how long the sums of every operator are."""

    def __init__(self) -> None:
        self.terms: list[int] = []
        self.reduced: list[bool] = []
        self.product = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Count what is called inside."""
        from torch.utils._python_dispatch import TorchDispatchMode

        note = self._note

        class Watch(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                made = func(*args, **(kwargs or {}))
                note(func.overloadpacket.__name__, args, made)
                return made

        with Watch():
            yield

    def _note(self, name: str, args: Sequence[Any], made: Any) -> None:
        self.product = self.product or name.strip("_").endswith("prod")
        found = _terms(name.lstrip("_"), args, made)
        if found is not None:
            self.terms.append(found[0])
            self.reduced.append(found[1])


def _terms(name: str, args: Sequence[Any], made: Any) -> tuple[int, bool] | None:
    """How many terms lie behind one element of what an operator gives, and whether it only adds up one
    tensor; None for operators that add up nothing."""
    result = made[0] if isinstance(made, tuple | list) and made else made
    tensors = [one for one in args if hasattr(one, "shape") and hasattr(one, "numel")]
    if not tensors or not hasattr(result, "numel") or not result.is_floating_point():
        return None
    first = tensors[0]
    if name in _MATRIX:
        return int(tensors[_MATRIX[name]].shape[-1]), False
    if name.startswith("convolution"):
        weight, transposed, groups = args[1], args[6], args[8]
        inside = weight.shape[0] // groups if transposed else weight.shape[1]
        return int(inside * math.prod(weight.shape[2:])), False
    if name.startswith("scaled_dot_product"):
        return int(first.shape[-1]), False
    if any(part in name for part in _ALONG_A_DIMENSION):
        dim = next((one for one in args if type(one) is int), -1)
        return int(first.shape[dim]), True
    if name.startswith("avg_pool"):
        return (math.prod(args[1]) if isinstance(args[1], list | tuple) else int(args[1])), True
    if "layer_norm" in name:
        return math.prod(args[1]), True
    if "batch_norm" in name:
        return int(first.numel() // first.shape[1]), True
    if "group_norm" in name:
        return int(first.numel() // (first.shape[0] * args[6])), True
    if name.startswith(_REDUCING):
        return int(first.numel() // max(1, result.numel())), True
    return None
