"""The folder through which workers find a run: files of this user's, which nobody else may write, read with care.

    server-0.json      where server 0 can be reached, how many places are free, and what the run has decided
    server-0.secret    32 random bytes that whoever joins must know; only the run's owner can read them
    server-0.lock      held by the server as long as it lives

The folder is opened once, and its files through it: whoever renames it, or puts a link in its place, changes nothing.
Names are listed, never asked for one by one: on NFS a name that was not there a moment ago is remembered as missing.
"""

import fcntl
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from stalegrad._internal.errors import StalegradError

SECRET_BYTES = 32


class JoinFolder:
    """A folder of this user's that nobody else may write to; :class:`StalegradError` if it is not.

    Args:
        path: the folder.
        create: whether it is made if it is not there.
    """

    def __init__(self, path: Path, create: bool = False) -> None:
        self.path = path
        try:
            if create:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            problem = "there is no such folder. Start the run first"
            raise StalegradError(f"no server can be joined in {path}: {problem}") from error
        except OSError as error:
            if path.is_symlink():
                raise StalegradError(
                    f"{path} is a link. Workers trust what lies in the folder of a run, so name the folder itself: "
                    f"{os.path.realpath(path)}"
                ) from error
            raise StalegradError(f"{path} cannot be used as the folder of a run to join: {error}") from error
        try:
            self._refuse_unless_own(os.fstat(self._descriptor), path)
        except StalegradError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """The files in it, as they are now."""
        return os.listdir(self._descriptor)

    def read(self, name: str, private: bool = False) -> bytes:
        """A file's content. With ``private`` it must be one that nobody else can read."""
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._descriptor), "rb") as file:
            about = os.fstat(file.fileno())
            self._refuse_unless_own(about, self.path / name)
            if private:
                self._refuse_unless_private(about, name)
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, which only this user can read, in one step."""
        partial = f".{name}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(partial, flags, 0o600, dir_fd=self._descriptor), "wb") as file:
            file.write(content)
        os.replace(partial, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def write_secret(self, name: str) -> bytes:
        """Make random bytes, and a file of them that nobody else can read."""
        secret = secrets.token_bytes(SECRET_BYTES)
        self.write(name, secret)
        self._refuse_unless_private(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False), name)
        return secret

    def remove(self, *names: str) -> None:
        """Remove files, whether or not they are there."""
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._descriptor)

    def lock(self, name: str) -> int:
        """Hold a file until the descriptor that is returned is closed; :class:`StalegradError` if another run does."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            try:
                descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor)
            except OSError as error:
                raise StalegradError(f"{self.path / name} cannot be made: {error}") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    there = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
                    if os.path.samestat(there, os.fstat(descriptor)):
                        return descriptor
            except BlockingIOError:
                os.close(descriptor)
                raise StalegradError(
                    f"another run is being served in {self.path}. Give each run a folder of its own: elastic=..."
                ) from None
            except OSError as error:
                os.close(descriptor)
                raise StalegradError(
                    f"files in {self.path} cannot be locked ({error}), so that another run could use it at the same "
                    "time. Give a folder on a file system with locks: elastic=..."
                ) from error
            os.close(descriptor)  # the run before has just ended, and removed it

    def _refuse_unless_own(self, about: os.stat_result, path: Path) -> None:
        if about.st_uid != os.geteuid():
            raise StalegradError(
                f"{path} belongs to another user (number {about.st_uid}), who could have workers join a run of theirs "
                "or run yours. Give a folder of your own"
            )
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StalegradError(
                f"{path} can be written to by others (its mode is {stat.S_IMODE(about.st_mode):o}), who could have "
                f"workers join a run of theirs. Give a folder of your own, or take it from them: chmod 700 {path}"
            )

    def _refuse_unless_private(self, about: os.stat_result, name: str) -> None:
        if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise StalegradError(
                f"{self.path / name} can be read by others (its mode is {stat.S_IMODE(about.st_mode):o}), so it is no "
                "secret. Give a folder on a file system that keeps the modes of files"
            )
