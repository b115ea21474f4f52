"""Disks that fail while a test wants them to: full ones, and ones that lose their writes."""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import Daemon

# Small enough to be filled at once, large enough for a hub.
DISK_BYTES = 16 * 1024 * 1024

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* A fault is on while $FAULTS/NAME exists; only files below $FAULTY_HOME are concerned. */
static int fault(const char *name, int fd) {
    char path[PATH_MAX], link[64], file[PATH_MAX];
    const char *faults = getenv("FAULTS"), *home = getenv("FAULTY_HOME");
    if (!faults || !home) return 0;
    snprintf(path, sizeof path, "%s/%s", faults, name);
    if (access(path, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, file, sizeof file - 1);
    if (size < 0) return 0;
    file[size] = 0;
    return strncmp(file, home, strlen(home)) == 0;
}

#define REAL(name, type) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, #name)

typedef int (*sync_call)(int);
typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
typedef ssize_t (*pwrite64_call)(int, const void *, size_t, off64_t);

int fsync(int fd) {
    REAL(fsync, sync_call);
    if (fault("fsync", fd)) { errno = EIO; return -1; }
    return real(fd);
}
int fdatasync(int fd) {
    REAL(fdatasync, sync_call);
    if (fault("fsync", fd)) { errno = EIO; return -1; }
    return real(fd);
}
ssize_t write(int fd, const void *data, size_t size) {
    REAL(write, write_call);
    if (fault("full", fd)) { errno = ENOSPC; return -1; }
    return real(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite, pwrite_call);
    if (fault("full", fd)) { errno = ENOSPC; return -1; }
    return real(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64, pwrite64_call);
    if (fault("full", fd)) { errno = ENOSPC; return -1; }
    return real(fd, data, size, at);
}
"""


class Faults:
    """Faults of the disk below a home, for daemons that are started with `variables`.

    The names: `fsync` (EIO from fsync and fdatasync) and `full` (ENOSPC from every write).
    """

    def __init__(self, directory: Path, home: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler")
        self._directory = directory / "faults"
        self._directory.mkdir()
        source, library = directory / "shim.c", directory / "shim.so"
        source.write_text(SHIM)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
        )
        # For the environment of the daemon.
        self.variables = {
            "LD_PRELOAD": str(library),
            "FAULTS": str(self._directory),
            "FAULTY_HOME": str(home),
        }

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Let the disk fail inside the block."""
        flag = self._directory / name
        flag.touch()
        try:
            yield
        finally:
            flag.unlink()


@contextmanager
def small_disk(directory: Path) -> Iterator[bool]:
    """A small file system at a directory, if this user may mount one; yields whether it is."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(directory)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", directory], check=True)


@contextmanager
def full_disk(daemon: Daemon, *, mounted: bool) -> Iterator[None]:
    """Leave no space for a daemon's files inside the block."""
    if mounted:
        filler = daemon.home / "filler"
        with filler.open("wb", buffering=0) as file:
            _fill(file.fileno())
        try:
            yield
        finally:
            filler.unlink()
        return
    # As good as full: no file may grow any more.
    assert daemon.process is not None
    pid = daemon.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def _fill(descriptor: int) -> None:
    for size in (1024 * 1024, 4096, 1):
        try:
            while True:
                os.write(descriptor, b"x" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
