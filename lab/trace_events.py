"""Walks a Chrome trace and keeps of each event what is needed, as soon as it is decoded.

A large file is thus never held as Python objects. What the kept events mean is lab.trace's part.
"""

import gzip
import json
import math
import re
import statistics
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

_KIND = {  # category in lower case, of new and old profilers -> what it is here
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "runtime": "call",
}
GPU = ("kernel", "memset", "memcpy")
_FLOWS = ("ac2g", "async_cpu_to_gpu")
_FAR_FUTURE_US = 4.1e15  # the year 2100: a trace later than this counts nanoseconds
_GAP = re.compile(r"[\s,]*").match


class Malformed(Exception):
    """Why the file is no readable trace, without its name."""


def text_of(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":  # the name may lie
            data = gzip.decompress(data)
    except EOFError:
        raise Malformed("truncated: its gzip stream ends early; copy the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise Malformed(f"damaged gzip: {error}") from None
    except OSError as error:
        raise Malformed(error.strerror) from None
    if not data or data.isspace():
        raise Malformed("empty")
    return data.decode("utf-8-sig", errors="replace")  # names may hold anything


def walk(text: str, add: Callable[[object], None]) -> dict:
    """Hands every trace event to `add` as soon as it is decoded; returns the other values.

    A document is an object with `traceEvents`, or the bare list of events.
    """
    decode = json.JSONDecoder(strict=False).raw_decode  # names may hold control characters
    size = len(text)

    def value(at):
        try:
            return decode(text, at)
        except json.JSONDecodeError as error:
            # The decoder stops a few characters before the end of a word that was cut in two.
            if error.msg.startswith("Unterminated") or error.pos >= size - 10:
                raise _truncated(text) from None
            where = f"at character {error.pos}"
            raise Malformed(f"not valid JSON {where}: {error.msg}") from None

    def events(at):
        while True:
            at = _GAP(text, at).end()
            if text[at : at + 1] == "]":
                return at + 1
            if at >= size:
                raise _truncated(text)
            event, at = value(at)
            add(event)

    meta, at = {}, _GAP(text, 0).end()
    if text[at] == "[":
        events(at + 1)
        return meta
    if text[at] != "{":
        raise Malformed(f"not a Chrome trace: not JSON, it starts with {text[at : at + 12]!r}")
    at, seen = at + 1, False
    while True:
        at = _GAP(text, at).end()
        if text[at : at + 1] == "}":
            break
        if at >= size:
            raise _truncated(text)
        key, at = value(at)
        at = _GAP(text, at).end()
        if at >= size:
            raise _truncated(text)
        if text[at] != ":" or not isinstance(key, str):
            raise Malformed(f"not valid JSON at character {at}: a key and its value expected")
        at = _GAP(text, at + 1).end()
        if key == "traceEvents" and text[at : at + 1] == "[":
            seen, at = True, events(at + 1)
        else:
            meta[key], at = value(at)
    if not seen:
        keys = ", ".join(list(meta)[:4]) or "no keys"
        raise Malformed(f"not a Chrome trace: JSON without traceEvents, it has {keys}")
    return meta


def _truncated(text: str) -> Malformed:
    return Malformed(f"truncated: it ends after {len(text)} characters; copy the file again")


class Found:
    """What is kept of the events. A span is (kind, start, duration, name, pid, tid, args).

    Times are as in the file, integers as integers: a float can't hold nanoseconds since 1970.
    """

    def __init__(self):
        self.spans: list[tuple] = []
        self.flows: dict[tuple, int] = {}  # (pid, tid, time) of either end -> id
        self.pairs: list[tuple] = []  # B and E events
        self.count = self.unreadable = self.python_frames = 0
        self._names: dict[str, str] = {}

    def add(self, event) -> None:
        self.count += 1
        if not isinstance(event, dict):
            self.unreadable += 1
            return
        phase, category = event.get("ph"), str(event.get("cat", "")).lower()
        if phase in ("s", "f") and category in _FLOWS:
            place = _key(event.get("pid")), _key(event.get("tid")), _number(event.get("ts"))
            self.flows[place] = _key(event.get("id"))
            return
        if phase not in ("X", "B", "E"):
            return
        kind = _KIND.get(category) or ("call" if category.endswith(("_runtime", "_driver")) else "")
        if not kind and phase == "X":
            self.python_frames += category == "python_function"
            return
        name, args = str(event.get("name", "")), event.get("args")
        start, duration = _number(event.get("ts")), _number(event.get("dur", 0))
        if start is None or duration is None:
            self.unreadable += 1
            return
        name = self._names.setdefault(name, name)
        place = _key(event.get("pid")), _key(event.get("tid"))
        args = _kept_args(kind, args if isinstance(args, dict) else {})
        if phase == "X":
            self.spans.append((kind, start, max(0, duration), name, *place, args))
        else:
            self.pairs.append((start, phase, kind, name, place, args))

    def close_pairs(self) -> None:
        """Makes a span of each B event and the E event that closes it, innermost first."""
        opened = defaultdict(list)
        for time, phase, kind, name, place, args in sorted(self.pairs, key=lambda p: p[0]):
            if phase == "B":
                opened[place].append((time, kind, name, args))
            elif opened[place]:
                start, kind, name, args = opened[place].pop()
                if kind:
                    self.spans.append((kind, start, time - start, name, *place, args))
            else:
                self.unreadable += 1
        self.unreadable += sum(len(rest) for rest in opened.values())
        self.pairs.clear()


def _kept_args(kind: str, args: dict) -> tuple:
    ids = (
        _number(args.get("correlation")),
        _number(args.get("External id", args.get("external id"))),
    )
    if kind not in GPU:
        return ids
    return (
        *ids,
        *(None if args.get(name) is None else _key(args[name]) for name in ("device", "stream")),
        _sizes(args.get("grid")),
        _sizes(args.get("block")),
        _number(args.get("registers per thread")),
        _number(args.get("shared memory")),
        _number(args.get("bytes")),
        _number(args.get("memory bandwidth (GB/s)")),
    )


def _number(value) -> int | float | None:
    if type(value) is int:
        return value if abs(value) < 2**63 else None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if type(value) is float and math.isfinite(value) else None


def _sizes(value) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(isinstance(size, int) for size in value):
        return None
    return tuple(value)


def _key(value) -> int | str:
    """A process, thread, device or stream id: Kineto writes integers and now and then a word."""
    return value if isinstance(value, int) else str(value)


def why_nanoseconds(spans: list[tuple], meta: dict) -> str | None:
    """Why the times must be nanoseconds, or None for the format's own µs."""
    seen = []  # duration of a copy by the clock ÷ its nanoseconds by bytes and bandwidth
    for kind, _, duration, _, _, _, args in spans:
        if kind in ("memcpy", "memset") and duration and args[-2] and args[-1]:
            seen.append(duration * args[-1] / args[-2])
    if seen:
        return "the copies' bandwidth says so" if statistics.median(seen) > 0.03 else None
    base = _number(meta.get("baseTimeNanoseconds")) or 0
    first = min(span[1] for span in spans)
    if first + base / 1e3 > _FAR_FUTURE_US:
        return "as microseconds they would lie in the far future"
    # displayTimeUnit alone is a wish of the viewer's; beside whole numbers it is the best clue.
    whole = all(isinstance(span[1], int) and isinstance(span[2], int) for span in spans)
    if whole and meta.get("displayTimeUnit") == "ns":
        return "displayTimeUnit is ns and all are whole"
    return None
