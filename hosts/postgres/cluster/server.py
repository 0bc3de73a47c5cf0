"""One private cluster: its folder, its processes and its end."""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster.installation import Installation
from cluster.libpq import Connection, Lost
from cluster.limits import Limits, process_cpu_seconds

_START_SECONDS = 120
_STOP_SECONDS = 120


class ServerFailed(Exception):
    """The server did not start, or a program of it failed; the message ends with what it logged."""


def unprivileged() -> pwd.struct_passwd:
    """Whom a server runs as: oneself, or a system account when one is root, which PostgreSQL
    refuses to run as."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerFailed("run as root, but there is no account `postgres` or `nobody` to run the server as")


class Cluster:
    """A cluster in a folder of its own; a context manager that stops it and, unless the folder was
    given, removes it.

    `settings` go on the server's command line and can be replaced at each start. With `limits` the
    server runs inside them.
    """

    def __init__(self, installation: Installation, settings: dict | None = None, folder: Path | None = None, limits: Limits | None = None):
        self.installation = installation
        self.settings = dict(settings or {})
        self.limits = limits
        self._account = unprivileged()
        self._temporary = folder is None
        # Socket paths have at most 107 bytes, so the folder is not under a deep temporary folder.
        self.folder = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="pagecast-pg-", dir="/tmp"))
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self._process: subprocess.Popen | None = None
        _exit_when_terminated()
        atexit.register(self.remove)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_) -> None:
        self.remove()

    # -- life ------------------------------------------------------------------------------------

    def create(self, *options: str) -> "Cluster":
        """Runs initdb, with further options of it; does nothing where the folder holds a cluster
        already."""
        if not (self.data / "PG_VERSION").is_file():
            self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", *options)
        return self

    def follow(self, primary: "Cluster", *options: str) -> "Cluster":
        """Makes this the standby of a running cluster by a base backup of it, with further options
        of pg_basebackup."""
        self.run("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast", *options)
        return self

    def start(self, **settings) -> "Cluster":
        """Starts the server with the settings given now over those given at first, and waits until
        it takes connections.

        To be called by the main thread: the server is told to stop when the thread that started it
        ends.
        """
        values = {**self.settings, **settings}
        options = [f"-c{name.replace('__', '.')}={value}" for name, value in values.items()]
        command = [str(self.installation.program("postgres")), "-D", str(self.data), "-k", str(self.folder), "-h", "", *options]
        # A tester that is killed takes its server along.
        command = ["setpriv", *self._identity(), "--pdeathsig", "INT", *command]
        if self.limits:
            command = self.limits.entering(command)
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")
        self.wait()
        return self

    def wait(self, seconds: float = _START_SECONDS) -> None:
        """Waits until the server takes connections, at its start or while it recovers from a crash
        of a backend."""
        end = time.monotonic() + seconds
        while True:
            if self._process.poll() is not None:
                raise ServerFailed(f"the server ended with status {self._process.returncode}:\n{self.tail()}")
            try:
                self.connect("postgres").close()
                return
            except Lost as problem:
                if time.monotonic() > end:
                    raise ServerFailed(f"the server takes no connection after {seconds} s: {problem}\n{self.tail()}") from None
            time.sleep(0.05)

    def running(self) -> bool:
        """Whether the postmaster is alive."""
        return self._process is not None and self._process.poll() is None

    def stop(self, immediate: bool = False) -> None:
        """Stops the server: sessions are ended and a checkpoint is written, or with `immediate`
        neither."""
        if self.running():
            self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.crash()
        self._process = None

    def crash(self) -> None:
        """Kills all processes of the server at once, as a power cut would; what they had in memory
        is gone."""
        if self.running():
            family = [self._process.pid, *self.children()]
            # so that it starts nobody while the others die
            os.kill(self._process.pid, signal.SIGSTOP)
            for pid in reversed(family):
                _kill(pid)
            self._process.wait()
        self._process = None

    def remove(self) -> None:
        """Stops the server and removes a folder that was made by us."""
        atexit.unregister(self.remove)
        self.stop(immediate=self._temporary)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- use -------------------------------------------------------------------------------------

    def connect(self, database: str = "postgres", user: str = "postgres", options: str = "") -> Connection:
        """A session; `options` as for PGOPTIONS."""
        return Connection(self.installation.libpq(), f"host={self.folder} user={user} dbname={database} options='{options}'")

    def run(self, program: str, *arguments: str, stdin=subprocess.DEVNULL, check: bool = True, **more) -> subprocess.CompletedProcess:
        """Runs one of the server's programs as the server's user, with the environment set to reach
        the cluster."""
        command = [str(self.installation.program(program)), *arguments]
        done = subprocess.run(self.as_user(command), stdin=stdin, capture_output=True, text=True, env=self.environment(), cwd="/", **more)
        if check and done.returncode != 0:
            raise ServerFailed(f"{program} ended with status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def as_user(self, command: list[str]) -> list[str]:
        """A command line that runs `command` as the server's user."""
        return ["setpriv", *self._identity(), *command] if os.geteuid() == 0 else command

    def environment(self) -> dict:
        """The environment in which client programs reach the cluster."""
        library = self.installation.ask("libdir")
        return {**os.environ, "PGHOST": str(self.folder), "PGUSER": "postgres", "PGDATABASE": "postgres", "LD_LIBRARY_PATH": library}

    def children(self) -> list[int]:
        """The postmaster's processes."""
        listing = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in listing.split()]

    def sessions(self) -> list[int]:
        """Those of its processes that serve a client."""
        return [pid for pid in self.children() if b"[local]" in _read(pid, "cmdline")]

    def cpu_seconds(self) -> float:
        """Processor time that the server's processes have taken so far, those that have ended,
        too."""
        if self.limits and self.limits.counted:
            return self.limits.cpu_seconds()
        return process_cpu_seconds(self._process.pid, with_ended=True) + sum(map(process_cpu_seconds, self.children()))

    def tail(self, lines: int = 15) -> str:
        """The end of the server's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.is_file() else ""

    def panics(self) -> list[str]:
        """Lines of the log that tell of a crash: an assertion, a panic, a backend that died of a
        signal other than ours."""
        wanted = ("PANIC:", "TRAP:", "terminated by signal 11", "terminated by signal 6", "terminated by signal 7")
        return [line for line in self.log.read_text(errors="replace").splitlines() if any(word in line for word in wanted)]

    def _identity(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        return [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]


def _exit_when_terminated() -> None:
    """Makes SIGTERM an ordinary exit, so that what is open is closed; unless somebody has other
    plans for it."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def waits(pid: int) -> bool:
    """Whether a process sleeps until something happens, or is gone."""
    return _read(pid, "stat").rpartition(b") ")[2][:1] not in (b"R", b"D")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it was faster
