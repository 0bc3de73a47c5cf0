"""A disk of our own: a file behind a loop device, so that the device's read-ahead can be set and
its reads be limited and counted apart from everybody else's."""

import fcntl
import subprocess
from pathlib import Path

from cluster import ServerFailed


class LoopDisk:
    """A file system in a file, mounted while the context lasts. The file stays, with its data.

    One process has it at a time: mounted twice it would be ruined. So what is still mounted when we
    come is of somebody who was killed.
    """

    def __init__(self, image: Path, size: int):
        self.image = image
        self.folder = image.with_suffix(".mounted")
        self._size = size
        self._device: str | None = None

    def __enter__(self) -> "LoopDisk":
        fresh = not self.image.is_file()
        if fresh:
            self.image.parent.mkdir(parents=True, exist_ok=True)
            with open(self.image, "wb") as file:
                file.truncate(self._size)
        self.folder.mkdir(exist_ok=True)
        self._lock()
        # Past the kernel's cache of the file itself: only the server's own cache is to answer.
        self._device = _run("losetup", "--find", "--show", "--direct-io=on", str(self.image))
        try:
            if fresh:
                _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", self._device)
            _run("mount", "-o", "noatime", self._device, str(self.folder))
        except ServerFailed:
            self._detach()
            if fresh:
                self.image.unlink()
            raise
        return self

    def __exit__(self, *_) -> None:
        _run("umount", str(self.folder))
        self._detach()
        self._held.close()

    def _lock(self) -> None:
        self._held = open(self.image, "rb")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerFailed(f"{self.image} is in use by another benchmark; wait for its end") from None
        if self.folder.is_mount():
            _run("umount", str(self.folder))
        for device in _run("losetup", "--associated", str(self.image), "--output", "NAME", "--noheadings").split():
            _run("losetup", "--detach", device)

    def read_ahead(self, size: int) -> None:
        """Sets how far the kernel reads ahead of sequential reads, for files opened from now on."""
        queue = Path("/sys/block") / Path(self._device).name / "queue/read_ahead_kb"
        queue.write_text(str(size >> 10))

    def _detach(self) -> None:
        _run("losetup", "--detach", self._device)
        self._device = None


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise ServerFailed(f"`{command[0]}` is not in PATH; the benchmark's data lies on a loop device") from None
    if done.returncode != 0:
        raise ServerFailed(f"`{' '.join(command)}` failed: {done.stderr.strip()}; a loop device needs root")
    return done.stdout.strip()
