"""`kcurate serve`: checks where it may listen, opens the judges, and serves until it is stopped.

Verdicts are kept in `serve/` of the workspace: nothing that is judged here becomes a pair.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import socket

from kcurate.backends.choice import choose
from kcurate.core import own_files
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.errors import InputError, OptionError
from kcurate.judge.workers.inside import isolation
from kcurate.local_models.libraries import require
from kcurate.records import Summary
from kcurate.serve.guard import Guard, is_loopback
from kcurate.serve.settings import ServeConfig

STAGE = "serve"
PACKAGES = ("fastapi", "uvicorn")
# How long open requests may take to end after a signal.
STOP_S = 3


def run(config: ServeConfig, *, note: Note = silent) -> Summary:
    """Serve until SIGINT or SIGTERM; the counts are the outcomes of the answers.

    Raises:
        MissingDependencyError: the extra is not installed, or no such GPU. InputError: it must not or cannot
            listen there, the workspace already has a server, or there are no tasks.
    """
    require(PACKAGES, "kcurate serve", "pip install 'kcurate[serve]'")
    token = _token(config)
    with contextlib.ExitStack() as stack, recorded(STAGE, config.workspace, note=note) as record:
        place = choose(config.backend, config.gpu, note=record.note, ray=config.ray)
        _require_confinement(config, record.note)
        listening = stack.enter_context(_listen(config))
        record.begin(config)
        from kcurate.reward import schemes
        from kcurate.reward.pool import PoolConfig, RewardPool
        from kcurate.serve.catalog import Catalog
        from kcurate.serve.desk import Desk
        from kcurate.serve.job_log import JobLog

        folder = config.workspace / "serve"
        log = JobLog(folder / "jobs.jsonl")
        cache = folder / "verdicts.jsonl"
        pool_config = PoolConfig(place.backend, place.gpus, config.jobs, cache_file=cache, ray=config.ray)
        pool = RewardPool(schemes.make("pairs"), pool_config)
        stack.callback(pool.close)
        environment = pool.environment()
        catalog = Catalog(config.dataset, environment)
        tasks = catalog.tasks()
        desk = Desk(pool, catalog, log, config.queue)
        host, port = listening.getsockname()[:2]
        record.note(
            f"http://{f'[{host}]' if ':' in host else host}:{port}: {environment.backend}, {len(tasks)} tasks"
        )
        gpus = place.gpus if environment.backend == "cuda" and config.ray is None else ()
        _serve(desk, gpus, token, config.max_body, listening)
        return record.finish({"answers": dict(sorted(desk.outcomes.items()))})


def _serve(
    desk: object, gpus: tuple[int, ...], token: str | None, max_body: int, sock: socket.socket
) -> None:
    import uvicorn

    from kcurate.serve.app import make

    app = Guard(make(desk, gpus), token, max_body)  # type: ignore[arg-type]
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=STOP_S)
    # After shutdown uvicorn re-raises SIGTERM; ignore it here.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[sock])
    finally:
        signal.signal(signal.SIGTERM, before)


def _token(config: ServeConfig) -> str | None:
    """The token that callers must send; None: only this machine is served.

    Raises:
        InputError: the host is not this machine and there is no token, or the file has none.
    """
    if config.token_file is None:
        if not is_loopback(config.host):
            why = "whoever reaches this address could use the judge"
            raise OptionError(why, where=f"--host {config.host}", hint="give --token-file FILE")
        return None
    return own_files.token(config.token_file)


def _require_confinement(config: ServeConfig, note: Note) -> None:
    """If the sandbox does not confine compilers to headers, serve no other machine, and warn.

    Raises:
        InputError: compilers could read every file, and the host is not this machine.
    """
    if config.ray is not None or isolation.confined():
        return
    why = "compilers can read every file of this machine (kcurate doctor says what is missing)"
    if not is_loopback(config.host):
        raise OptionError(why, where=f"--host {config.host}", hint="serve 127.0.0.1 alone")
    note(f"warning: {why}; serve nobody else's code")


def _listen(config: ServeConfig) -> socket.socket:
    where = f"--host {config.host} --port {config.port}"
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        return socket.create_server((config.host, config.port), family=family, backlog=1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = "choose another --port, or stop the program that has it"
            raise InputError("the port is taken", where=where, hint=hint) from error
        why = f"cannot listen: {error.strerror or error}"
        raise InputError(why, where=where, hint="check --host") from error
