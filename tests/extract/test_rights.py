"""Whose a kernel is: what its files say, the nearest licence file, `--licence`, and contradictions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.core.licence_texts import of_licence_file, of_source
from kcurate.errors import InputError
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import run
from kcurate.own import pair as own_pair
from kcurate.own.settings import PairConfig
from kcurate.records import Kernel, Rights, Sourced, Summary

COMMON = Path(__file__).parent.parent.parent
KERNEL = "__global__ void scale(float *v, int n) { int i = threadIdx.x; if (i < n) v[i] *= 2.0f; }\n"
MIT = """MIT License

Copyright (c) 2026 the authors

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN
NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY,
WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
ASF = """Licensed to the Apache Software Foundation (ASF) under one or more contributor license agreements.
See the NOTICE file distributed with this work for additional information regarding copyright ownership. The
ASF licenses this file to you under the Apache License, Version 2.0 (the "License"); you may not use this file
except in compliance with the License. You may obtain a copy of the License at

  http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software distributed under the License is
distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See
the License for the specific language governing permissions and limitations under the License."""
GPL = """This program is free software; you can redistribute it and/or modify it under the terms of the GNU
General Public License as published by the Free Software Foundation; either version 2 of the License, or (at
your option) any later version."""


def comment(text: str) -> str:
    return "/*\n" + "".join(f" * {row}\n" for row in text.splitlines()) + " */\n"


def extracted(
    folder: Path, files: dict[str, str], licence: str | None = None, inside: str = ""
) -> tuple[dict[str, Kernel], Summary, list[str]]:
    """Kernels by file, the summary, notes."""
    for name, text in files.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    notes: list[str] = []
    config = ExtractConfig((folder / "tree" / inside,), folder / "work", compile=False, licence=licence)
    summary = run(config, note=notes.append)
    records = [store.read_json(path, Kernel) for path in (folder / "work/kernels").rglob("kernel.json")]
    return {kernel.span.path: kernel for kernel in records}, summary, notes


def rights(kernel: Kernel) -> Rights:
    assert kernel.rights is not None
    return kernel.rights


@pytest.mark.parametrize(
    ("text", "licence", "line"),
    [
        ("// SPDX-License-Identifier: BSD-3-Clause\n", "BSD-3-Clause", 1),
        ("\n/* SPDX-License-Identifier: (MIT or Apache-2.0) */\n", "MIT OR Apache-2.0", 2),
        (
            "// SPDX-License-Identifier: LicenseRef-Theirs\n// use is strictly prohibited\n",
            "LicenseRef-Theirs",
            1,
        ),
        (comment(MIT), "MIT", 4),
        ("".join(f"// {row}\n" for row in MIT.splitlines()), "MIT", 3),
        (comment("All rights reserved.\n" + MIT), "MIT", 5),
        (comment(ASF), "Apache-2.0", 3),
        (comment(MIT + "\nNames shall not be used for\nadvertising."), "MIT", 4),
        (
            comment(GPL) + "// SPDX-License-Identifier: MIT AND GPL-2.0-or-later\n",
            "GPL-2.0-or-later AND MIT",
            6,
        ),
        (comment(GPL), "GPL-2.0-or-later", 2),
        (comment(GPL) + "int x;\n// SPDX-License-Identifier: MIT\n", "GPL-2.0-or-later AND MIT", 7),
    ],
)
def test_a_file_states_its_licence_itself(text: str, licence: str, line: int) -> None:
    notices = of_source(text + KERNEL, "a.cu")
    assert notices.license is not None and notices.license.value == licence
    assert (notices.license.line, notices.barrier) == (line, None)


@pytest.mark.parametrize(
    "text",
    [
        "// Copyright 2026 Example. All rights reserved.\n",
        "// Copyright 2026 Example. For academic use only.\n",
        "// Copyright 2026 Example. Not for commercial use; non-commercial research is welcome.\n",
        "// Distributed under the licence of the Example Institute.\n",
        "// Copyright 2026 Example. This file may not be\n// redistributed without our consent.\n",
        "// Please refer to the end user license agreement that comes with this file.\n",
        "// SPDX-License-Identifier: to be decided\n",
        comment(MIT + "\nThe Software is for non-commercial use.\n"),
        comment(MIT.replace("without restriction", "for research")),
        comment(MIT) + "// The next function is under the GPL.\n",
        "// https://opensource.org/licenses/MIT\n",
        "// This file is not under the MIT licence.\n",
    ],
)
def test_words_that_restrict_or_cannot_be_read_grant_nothing(text: str) -> None:
    notices = of_source(text + KERNEL, "a.cu")
    assert notices.license is None and notices.barrier is not None


def test_text_of_a_string_is_no_notice() -> None:
    assert of_source('const char *licence = "SPDX-License-Identifier: MIT";\n' + KERNEL, "a.cu").silent
    assert of_source('x = "# all rights reserved"\n', "a.py").silent
    python = of_source("#!/usr/bin/env python\n# SPDX-License-Identifier: MIT\nimport torch\n", "a.py")
    assert python.license == Sourced("MIT", "a.py", 2)


def test_a_licence_file_counts_as_a_whole() -> None:
    assert of_licence_file(MIT, "LICENSE").license == Sourced("MIT", "LICENSE", 3)
    for text in (MIT + "\nUse for training models is prohibited.\n", MIT[:600], "Ask us.\n", ""):
        assert of_licence_file(text, "LICENSE").license is None
        assert of_licence_file(text, "LICENSE").barrier is not None


def test_the_nearest_licence_file_speaks_for_a_file_that_says_nothing(tmp_path: Path) -> None:
    files = {
        "LICENSE": MIT,
        "a.cu": KERNEL,
        "sub/COPYING": (COMMON / "LICENSE").read_text(),
        "sub/deeper/b.cu": "// Copyright 2026 B\n" + KERNEL,
        "sub/unknown/LICENCE.txt": "For benchmarks.\n",
        "sub/unknown/c.cu": KERNEL,
        "named.cu": "// Copyright 2026 D. All rights reserved.\n// See LICENSE for the MIT licence.\n"
        + KERNEL,
        "misnamed.cu": "// See LICENSE for the BSD licence.\n" + KERNEL,
        "third_party_licenses.txt": "whatever",
    }
    kernels, summary, _ = extracted(tmp_path, files)
    assert rights(kernels["a.cu"]).license == Sourced("MIT", "LICENSE", 3)
    assert rights(kernels["a.cu"]).holders == (Sourced("Copyright (c) 2026 the authors", "LICENSE", 3),)
    below = rights(kernels["sub/deeper/b.cu"]).license
    assert below is not None and (below.value, below.where) == ("Apache-2.0", "sub/COPYING")
    assert rights(kernels["sub/deeper/b.cu"]).holders == (Sourced("Copyright 2026 B", "sub/deeper/b.cu", 1),)
    assert rights(kernels["sub/unknown/c.cu"]).license is None
    assert kernels["named.cu"].license == "MIT" and kernels["misnamed.cu"].license is None
    assert summary.counts["licences"] == {"Apache-2.0": 1, "MIT": 2, "refused": 2}
    assert list(summary.counts)[-1] == "licences"


def test_the_licence_of_the_repository_around_counts(tmp_path: Path) -> None:
    files = {"LICENSE": MIT, "src/a.cu": KERNEL}
    above, _, _ = extracted(tmp_path / "no", files, inside="src")
    assert rights(above["a.cu"]) == Rights()
    (tmp_path / "yes/tree/.git").mkdir(parents=True)
    above, _, _ = extracted(tmp_path / "yes", files, inside="src")
    assert rights(above["a.cu"]).license == Sourced("MIT", "../LICENSE", 3)


def test_a_contradiction_with_the_option_refuses_the_kernel_and_names_both(tmp_path: Path) -> None:
    files = {
        "own.cu": KERNEL,
        "gpl.cu": "// SPDX-License-Identifier: GPL-3.0-only\n" + KERNEL,
        "third_party/LICENSE.txt": "Evaluation only.\n",
        "third_party/theirs.cu": KERNEL,
        "either.cu": "// SPDX-License-Identifier: MIT\n" + KERNEL,
    }
    kernels, summary, notes = extracted(tmp_path, files, licence="MIT OR Apache-2.0")
    assert kernels["own.cu"].license == "MIT OR Apache-2.0" and kernels["either.cu"].license == "MIT"
    refused = rights(kernels["gpl.cu"])
    assert refused.refused == "--licence says 'MIT OR Apache-2.0', but gpl.cu:1 says 'GPL-3.0-only'"
    assert refused.license == Sourced("GPL-3.0-only", "gpl.cu", 1) and kernels["gpl.cu"].license is None
    theirs = rights(kernels["third_party/theirs.cu"]).refused or ""
    assert "--licence" in theirs and "third_party/LICENSE.txt:1 says 'Evaluation only.'" in theirs
    assert summary.counts["licences"]["refused"] == 2
    assert sorted(item.why for item in summary.results if item.outcome == "refused") == sorted(
        [refused.refused, theirs]
    )
    assert any(refused.refused in note for note in notes)


def test_a_kernel_is_under_the_licences_of_all_its_files(tmp_path: Path) -> None:
    header = "__device__ float twice(float v) { return 2.0f * v; }\n"
    files = {
        "LICENSE": MIT,
        "free.cuh": header,
        "theirs.cuh": "// SPDX-License-Identifier: BSD-3-Clause\n" + header.replace("twice", "thrice"),
        "closed.cuh": "// All rights reserved, 2026\n" + header.replace("twice", "half"),
        "a.cu": '#include "free.cuh"\n' + KERNEL.replace("v[i] *= 2.0f", "v[i] = twice(v[i])"),
        "b.cu": '#include "theirs.cuh"\n' + KERNEL.replace("v[i] *= 2.0f", "v[i] = thrice(v[i])"),
        "c.cu": '#include "closed.cuh"\n' + KERNEL.replace("v[i] *= 2.0f", "v[i] = half(v[i])"),
    }
    kernels, _, _ = extracted(tmp_path, files)
    assert kernels["a.cu"].license == "MIT"
    assert rights(kernels["b.cu"]).license == Sourced("BSD-3-Clause AND MIT", "LICENSE:3, theirs.cuh:1")
    assert kernels["c.cu"].license is None and "closed.cuh:1" in (rights(kernels["c.cu"]).refused or "")


def test_a_licence_file_that_cannot_be_read_grants_nothing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    files = {
        "utf16/a.cu": KERNEL,
        "huge/a.cu": KERNEL,
        "loop/a.cu": KERNEL,
        "folder/a.cu": KERNEL,
        "LICENSE": MIT,
    }
    for name in ("utf16", "huge", "folder/LICENSE", "loop"):
        (tree / name).mkdir(parents=True)
    (tree / "utf16/LICENSE").write_bytes(MIT.encode("utf-16"))
    (tree / "huge/LICENSE").write_text(MIT + "x" * 2_000_000)
    (tree / "loop/LICENSE").symlink_to("LICENSE")
    kernels, _, _ = extracted(tmp_path, files)
    assert kernels["utf16/a.cu"].license is None and kernels["huge/a.cu"].license is None
    assert kernels["folder/a.cu"].license == "MIT"


def test_a_pair_with_a_licence_that_its_file_contradicts_is_one_line(tmp_path: Path) -> None:
    for name in ("slow", "fast"):
        code = KERNEL if name == "slow" else KERNEL.replace("*= 2.0f", "+= v[i]")
        (tmp_path / f"{name}.cu").write_text(f"// SPDX-License-Identifier: GPL-3.0-only\n{code}")
    config = PairConfig(
        slow=str(tmp_path / "slow.cu"),
        fast=str(tmp_path / "fast.cu"),
        workspace=tmp_path / "w",
        licence="MIT",
    )
    with pytest.raises(InputError, match=r"--licence says 'MIT', but slow\.cu:1 says 'GPL-3\.0-only'"):
        own_pair.run(config)


@pytest.mark.parametrize(
    "words",
    (
        "non-commercial", "academic use only", "use solely for research", "Confidential", "PROPRIETARY",
        "a trade secret", "copying is prohibited", "patents pending licence", "may not be copied, no licence",
        "do not redistribute", "without prior permission", "an end user licence", "the EULA",
        "under a licence agreement", "intellectual property rights", "unlicensed: all rights",
    ),
)  # fmt: skip
def test_every_restriction_is_found_in_either_case(words: str) -> None:
    for text in (words, words.upper()):
        tagged = f"// SPDX-License-Identifier: MIT\n// {text}\nint x;\n"
        assert of_source(tagged, "a.cu").barrier is not None, text
