"""A small disk for the stores of a soak, which can be filled up and freed; and mounts that nobody else sees.

With the right to mount, the stores are on a tmpfs of some megabytes, filled with one large file: writes then fail in
the kernel. Without it the processes that write are told to fail every write, through the failpoints of the store.
"""

import ctypes
import os
from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_PRIVATE, _RECURSIVE = 1 << 18, 1 << 14
MEGABYTES = 48


def enter_private_mounts() -> bool:
    """Have this process, and all that it starts, see mounts of its own, with an empty /dev/shm; whether that worked.

    Call it before any thread is started. Everything mounted is gone with the last of these processes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_MOUNTS | (_NEW_USER if user else 0)):
        return False
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return libc.mount(None, b"/", None, _PRIVATE | _RECURSIVE, None) == 0 and _mount_tmpfs(Path("/dev/shm"), "50%")


def _mount_tmpfs(folder: Path, size: str) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.mount(b"soak", os.fsencode(folder), b"tmpfs", 0, f"size={size},mode=1777".encode()) == 0


class Disk:
    """Where the stores are.

    Args:
        folder: an empty one.
        private: whether this process may mount.
    """

    def __init__(self, folder: Path, private: bool) -> None:
        self.path = folder / "disk"
        self.path.mkdir()
        self._flag, self._ballast = folder / "full", self.path / ".ballast"
        self.is_real = private and _mount_tmpfs(self.path, f"{MEGABYTES}m")

    @property
    def how(self) -> str:
        """How it is filled up."""
        return f"a tmpfs of {MEGABYTES} MB" if self.is_real else "simulated by failpoints, without the right to mount"

    @property
    def environment(self) -> dict[str, str]:
        """What a process that writes there has to know."""
        return {} if self.is_real else {"SOAK_FULL": str(self._flag)}

    def fill(self) -> None:
        """No byte can be written any more."""
        if not self.is_real:
            self._flag.touch()
            return
        with self._ballast.open("ab", buffering=0) as file:
            size = 1 << 20
            while size:
                try:
                    while file.write(bytes(size)) == size:
                        pass
                    size //= 2
                except OSError:
                    size //= 2

    def free(self) -> None:
        """There is room again. Calling it again does nothing."""
        self._ballast.unlink(missing_ok=True)
        self._flag.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it."""
        self.free()
        if self.is_real:
            ctypes.CDLL(None).umount2(os.fsencode(self.path), 2)  # detached, whoever still has files there
