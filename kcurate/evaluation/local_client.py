"""A local model (`--model FILE.gguf`) with the interface of those behind an API: transcripts, plain turns.

Not covered: how it samples (`local_model`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kcurate.core.notes import silent
from kcurate.local_models.libraries import quiet, require_extra
from kcurate.local_models.settings import ModelSettings
from kcurate.models.client import Client, Heard, Request
from kcurate.models.naming import ModelName
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Usage

if TYPE_CHECKING:
    from kcurate.evaluation.local_model import LocalModel


def client_of(name: ModelName, max_tokens: int) -> Client | None:
    """The client of a local model; None for one behind an API.

    Raises:
        MissingDependencyError: the extra `train` is not installed. InputError: the file cannot be read.
    """
    if name.provider != "local":
        return None
    require_extra("--model FILE.gguf")
    return LocalClient(name, max_tokens)


class LocalClient:
    """One model in this process. Thread-safe; it answers one request at a time."""

    form: Form = "text"

    def __init__(self, name: ModelName, max_tokens: int) -> None:
        from kcurate.evaluation.local_model import LocalModel, SamplingOptions

        self.model, self.where = name.model, name.model
        drawing = SamplingOptions(max_tokens, batch=1, hint="a smaller --max-tokens")
        with quiet():
            self._local: LocalModel = LocalModel(ModelSettings(name.base_url or ""), None, drawing)
        self._alone = threading.Lock()

    def ask(self, request: Request, heard: Heard = silent) -> Exchange:
        """One exchange. A conversation that fills the model's context is `rejected`."""
        with self._alone, quiet():
            heard("writing")
            begun_s = time.monotonic()
            reply = self._local.talk(request.prompt, list(request.turns()))
        status = ReplyStatus(reply.status)
        return Exchange(
            status,
            reply.text,
            usage=Usage(reply.input_tokens or 0, reply.output_tokens or 0),
            wall_s=round(time.monotonic() - begun_s, 3),
            detail="the prompt fills the model's context" if status is ReplyStatus.REJECTED else "",
        )

    def close(self) -> None:
        """Free the weights' memory."""
        self._local.close()
