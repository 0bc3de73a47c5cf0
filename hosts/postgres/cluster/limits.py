"""Limits of memory and read bandwidth for a server, and counters of what it used: control groups of
either version.

Reads that the kernel's cache answers are no device reads, so a benchmark of a buffer manager needs
the memory around the server limited, and on a fast device also its bandwidth. What could not be
limited is told in `description`, and where there are no control groups at all `counted` is false
and the caller counts by process.
"""

import errno
import itertools
import os
import shlex
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class Limits:
    """A control group with limits, or with none, only to count; a context manager that removes it.
    The server's processes must have ended by then."""

    _made = itertools.count()

    def __init__(self, folder: Path, memory: int | None = None, read_rate: int | None = None, root: Path = ROOT):
        self.memory = memory
        self.read_rate = read_rate
        self.device = device_of(folder)
        self._root = root
        self._name = f"pagecast-{os.getpid()}-{next(self._made)}"
        self._groups: list[Path] = []
        self._applied: list[str] = []
        self._refused: list[str] = []
        try:
            self._make()
        except OSError as problem:
            self._refused.append(f"control groups: {problem.strerror}")

    def __enter__(self) -> "Limits":
        return self

    def __exit__(self, *_) -> None:
        for group in self._groups:
            _remove(group)
        self._groups = []

    @property
    def description(self) -> str:
        """What is limited and what is not, for a report."""
        applied = ", ".join(self._applied) or "nothing limited"
        return f"{applied}; not possible here: {', '.join(self._refused)}" if self._refused else applied

    @property
    def counted(self) -> bool:
        """Whether `device_bytes`, `device_reads` and `cpu_seconds` are known."""
        return bool(self._groups)

    def entering(self, command: list[str]) -> list[str]:
        """A command line that enters the group and then becomes `command`."""
        enter = "".join(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}; " for group in self._groups)
        return ["sh", "-c", f'{enter}exec "$@"', "sh", *command]

    def device_bytes(self) -> int:
        """Bytes read from the device so far."""
        if self._unified():
            return _field((self._groups[0] / "io.stat").read_text(), self.device, "rbytes")
        lines = (self._group("blkio") / "blkio.throttle.io_service_bytes").read_text().splitlines()
        return sum(int(line.split()[2]) for line in lines if line.startswith(f"{self.device} Read "))

    def device_reads(self) -> int:
        """Requests to read from the device so far."""
        if self._unified():
            return _field((self._groups[0] / "io.stat").read_text(), self.device, "rios")
        lines = (self._group("blkio") / "blkio.throttle.io_serviced").read_text().splitlines()
        return sum(int(line.split()[2]) for line in lines if line.startswith(f"{self.device} Read "))

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        if self._unified():
            words = (self._groups[0] / "cpu.stat").read_text().split()
            return int(words[words.index("usage_usec") + 1]) / 1e6
        return int((self._group("cpuacct") / "cpuacct.usage").read_text()) / 1e9

    def _unified(self) -> bool:
        return (self._root / "cgroup.controllers").is_file()

    def _group(self, controller: str) -> Path:
        return self._root / controller / self._name

    def _make(self) -> None:
        if self._unified():
            (self._root / "cgroup.subtree_control").write_text("+memory +io +cpu")
            group = self._root / self._name
            group.mkdir()
            self._groups.append(group)
            self._limit("memory", self.memory, group / "memory.max", "{}")
            self._limit("reads", self.read_rate, group / "io.max", f"{self.device} rbps={{}}")
            return
        for controller in ("blkio", "memory", "cpuacct"):
            group = self._group(controller)
            group.mkdir()
            self._groups.append(group)
        self._limit("memory", self.memory, self._group("memory") / "memory.limit_in_bytes", "{}")
        self._limit("reads", self.read_rate, self._group("blkio") / "blkio.throttle.read_bps_device", f"{self.device} {{}}")

    def _limit(self, kind: str, value: int | None, file: Path, form: str) -> None:
        if value is None:
            return
        what = f"{kind} {_size(value)}{'/s' if kind == 'reads' else ''}"
        try:
            file.write_text(form.format(value))
            self._applied.append(what)
        except OSError as problem:
            self._refused.append(f"{what} ({problem.strerror})")


def _remove(group: Path) -> None:
    # A process that has ended leaves its group a moment later.
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError as problem:
            if problem.errno != errno.EBUSY:
                raise
        time.sleep(0.05)
    group.rmdir()


def device_of(folder: Path) -> str:
    """The whole disk that holds a folder, as `major:minor`; limits do not apply to partitions."""
    number = os.stat(folder).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    entry = Path("/sys/dev/block") / name
    if (entry / "partition").is_file():
        return (entry.resolve().parent / "dev").read_text().strip()
    return name


def forget_cached(folder: Path) -> None:
    """Asks the kernel to drop its cached pages of all files in a folder, and of nobody else's."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)  # dirty pages are not dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def process_read_bytes(pid: int) -> int:
    """Bytes that a living process read from devices."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["read_bytes"])


def process_cpu_seconds(pid: int, with_ended: bool = False) -> float:
    """Processor time of a living process, and if wanted of its children that have ended."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, after_name[11:15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def process_wait_seconds(pid: int) -> float:
    """For how long a living process could have run, and found no processor free."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def _field(table: str, device: str, key: str) -> int:
    for line in table.splitlines():
        name, *fields = line.split()
        if name == device:
            return int(dict(field.split("=") for field in fields).get(key, 0))
    return 0


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"
