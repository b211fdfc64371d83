"""Lines in CSV files that survive crashes: flushed appends, atomic replacements, torn ends.

A path that ends in .gz is compressed, every append a member of its own.
"""

import contextlib
import csv
import gzip
import io
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def read(path: Path) -> list[list[str]] | None:
    """The whole lines of a CSV, without an end that a crash tore; None where there is no file."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                pieces = []
                with contextlib.suppress(EOFError, OSError):  # the end of a member that is cut
                    pieces.extend(file)
            data = b"".join(pieces)
        else:
            data = path.read_bytes()
    except FileNotFoundError:
        return None
    text = data[: data.rfind(b"\n") + 1].decode()
    return list(csv.reader(io.StringIO(text, newline="")))


def append(path: Path, header: Iterable[str], lines: Iterable[Iterable[str]]) -> None:
    """Adds lines in one flushed write, after the header where the file is new.

    Raises:
        OSError: no permission, or the disk is full; the file is as it was.
    """
    with open(path, "ab") as file:
        size = file.tell()
        try:
            file.write(_encoded(path, lines if size else [header, *lines]))
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, size)
            raise


def replace(path: Path, lines: Iterable[Iterable[str]]) -> None:
    """Puts a file of these lines in the place of the old one, atomically."""
    replace_bytes(path, _encoded(path, lines))


def replace_bytes(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _encoded(path: Path, lines: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    data = text.getvalue().encode()
    return gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
