"""A draft as it is inferred from one file, before anything runs."""

from __future__ import annotations

from kcurate.cuda_source import whole_file
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.draft.inferred import from_code
from kcurate.draft.sketch import Draft
from kcurate.records import Kernel, Launch, Source, Span


def inferred(source: str, beside: str = "") -> Draft:
    """The draft of the one kernel of a file that also launches it; `beside`: another file of its folder."""
    (found,) = whole_file(source.encode()).kernels
    kernel = Kernel(
        id=found.name,
        source=Source("suite"),
        benchmark="benchmark",
        variant=None,
        name=found.name,
        span=Span("main.cu", 0, 1, 1, 1),
        root="main.cu",
        params=found.params,
        instantiations=found.instantiations,
        launch_sites=found.launch_sites,
        features=found.features,
    )
    return from_code.drafts(kernel, found.code.decode(), [Code((source + beside).encode())])[0]


def launched(draft: Draft) -> Launch:
    """Its one launch."""
    (step,) = (step for step in draft.known.sides[""].plan if isinstance(step, Launch))
    return step
