"""A process that uses the embedded server until it is told to leave, for the tests beside it.

It says `ready`, answers each line of its input with a query over a new connection, and leaves at the end of the
input. With `--nursery` it forks such processes on request, which saves each of them half a second of imports: a
request is an environment and four descriptors, for the standard streams and for news of the process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

import psycopg

from orchestra import embedded


def nursery(requests: socket.socket) -> None:
    """Return in each new process; the nursery itself ends when nobody can ask any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the watchers
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 65536, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    requests.close()
    for number in (signal.SIGCHLD, signal.SIGHUP):  # whoever runs the tests behind nohup ignores the second
        signal.signal(number, signal.SIG_DFL)
    watch(descriptors[3])
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(json.loads(message))
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)


def watch(news: int) -> None:
    """Return in a child of this process, and tell its id and its exit code."""
    if pid := os.fork():
        for number in range(3):
            os.close(number)
        os.write(news, f"{pid}\n".encode())
        os.write(news, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
        os._exit(0)
    os.close(news)


def main() -> None:
    if uid := int(os.environ.get("RUN_AS", "0")):
        os.setgroups([])
        os.setgid(int(os.environ["RUN_AS_GROUP"]))
        os.setuid(uid)
    try:
        embedded.ensure()
    except embedded.EmbeddedError as error:
        sys.exit(f"EmbeddedError: {error}")
    where = embedded.address(embedded.data_dir())
    to = {"host": where["HOST"], "port": where["PORT"], "user": where["USER"], "dbname": where["NAME"]}
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "ensure\n":
            embedded.ensure()
        if line == "fork\n" and os.fork() == 0:
            os.read(int(os.environ["CHILD_WAITS_FOR"]), 1)
            return
        with psycopg.connect(**to, autocommit=True) as connection:
            (name,) = connection.execute("select current_database()").fetchone()
        print(name, flush=True)


if __name__ == "__main__":
    if "--nursery" in sys.argv:
        nursery(socket.socket(fileno=os.dup(0)))
    main()
