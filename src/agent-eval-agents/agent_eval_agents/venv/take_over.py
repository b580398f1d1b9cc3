"""Seals an environment. As a thread of the gate it would wait for the interpreter's lock at each file while another one
imports.

    python -I -S take_over.py FOLDER
"""

import os
import stat
import sys


def take_over(directory: str) -> None:
    """Makes our user the owner of everything in a directory, not writable for others: its builder can't change it.

    Symbolic links are not followed, even if a directory is replaced with a link meanwhile.
    """
    uid, gid = os.geteuid(), os.getegid()
    for _, folders, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        os.fchown(descriptor, uid, gid)
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o022)
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            os.chown(name, uid, gid, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_mode & 0o022:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
                try:
                    os.fchmod(file, stat.S_IMODE(status.st_mode) & 0o755)
                finally:
                    os.close(file)


if __name__ == "__main__":
    take_over(sys.argv[1])
