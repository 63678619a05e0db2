"""Facts about a PyTorch module for given values of its constants: shapes, dtypes, lengths of sums.

Runs the module's code on torch's `meta` device, in a worker process. Not covered: values
(`kernelbench.values`), which constants are sizes (`kernelbench.sizes`).
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
# Matrix products, and the index of the tensor argument whose last dimension is summed.
_MATRIX = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "addmv": 1, "baddbmm": 1}
# Operators that sum (or multiply) elements of one tensor.
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
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Facts:
    """Facts about a module.

    `inputs`: a number is a scalar argument. `state`: parameters and registered buffers by path. `bounds`: low
    and high of random integers, by the index of the input. `terms`: for each operator that sums, the number
    of terms per element of its result; `reduced`: whether it only sums one tensor. `product`: whether an
    operator multiplies the elements of one tensor with each other.
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
        return tuple(value for value in self.inputs if isinstance(value, Array))

    @property
    def extents(self) -> tuple[int, ...]:
        """The shapes of all arrays, one after the other."""
        return tuple(extent for array in self.arrays for extent in array.shape)

    @property
    def highs(self) -> tuple[int, ...]:
        """The upper bounds of the random integers."""
        return tuple(high for _, high in self.bounds.values())

    def numbers(self) -> tuple[int, ...]:
        """All numbers in these facts: `extents`, those of the inputs first, then `highs`, then `terms`."""
        return (*self.extents, *self.highs, *self.terms)

    def form(self) -> object:
        """Everything except those numbers: equal if only sizes differ."""
        return (
            [(len(a.shape), a.dtype) for a in self.arrays],
            [value if not isinstance(value, Array) else None for value in self.inputs],
            list(self.state),
            [(index, low) for index, (low, _) in self.bounds.items()],
            self.reduced,
            self.product,
        )


def look(code: str, sizes: Mapping[str, int]) -> Facts:
    """The facts for these values of the constants.

    Raises:
        ProblemError: the module does not run, or its shapes depend on data.
    """
    import torch

    with torch.device("meta"), torch.no_grad():
        model, names = torch_module.build(code, MODEL, sizes)
        with torch_module.module_errors(MODEL):
            with _random_integers() as random:
                inputs = list(names["get_inputs"]())
            counter = _Counter()
            with counter.watching():
                results = torch_module.flat(model(*inputs))
    state = {path: array_of(tensor) for path, tensor in state_of(model).items()}
    return Facts(
        inputs=tuple(_input(value) for value in inputs),
        state=state,
        outputs=tuple(array_of(result) for result in results),
        bounds=_bounds(inputs, random),
        terms=tuple(counter.terms),
        reduced=tuple(counter.reduced),
        product=counter.product,
    )


def state_of(model: Any) -> dict[str, Any]:
    """Parameters and registered buffers by path; shared ones by their first path."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def array_of(tensor: Any) -> Array:
    """A tensor's shape and dtype."""
    return Array(tuple(tensor.shape) or (1,), str(tensor.dtype).removeprefix("torch."))


def forward_names(names: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of the forward pass, without `self`."""
    parameters = inspect.signature(names[MODEL].forward).parameters.values()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))[1:]


def _input(value: Any) -> Array | float:
    import torch

    if isinstance(value, torch.Tensor):
        return array_of(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ProblemError(f"an input is a {type(value).__name__}")


@contextlib.contextmanager
def _random_integers() -> Iterator[list[tuple[tuple[int, ...], int, int]]]:
    """The (shape, low, high) of every `torch.randint`, in order."""
    import torch

    calls: list[tuple[tuple[int, ...], int, int]] = []
    original: Callable[..., Any] = torch.randint

    def watched(*args: Any, **kwargs: Any) -> Any:
        tensor = original(*args, **kwargs)
        numbers = [int(number) for number in args if isinstance(number, int)]
        low, high = (0, *numbers)[-2:] if numbers else (kwargs.get("low", 0), kwargs["high"])
        calls.append((tuple(tensor.shape) or (1,), int(low), int(high)))
        return tensor

    torch.randint = watched
    try:
        yield calls
    finally:
        torch.randint = original


def _bounds(
    inputs: Sequence[Any], calls: Sequence[tuple[tuple[int, ...], int, int]]
) -> dict[int, tuple[int, int]]:
    """Low and high of each integer input, from the call that made a tensor of its shape."""
    bounds: dict[int, tuple[int, int]] = {}
    waiting = list(calls)
    for index, value in enumerate(inputs):
        if not hasattr(value, "shape") or value.is_floating_point():
            continue
        shape = tuple(value.shape) or (1,)
        match = next((call for call in waiting if call[0] == shape), None)
        if match is not None:
            waiting.remove(match)
            bounds[index] = match[1:]
    return bounds


class _Counter:
    """Records the lengths of all operators' sums."""

    def __init__(self) -> None:
        self.terms: list[int] = []
        self.reduced: list[bool] = []
        self.product = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Record the operators called inside."""
        from torch.utils._python_dispatch import TorchDispatchMode

        note = self._note

        class Watch(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                outcome = func(*args, **(kwargs or {}))
                note(func.overloadpacket.__name__, args, outcome)
                return outcome

        with Watch():
            yield

    def _note(self, name: str, args: Sequence[Any], outcome: Any) -> None:
        self.product = self.product or name.strip("_").endswith("prod")
        terms = _terms(name.lstrip("_"), args, outcome)
        if terms is not None:
            self.terms.append(terms[0])
            self.reduced.append(terms[1])


def _terms(name: str, args: Sequence[Any], outcome: Any) -> tuple[int, bool] | None:
    """The number of terms per element of an operator's result, and whether it only sums one tensor.

    None for operators that do not sum.
    """
    result = outcome[0] if isinstance(outcome, tuple | list) and outcome else outcome
    tensors = [tensor for tensor in args if hasattr(tensor, "shape") and hasattr(tensor, "numel")]
    if not tensors or not hasattr(result, "numel") or not result.is_floating_point():
        return None
    if (terms := _product_terms(name, args, tensors)) is not None:
        return terms, False
    terms = _reduced_terms(name, args, tensors[0], result)
    return None if terms is None else (terms, True)


def _product_terms(name: str, args: Sequence[Any], tensors: Sequence[Any]) -> int | None:
    """The terms of a sum of products of two tensors."""
    if name in _MATRIX:
        return int(tensors[_MATRIX[name]].shape[-1])
    if name.startswith("convolution"):
        weight, transposed, groups = args[1], args[6], args[8]
        channels = weight.shape[0] // groups if transposed else weight.shape[1]
        return int(channels * math.prod(weight.shape[2:]))
    return int(tensors[0].shape[-1]) if name.startswith("scaled_dot_product") else None


def _reduced_terms(name: str, args: Sequence[Any], tensor: Any, result: Any) -> int | None:
    """The terms of a sum over one tensor."""
    if any(part in name for part in _ALONG_A_DIMENSION):
        dim = next((number for number in args if type(number) is int), -1)
        return int(tensor.shape[dim])
    if name.startswith("avg_pool"):
        return math.prod(args[1]) if isinstance(args[1], list | tuple) else int(args[1])
    if "layer_norm" in name:
        return int(math.prod(args[1]))
    if "batch_norm" in name:
        return int(tensor.numel() // tensor.shape[1])
    if "group_norm" in name:
        return int(tensor.numel() // (tensor.shape[0] * args[6]))
    return int(tensor.numel() // max(1, result.numel())) if name.startswith(_REDUCING) else None
