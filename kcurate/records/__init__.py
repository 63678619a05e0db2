"""All record types that cross a stage or file boundary: frozen dataclasses, nothing else.

| module | what |
|---|---|
| `attempt` | exchanges with a language model, and the outcome of each answer |
| `capture` | what a running program did with one kernel |
| `kernel` | the output of `extract` |
| `known` | facts about a suite's benchmark beyond its code |
| `pair` | a candidate (two sides of one problem) and its origin |
| `problem` | a problem (sizes, buffers, scalars) and a plan (how a side is launched on it) |
| `profile` | what a profiler counted while one side ran on one GPU |
| `run` | the summary that a command reports when it ends |
| `verdict` | the judge's result for a candidate |

Each record type that is written to a file has a JSON Schema with the same fields in `schemas/`.
"""

from kcurate.records.attempt import (
    Attempt,
    AttemptOutcome,
    BatchJob,
    BatchRequest,
    Exchange,
    Prompt,
    ReplyStatus,
    Transcript,
    Turn,
    Usage,
    WrongAttempt,
)
from kcurate.records.capture import (
    MOST_VALUE,
    Capture,
    CapturedArg,
    CapturedBuffer,
    CapturedLaunch,
    CapturedPointer,
    CapturedSymbol,
    Contents,
)
from kcurate.records.kernel import (
    Argument,
    CompiledKernel,
    Condition,
    Configuration,
    Kernel,
    LaunchSite,
    Param,
    Rights,
    Source,
    Sourced,
    Span,
)
from kcurate.records.known import KnownProblem, KnownSide
from kcurate.records.pair import (
    SIDES,
    Candidate,
    Origin,
    OriginKind,
    ProblemOrigin,
    SideName,
    Trust,
    other_side,
)
from kcurate.records.problem import (
    Arg,
    BenchSize,
    BindTexture,
    Buffer,
    BufferArg,
    Call,
    Copy,
    Expr,
    Fill,
    For,
    Init,
    Language,
    Launch,
    PointersArg,
    Problem,
    Promise,
    Reference,
    Role,
    Scalar,
    Side,
    Sizes,
    Step,
    StructField,
    Swap,
    TensorMapArg,
    Tolerance,
    Upload,
    ValueArg,
    View,
    WhileNonzero,
    steps,
)
from kcurate.records.profile import Profile
from kcurate.records.run import Failure, Item, Summary
from kcurate.records.verdict import (
    Environment,
    Outcome,
    Resources,
    Sanitized,
    SideReport,
    SizeTiming,
    Speedup,
    Verdict,
)

__all__ = [
    "MOST_VALUE", "SIDES", "Arg", "Argument", "Attempt", "AttemptOutcome", "BatchJob",
    "BatchRequest", "BenchSize", "BindTexture", "Buffer", "BufferArg", "Call", "Candidate", "Capture",
    "CapturedArg", "CapturedBuffer", "CapturedLaunch", "CapturedPointer", "CapturedSymbol",
    "CompiledKernel", "Condition", "Configuration", "Contents", "Copy", "Environment", "Exchange", "Expr",
    "Failure", "Fill", "For", "Init", "Item", "Kernel", "KnownProblem", "KnownSide", "Language", "Launch",
    "LaunchSite", "Origin", "OriginKind", "Outcome", "Param", "PointersArg", "Problem", "ProblemOrigin",
    "Profile", "Promise", "Prompt", "Reference", "ReplyStatus", "Resources", "Rights", "Role", "Sanitized",
    "Scalar", "Side", "SideName", "SideReport", "SizeTiming", "Sizes", "Source", "Sourced", "Span",
    "Speedup", "Step", "StructField", "Summary", "Swap", "TensorMapArg", "Tolerance", "Transcript", "Trust",
    "Turn", "Upload", "Usage", "ValueArg", "Verdict", "View", "WhileNonzero", "WrongAttempt", "other_side",
    "steps",
]  # fmt: skip
