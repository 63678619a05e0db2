"""Every face with the real library, in the environment that `make integrations` made for it.

Not collected by `make test`: `pytest tests/integrations/real_libraries.py`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLACES = Path(os.environ.get("KERNEL_HOSTS", ROOT / ".venv" / "integrations"))
HOSTS = sorted(path.stem for path in HERE.glob("*.txt"))


@pytest.mark.parametrize("host", HOSTS)
def test_it_works_in_its_host(host: str, asked: Path, tmp_path: Path) -> None:
    python = PLACES / host / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{host} is not installed here; see make integrations")
    path = os.pathsep.join(map(str, (ROOT, ROOT / "examples" / "integrations")))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [python, HERE / f"in_{host}.py", asked],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert done.stdout.splitlines()[-1] == f"{host}: fine"
