"""Console scripts for lit: each run is a fork of one process that has imported them all.

To import xDSL and the dialects takes longer than what most tests ask of `tpu-opt`. `start` gives a
folder with scripts of the same names, for the front of a PATH; they send their arguments, folder,
environment and three streams to the process, which forks. Tests of processes start the real ones.
"""

from __future__ import annotations

import gc
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

CLIENT = """\
#!{python} -IS
import os, sys, _socket
s = _socket.socket(_socket.AF_UNIX)
s.connect({address!r})
told = [os.path.basename(sys.argv[0]), os.getcwd(), str(len(sys.argv)), *sys.argv[1:]]
told += [f"{{k}}={{v}}" for k, v in os.environ.items()]
fds = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
data = os.fsencode("\\0".join(told))
s.sendmsg([len(data).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
s.sendall(data)
sys.exit(int.from_bytes(s.recv(1) or b"\\x7f", "big"))
"""
"""Without `site` and with as few imports as can be; nothing received is a run that died: 127."""
running: list[subprocess.Popen[bytes]] = []
"""The process, for as long as lit's own runs: at its end the pipe is closed, which ends it."""


def start() -> Path:
    """Starts the process; gives the folder of the scripts, which goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="tools-"))
    address = str(folder / "socket")
    for name in ("tpu-opt", "filecheck"):
        script = folder / name
        script.write_text(CLIENT.format(python=sys.executable, address=address))
        script.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    running.append(process)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        raise RuntimeError("the process of the tools did not start")
    return folder


def serve(folder: Path) -> None:
    """Answers at the socket in `folder` until standard input is closed."""
    mains = imported()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(64)
        print("ready", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                os._exit(run(connection, mains))
            connection.close()
            while children() and os.waitpid(-1, os.WNOHANG)[0]:
                pass


def imported() -> dict[str, Callable[[], object]]:
    """The functions behind the scripts, with all that a usual run of them imports."""
    import filecheck.main

    import pallasite.tools.tpu_opt
    from pallasite.dialects import make_context
    from pallasite.passes.registry import get_all_passes

    make_context()
    for make in get_all_passes().values():
        make()
    return {"tpu-opt": pallasite.tools.tpu_opt.main, "filecheck": filecheck.main.main}


def children() -> bool:
    """Whether any run has not been waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def run(connection: socket.socket, mains: dict[str, Callable[[], object]]) -> int:
    """One run of a tool, whose exit status is sent and given."""
    status = 1
    try:
        length, streams, _, _ = socket.recv_fds(connection, 8, 3)
        data = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
        tool, folder, count, *told = os.fsdecode(data).split("\0")
        arguments, variables = told[: int(count) - 1], told[int(count) - 1 :]
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
        sys.stderr = open(2, "w", buffering=1, closefd=False)
        os.chdir(folder)
        os.environ.clear()
        for name, _, value in (variable.partition("=") for variable in variables):
            os.environ[name] = value
        sys.argv = [tool, *arguments]
        try:
            status = exit_status(mains[tool]())
        except SystemExit as end:
            status = exit_status(end.code)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        status = 1
    connection.sendall(bytes([status]))
    return status


def exit_status(code: object) -> int:
    """What `sys.exit(code)` ends a process with."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]))
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)
