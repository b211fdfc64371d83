"""The process that owns the GPU, from both of its ends.

The parent never touches CUDA. It hands a `Worker` one call at a time; the child says in its
journal what it is about to do, so that whatever ends it can be blamed on one contender.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from lab import arena


class Died(Exception):
    """A child that ended without an answer: `status` is crashed or timeout."""

    def __init__(self, status: str, contender: str, stage: str, reason: str):
        super().__init__(f"{reason} during {stage or 'start'}")
        self.status, self.contender, self.stage = status, contender, stage


class Worker:
    """A child process that takes one call at a time."""

    def __init__(self, log: Path):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, log), daemon=True)
        self._process.start()
        theirs.close()
        self._busy = False

    def call(self, function: Callable, *arguments, limit: float, on_journal: Callable):
        """The function's result, computed in the child.

        `limit` is how many seconds the child may spend between two entries of its journal;
        `on_journal(contender, stage)` hears each.

        Raises:
            Died: the child crashed, lost its GPU or exceeded its limit. It can't be used again.
        """
        self._connection.send((function, arguments))
        self._busy = True
        name = stage = ""
        deadline = time.monotonic() + limit
        while True:
            if not self._connection.poll(max(0.0, deadline - time.monotonic())):
                self.close()
                raise Died("timeout", name, stage, f"more than {limit:g} s")
            try:
                message = self._connection.recv()
            except (EOFError, ConnectionError):
                self._process.join(10)
                raise Died("crashed", name, stage, self._how_it_ended()) from None
            if message[0] == "done":
                self._busy = False
                return message[1]
            if message[0] == "lost":
                self.close()
                raise Died("crashed", name, stage, message[1])
            name, stage = message[1:]
            deadline = time.monotonic() + limit
            on_journal(name, stage)

    def close(self) -> None:
        """Ends the child: it leaves by itself if it is idle, and is killed if it is not."""
        self._connection.close()
        self._process.join(0 if self._busy else 3)
        self._process.kill()
        self._process.join()

    def _how_it_ended(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"the process exited with code {code}"


def serve(connection, log: Path) -> None:
    """Answers (function, arguments) with ("done", result) until the parent hangs up.

    Every function gets a `journal` that sends ("at", contender, stage). Output goes to `log`.
    """
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _choose_interpreter()

    def journal(name: str, stage: str):
        connection.send(("at", name, stage))

    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            function, arguments = connection.recv()
            try:
                connection.send(("done", function(*arguments, journal=journal)))
            except arena.DeviceLost as why:
                connection.send(("lost", str(why)))


def _choose_interpreter() -> None:
    """Triton reads TRITON_INTERPRET when it is imported, so this comes first."""
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
