"""Coverage-guided fuzzing of every reader of text that strangers write, with atheris (libFuzzer).

    python tests/fuzz/harness.py TARGET [--seconds 300] [--collect] [CORPUS]

A target takes bytes and raises nothing: what a reader may raise is caught in it. An input that raises goes to
`crashes/`; `test_fuzz.py` runs those, and every seed, without atheris. `--collect` goes on after a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CRASHES = HERE / "crashes"
# An input that takes longer counts as a crash.
TIMEOUT_S = 20
# What a changed record gets in place of a value.
POOL: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**62, 2**63, 2**64, 10**400, -0.0, 1e308, float("nan"), float("inf"), "",
    "n", "x", "out", "../../etc/passwd", "/dev/zero", "n*n", "1/0", "1/(n-n)", "(" * 60, "-" * 400, "\x00",
    "\ud800", [], {}, [[]], {"": 0}, [0] * 100, "float32", "int64", "normal", "permutation", "slow", "2**62",
    "a" * 5000,
    {"buffer": "x", "offset": "n"}, {"pointers": []}, {"for": "i", "range": ["0", "n"], "do": []},
    {"swap": ["x", "y"]}, {"while_nonzero": "y", "do": [], "max": 3}, {"dtype": "float32", "shape": ["n"]},
)  # fmt: skip


class Edits:
    """Reads an input as a script of changes to JSON data; every input means something."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, below: int) -> int:
        """The next number, below `below`; 0 at the end."""
        width = 2 if below > 256 else 1
        part = self.data[self.at : self.at + width]
        self.at += width
        return int.from_bytes(part, "little") % below if below > 0 else 0

    def value(self) -> Any:
        """A value from the pool, or text or a number from the input."""
        kind = self.take(4)
        if kind < 2:
            return copy.deepcopy(POOL[self.take(len(POOL))])
        length = self.take(40)
        part = self.data[self.at : self.at + length]
        self.at += length
        return (
            part.decode("utf-8", "replace") if kind == 2 else int.from_bytes(part[:9], "little", signed=True)
        )

    def apply(self, data: Any) -> Any:
        """Change up to eight places."""
        whole = [data]
        for _ in range(8):
            if self.at >= len(self.data):
                break
            self._once(whole)
        return whole[0]

    def _once(self, whole: list[Any]) -> None:
        inside: Any = whole
        key: Any = 0
        while isinstance(inside[key], dict | list) and inside[key] and self.take(8):
            inside = inside[key]
            keys = list(inside) if isinstance(inside, dict) else range(len(inside))
            key = keys[self.take(len(keys))]
        action = self.take(4)
        if action == 0 and inside is not whole:
            del inside[key]
        elif action == 1 and isinstance(inside, dict):
            inside[str(self.value())] = inside[key]
        elif action == 1:
            inside.insert(0, copy.deepcopy(inside[key])) if inside is not whole else None
        else:
            inside[key] = self.value()


def dumped(data: Any) -> bytes:
    """JSON as a stranger may write it: with NaN, infinity and lone surrogates."""
    return json.dumps(data).encode()


def expressions(data: bytes) -> None:
    """An expression of sizes is a number, or a `ProblemError`."""
    from kcurate.errors import ProblemError
    from kcurate.problem.expressions import evaluate

    with contextlib.suppress(ProblemError):
        assert type(evaluate(data.decode("utf-8", "replace"), {"n": 1000, "m": 7, "zero": 0})) is int


@cache
def _pairs() -> list[bytes]:
    folders = sorted((ROOT / "pairs").glob("*/*/pair.json"))
    return [path.read_bytes() for path in folders[:: len(folders) // 24]]


def _candidate(data: Any) -> Any:
    """What `store.read_candidate` makes of a `pair.json` whose sides hold a kernel."""
    from kcurate.core import codec, store

    store.check_schema("pair", data, where="pair.json")
    plain = {key: value for key, value in data.items() if key != "schema"}
    for side in ("slow", "fast"):
        rest = {key: value for key, value in plain[side].items() if key != "file"}
        plain[side] = {"code": "__global__ void k(const float* x, float* y, int n) {}", **rest}
    return codec.from_data(store.Candidate, plain, where="pair.json")


def pairs(data: bytes) -> None:
    """A changed `pair.json` is refused, or its problem and plans are checked at every size."""
    from kcurate.core import codec, store
    from kcurate.errors import RecordError
    from kcurate.problem.check import check

    edits = Edits(data)
    seeds = _pairs()
    text = dumped(edits.apply(json.loads(seeds[edits.take(len(seeds))])))
    with contextlib.suppress(RecordError):
        candidate = _candidate(codec.parse(text, where="pair.json"))
        check(candidate)
        store.candidate_key(candidate, protocol="3")


@cache
def _records() -> list[tuple[str, bytes]]:
    """Records of other kinds, with their schema."""
    verdicts = sorted((ROOT / "pairs").glob("*/*/verdicts/*.json"))[::90]
    known = sorted((ROOT / "sources" / "problems").glob("*/*.json"))[::8]
    return [
        *(("verdict", path.read_bytes()) for path in verdicts),
        *(("knownproblem", path.read_bytes()) for path in known),
    ]


def records(data: bytes) -> None:
    """A changed verdict or known problem is a record, or a `RecordError`."""
    from kcurate.core import codec, store
    from kcurate.errors import RecordError
    from kcurate.records import KnownProblem, Verdict

    edits = Edits(data)
    schema, seed = _records()[edits.take(len(_records()))]
    text = dumped(edits.apply(json.loads(seed))) if edits.take(8) else data[2:]
    kinds: dict[str, type[Any]] = {"verdict": Verdict, "knownproblem": KnownProblem}
    with contextlib.suppress(RecordError):
        plain = codec.parse(text, where="record")
        store.check_schema(schema, plain, where="record")
        codec.to_data(codec.from_data(kinds[schema], plain, where="record"))


def replies(data: bytes) -> None:
    """A reply is an answer or unreadable; an answer is a side, or text that says why it is none."""
    from kcurate.problem.answered import side_of
    from kcurate.prompts.replies import Answer, read_reply

    given = _given()
    text = data[1:].decode("utf-8", "replace")
    kind = data[0] % 4 if data else 0
    if kind >= 2:
        edits = Edits(data[1:])
        content: Any = {"code": given.fast.code, "plan": _plan(), "buffers": {}}
        changed = edits.apply(content)
        text = json.dumps(changed)
        if kind == 3:
            text = f"```cuda\n{given.fast.code}\n```\n```json\n{text}\n```\n"
    answer = read_reply(text, "tool" if kind in (0, 2) else "text")
    if isinstance(answer, Answer):
        assert given.problem is not None
        side_of(answer, given.fast, given.problem)


@cache
def _given() -> Any:
    from kcurate.core import store

    return store.read_candidate(ROOT / "pairs" / "deep-learning" / "softmax-block-online")


def _plan() -> Any:
    from kcurate.core import codec

    return codec.to_data(_given().fast)["plan"]


@cache
def _raw() -> list[list[Any]]:
    """What the recorder wrote of three programs, as lines; the contents of buffers are left out."""
    folder = ROOT / "tests" / "capture" / "records"
    return [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("*/*.jsonl"))
    ]


def captures(data: bytes) -> None:
    """A recorder's changed lines are described, or the record is refused."""
    from kcurate.capture import raw
    from kcurate.capture.recording import Describer, Texts
    from kcurate.errors import RecordError

    edits = Edits(data)
    lines = edits.apply(copy.deepcopy(_raw()[edits.take(len(_raw()))]))
    texts = [dumped(line) for line in lines] if isinstance(lines, list) else [data[1:]]
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        Path(folder, "1.jsonl").write_bytes(b"\n".join(texts))
        with contextlib.suppress(RecordError):
            for process in raw.read(Path(folder)):
                Describer(Path(folder), Texts({}), Path(folder, "data"), keep=False).captures(process)


@cache
def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def extract(data: bytes) -> None:
    """A `.cu` file of any content has a report, its kernels have parameters and a normal form."""
    from kcurate.cuda_source import features, kernel_signatures, normalise, whole_file

    for kernel in whole_file(data).kernels:
        normalise(kernel.code)
    kernel_signatures(data)
    features(data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (expressions, pairs, records, replies, captures, extract)
}


def seeds(target: str) -> Iterator[bytes]:
    """What a run starts from."""
    if target == "extract":
        for folder in ("tests/suites", "sources/demo", "tests/capture/programs", "pairs/scan"):
            yield from (path.read_bytes()[:6000] for path in sorted((ROOT / folder).rglob("*.cu"))[:16])
    elif target == "expressions":
        yield from (
            b"ceil_div(n, 128) * 4",
            b"min(n, m, 3) - align_up(m, 32) % 7",
            b"-(-n / log2(m)) + pow2(3)",
        )
    elif target == "replies":
        yield b'\1```cuda\n__global__ void k() {}\n```\n```json\n{"plan": [{"swap": ["x", "y"]}]}\n```\n'
        yield b'\0{"code": "__global__ void k() {}", "plan": "[]", "buffers": {"t": {"dtype": "int32"}}}'
    yield from (bytes([first, *range(1, 60, 1 + first)]) for first in range(8))


def collecting(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, which writes down the first input of each kind of crash and goes on."""
    known: set[str] = set()

    def run(data: bytes) -> None:
        try:
            target(data)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            frames = traceback.extract_tb(error.__traceback__)
            key = f"{type(error).__name__} {[f'{one.filename}:{one.lineno}' for one in frames][-2:]}"
            if key not in known:
                known.add(key)
                keep(target.__name__, data)
                print(f"crash: {key}: {error!r:.200}", flush=True)

    return run


def keep(target: str, data: bytes) -> None:
    """Write an input that crashed to `crashes/`."""
    CRASHES.mkdir(exist_ok=True)
    (CRASHES / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)


def main() -> None:
    """Fuzz one target."""
    import atheris

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("corpus", nargs="?", type=Path)
    options = parser.parse_intermixed_args()
    with atheris.instrument_imports(include=["kcurate"]):
        for one in seeds(options.target):
            TARGETS[options.target](one)  # imports what it needs, instrumented
    with tempfile.TemporaryDirectory() as folder:
        corpus = options.corpus or Path(folder)
        corpus.mkdir(exist_ok=True)
        for number, one in enumerate(seeds(options.target)):
            (corpus / f"seed-{number}").write_bytes(one)
        limits = [f"-max_total_time={options.seconds}", f"-timeout={TIMEOUT_S}", "-rss_limit_mb=3000"]
        arguments = [
            sys.argv[0],
            *limits,
            "-max_len=8000",
            "-len_control=0",
            f"-artifact_prefix={CRASHES}/{options.target}-",
            str(corpus),
        ]
        target = TARGETS[options.target]
        atheris.Setup(arguments, collecting(target) if options.collect else target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
