"""A process that imports torch, enters the sandbox of foreign device code, and then serves one channel.

It writes nothing, reads libraries only, has no network, starts no process, and its memory is limited. Both
ends are here: `TorchProcess` starts and ends it, its main function begins with `sandboxed`. Not covered: its
requests (`kernelbench.worker`, `kcurate.answers.worker`).
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from kcurate.core import time_limits
from kcurate.errors import BackendError, MissingDependencyError
from kcurate.judge.workers.nursery import worker_environment
from kcurate.judge.workers.protocol import Channel, ChannelClosed, ChannelTimeout, pair

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from {module} import main; main(int(sys.argv[2]))"
)


class TorchProcess:
    """A process that runs `main` of a module, with the `channel` to it; `close` kills it.

    `does`, `needing`: what it does, and what needs torch, for error messages.

    Raises:
        BackendError: it did not start. MissingDependencyError: torch is not installed.
    """

    def __init__(self, module: str, *, does: str, needing: str, stderr: int | None = None) -> None:
        self._folder = tempfile.mkdtemp(prefix="kcurate-torch-")
        self.channel, theirs = pair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", BOOT.format(module=module), json.dumps(sys.path), str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=self._folder,
            env=worker_environment(self._folder),
            start_new_session=True,
        )
        theirs.close()
        try:
            greeting = self.channel.receive(time_limits.START_WORKER_S)
        except (ChannelTimeout, ChannelClosed) as error:
            self.close()
            raise BackendError(f"the process that {does} did not start") from error
        if "missing" in greeting.body:
            self.close()
            raise MissingDependencyError(f"{needing} torch", hint="pip install 'kcurate[train]'")

    def close(self) -> None:
        """Kill it, and remove its folder."""
        self.channel.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def sandboxed(channel: Channel, modules: Sequence[str]) -> bool:
    """Import torch and some modules, enter the sandbox, and greet; False: torch is not installed.

    Importing `torch._dynamo` writes files, which the sandbox would forbid.
    """
    try:
        for name in ("torch._dynamo", *modules):
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        channel.send({"missing": "torch"})
        return False
    from kcurate.backends import torch_module
    from kcurate.judge.workers.inside import isolation

    torch_module.preload("emulator")
    isolation.enter("run", "emulator")
    channel.send({})
    return True
