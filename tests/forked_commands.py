"""`seqloom` for many lines of shell: forks of one process that has imported everything already.

A process of its own takes a second or two of imports for each line. The client named `seqloom`
hands its directory, arguments, environment and open files to the server; a fork of it runs the
command and answers with the exit code.
"""

import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CLIENT = """\
#!{python} -ES
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"!"], [0, 1, 2])
    server.sendall(json.dumps([os.getcwd(), sys.argv[1:], dict(os.environ)]).encode() + b"\\n")
    sys.exit(int(server.makefile().readline() or 70))
"""


@contextmanager
def served(place: Path, modules: Path | None = None) -> Iterator[Path]:
    """A directory to stand first in PATH, which holds the command while this lasts; `place` has a short name.

    `modules` is a directory where the command finds other packages.
    """
    environment = dict(os.environ)
    if modules is not None:
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(modules), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
    client = place / "seqloom"
    client.write_text(CLIENT.format(python=sys.executable, address=str(place / "socket")))
    client.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-P", __file__, str(place / "socket")],
        stdout=subprocess.PIPE,
        env=environment,
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield place
        finally:
            server.kill()


def serve(address: str) -> None:
    import altair  # noqa: F401

    with suppress(ImportError):
        import torch

        # The first optimiser imports torch._dynamo and sympy, a second of each training. Nothing is
        # trained here: a fork of who ran backward() cannot.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)

    import seqloom
    from seqloom.models.word_vectors.words import Words

    for module in pkgutil.walk_packages(seqloom.__path__, "seqloom."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of a package that is not installed
                importlib.import_module(module.name)

    Words.of(["a"])  # the first kernel makes numba ready
    signal.signal(signal.SIGCHLD, reap)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            if os.fork() == 0:
                answer(client)
            client.close()


def reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def answer(client: socket.socket) -> None:
    """In the fork: become the client's process as far as a command can see, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(client, 1, 3)
    place, args, environment = json.loads(client.makefile().readline())
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["seqloom", *args]
    code = 70  # as the client says where there is no answer
    try:
        from seqloom.cli.main import run

        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        atexit._run_exitfuncs()
        with suppress(OSError):
            sys.stdout.flush()
        client.sendall(b"%d\n" % code)
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
