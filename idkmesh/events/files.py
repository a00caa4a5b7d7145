"""What a ledger's file may be, looked at before SQLite touches it.

A file that is not ours must stay as it is, and SQLite changes files by merely opening
them (it rolls journals back and folds WALs in). So the name, the type, the file system
and the header are judged first. In SQLite's locking a second descriptor on an open
database is a trap: closing it drops every lock of the process on that file. Therefore
the look happens under one process-wide lock and never at a file that is open here.
"""

import os
import stat
import threading
from typing import Final

from idkmesh.errors import ErrorCode, InvalidInput, StoreError

MEMORY: Final = ":memory:"
APPLICATION_ID: Final = 0x49444B4D  # "IDKM"
USER_VERSION: Final = 2

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_BYTES: Final = 28
_USER_VERSION_AT: Final = 60
_APPLICATION_ID_AT: Final = 68
_MAX_PATH_BYTES: Final = 500  # SQLite takes 512, with what it puts behind the name
_NETWORK: Final = (
    "9p afs beegfs ceph cifs coda davfs fuse.ceph fuse.curlftpfs fuse.davfs2 fuse.gcsfuse"
    " fuse.glusterfs fuse.juicefs fuse.mount-s3 fuse.rclone fuse.s3fs fuse.smbnetfs fuse.sshfs"
    " fuse.vmhgfs-fuse gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs smb3 smbfs"
    " vboxsf virtiofs vmhgfs"
)
_SIDECARS: Final = ("-journal", "-wal", "-shm")
LOCKS: Final = ("-queue", "-lock")  # the turnstile's files
BESIDE: Final = (*_SIDECARS, *LOCKS)
# What the kernel writes for the characters that would break its table's lines and columns.
_MOUNT_ESCAPES: Final = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))

Target = str | os.PathLike[str]
Inode = tuple[int, int]
looking: Final = threading.RLock()


def forget_lookers() -> None:
    """In a forked child: free the lock that a thread of the parent may have held."""
    looking._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001  (as threading does)


def resolve(target: object, *, spare: int = 0) -> str:
    """Return the absolute path that a caller's target means, its folder resolved.

    Args:
        target: What the caller gave.
        spare: How many bytes of the longest path it must leave free.

    Raises:
        InvalidInput: The path is empty, holds NUL, is too long for SQLite or no text
            (``invalid_input``).
        StoreError: It names a folder (``store_unsafe``).
        TypeError: It is neither ``str`` nor a path object.
    """
    path = os.fspath(target)  # type: ignore[call-overload]  # it raises the TypeError itself
    if not isinstance(path, str):
        message = f"expected target to be a str or a path, but it is a {type(path).__name__}"
        raise TypeError(message)
    if not path or "\x00" in path:
        message = "expected target to be a path, but it is empty or holds NUL"
        raise InvalidInput(message)
    if path == MEMORY:
        return path
    folder, name = os.path.split(path)
    if name in {"", ".", ".."}:
        raise _unsafe("a file", "a folder")
    try:
        path = os.path.join(os.path.realpath(folder or "."), name)
        size = len(path.encode())
    except UnicodeEncodeError as error:
        message = "expected target to be a path in UTF-8, but it is none"
        raise InvalidInput(message) from error
    most = _MAX_PATH_BYTES - spare
    if size > most:
        message = f"expected target to be a path of at most {most} bytes, but it is not"
        raise InvalidInput(message)
    return path


def prepare(path: str, *, file_mode: int, read_only: bool, allow_network: bool) -> None:
    """Make the folder and an empty file where there is none.

    Raises:
        StoreError: The file may not be made here (``store_readonly``, ``store_full``), is
            missing for a reader (``store_readonly``), or lies on a network file system
            (``store_unsafe``).
    """
    folder = os.path.dirname(path)
    try:
        if not read_only:
            make_folder(folder)
        if not allow_network:
            refuse_network(folder, mount_table())
        if os.path.lexists(path):
            return
        if read_only:
            message = "expected a ledger to read, but there is no file"
            raise StoreError(ErrorCode.STORE_READONLY, message)
        create(path, file_mode)
    except FileExistsError:
        return  # another process was quicker
    except OSError as error:
        raise refused(error) from error
    keep_names(folder)


def create(path: str, file_mode: int) -> None:
    """Make an empty file of this mode, under any umask.

    Raises:
        OSError: Something of that name is there, or the system refuses.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, file_mode)
    try:
        os.fchmod(descriptor, file_mode)
    finally:
        os.close(descriptor)


def make_folder(folder: str) -> None:
    """Make a folder and those above it, so that a power cut takes none of them back.

    Raises:
        OSError: The system refuses.
    """
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folder(above)
    try:
        os.mkdir(folder)
    except FileExistsError:
        return  # another process was quicker, or it is a file, which will be found out
    keep_names(above)


def keep_names(folder: str) -> None:
    """Flush a folder's names to the disk, where the system does such a thing."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def look(path: str, already_open: frozenset[Inode]) -> Inode:
    """Judge the file by its type, links and header; return its identity.

    Args:
        path: The resolved path.
        already_open: Files that this process has open, whose headers were judged before.

    Raises:
        StoreError: ``store_unsafe`` (a link, a folder, no regular file), ``store_foreign``
            (no SQLite database, or another program's), ``store_newer`` (a later version's),
            ``store_readonly`` (no permission).
    """
    inode = identity(path)
    if inode in already_open:
        return inode
    for suffix in _SIDECARS:
        # SQLite would write into whatever has such a name, or wait for a pipe's other end.
        try:
            beside = os.lstat(path + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise refused(error) from error
        _require_plain(beside)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError as error:
        raise refused(error) from error
    found = os.fstat(descriptor)
    if (found.st_dev, found.st_ino) != inode:
        # What was swapped in may be open here, so the descriptor stays open: see above.
        raise _unsafe("the file that was looked at", "another, which took its place")
    try:
        header = os.read(descriptor, _HEADER_BYTES)
    except OSError as error:
        raise refused(error) from error
    finally:
        os.close(descriptor)
    if header and not _is_unborn(path, header):
        _judge(header)
    return inode


def _is_unborn(path: str, header: bytes) -> bool:
    """Say whether a crash cut the making of the file short.

    Then it holds no database yet, and the rollback journal beside it says that the file was
    empty before: SQLite will make it so again.
    """
    if header.startswith(_MAGIC):
        return False
    try:
        with open(path + "-journal", "rb") as journal:
            start = journal.read(_JOURNAL_BYTES)
    except OSError:
        return False
    return start[:8] == _JOURNAL_MAGIC and start[16:20] == bytes(4)


def identity(path: str) -> Inode:
    """Return the (device, inode) of a file that a ledger may be.

    Raises:
        StoreError: It is missing, a link, has several names, or is no regular file
            (``store_unsafe``).
    """
    try:
        status = os.lstat(path)
    except OSError as error:
        raise refused(error) from error
    _require_plain(status)
    return status.st_dev, status.st_ino


def require_writable(path: str) -> None:
    """Refuse a file that may not be written, before anything is made beside it.

    Raises:
        StoreError: The system gives no leave to write the file (``store_readonly``), or it
            has gone (``store_unsafe``).
    """
    identity(path)
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        message = "expected leave to write the ledger, but the system gives none"
        raise StoreError(ErrorCode.STORE_READONLY, message)


def mount_table() -> str:
    """Return the system's mount table, or nothing where it has none to read."""
    try:
        with open("/proc/self/mountinfo", "rb") as table:
            return os.fsdecode(table.read())
    except OSError:
        return ""


def refuse_network(folder: str, table: str) -> None:
    """Refuse a folder on a network file system, as Linux's mount table tells.

    Args:
        folder: The resolved folder.
        table: The text of ``/proc/self/mountinfo``, or nothing.

    Raises:
        StoreError: The folder's file system is a network's (``store_unsafe``).
    """
    longest, kind = -1, ""
    for line in table.split("\n"):
        fields, _, rest = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not rest:  # noqa: PLR2004  (the mount point is the fifth)
            continue
        point = columns[4]
        for escape, character in _MOUNT_ESCAPES:
            point = point.replace(escape, character)
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            longest, kind = len(point), rest.split()[0]
    if kind in _NETWORK.split():
        raise _unsafe("a local file system", "a network file system, whose locks may not hold")


def refused(error: OSError) -> StoreError:
    """Return the ledger's word for the system's refusal."""
    import errno  # noqa: PLC0415  (needed only when something went wrong)

    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreError(ErrorCode.STORE_FULL, "expected room on the disk, but there is none")
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        message = "expected leave to open the ledger, but the system gives none"
        return StoreError(ErrorCode.STORE_READONLY, message)
    if error.errno == errno.ENOENT:
        message = "expected a file of that name, but it is gone or its folder is"
        return StoreError(ErrorCode.STORE_UNSAFE, message)
    message = "expected a file that can be opened, but the system refused it"
    return StoreError(ErrorCode.STORE_UNSAFE, message)


def _require_plain(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _unsafe("a regular file", "a symbolic link")
    if stat.S_ISDIR(status.st_mode):
        raise _unsafe("a regular file", "a folder")
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe("a regular file", "a device, a pipe or a socket")
    if status.st_nlink > 1:
        raise _unsafe("a file with one name", "a file with several hard links")


def _judge(header: bytes) -> None:
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        message = "expected an idkmesh ledger, but the file is no SQLite database"
        raise StoreError(ErrorCode.STORE_FOREIGN, message)
    if int.from_bytes(header[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4]) != APPLICATION_ID:
        message = "expected an idkmesh ledger, but the database is another program's"
        raise StoreError(ErrorCode.STORE_FOREIGN, message)
    judge_version(int.from_bytes(header[_USER_VERSION_AT : _USER_VERSION_AT + 4]))


def judge_version(found: int) -> None:
    """Refuse a file of a later schema.

    Raises:
        StoreError: The file's version is above this one's (``store_newer``).
    """
    if found > USER_VERSION:
        message = f"expected a ledger of version {USER_VERSION}, but this one needs {found}"
        raise StoreError(ErrorCode.STORE_NEWER, message)


def _unsafe(expected: str, found: str) -> StoreError:
    message = f"expected {expected}, but the target is {found}"
    return StoreError(ErrorCode.STORE_UNSAFE, message)
