"""One vocabulary for the tiles of every vendor, and the space they are drawn from.

`block_m` counts rows of the op's output y and `block_n` its columns, for every vendor. cuBLAS
speaks of the transposed problem, so its names are swapped when they are read. A field that a
kernel doesn't have, or that can't be known, is None: nothing is guessed.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

SCHEDULES = ("pingpong", "cooperative", "warp_specialized", "multistage")
SCHEDULERS = ("persistent", "stream_k")
RASTERS = ("along_m", "along_n", "heuristic")

_NUMBER = {  # prefix of the token -> field; the block sizes have a form of their own
    "m": "block_m",
    "n": "block_n",
    "k": "block_k",
    "s": "stages",
    "w": "warps",
    "swizzle": "swizzle",
    "split": "split_k",
}


@dataclass(frozen=True)
class Tile:
    """How a kernel cuts its output, in the lab's words.

    `swizzle` groups neighbouring tiles for L2 reuse (CUTLASS' max_swizzle_size, Triton's
    GROUP_M). `swap` says that the operands were exchanged, so that the kernel computed yᵀ;
    `block_m` counts rows of y even then. `epilogue` is a lower-case word of the kernel's own.

    `str()` and `Tile.parse()` round-trip: `128x256x64-s4-c2x1-pingpong-along_n-swizzle8`.

    Raises:
        ValueError: a size that is not a positive integer, or a word outside the vocabulary.
    """

    block_m: int | None = None
    block_n: int | None = None
    block_k: int | None = None
    stages: int | None = None
    warps: int | None = None
    cluster: str | None = None
    schedule: str | None = None
    scheduler: str | None = None
    raster: str | None = None
    swizzle: int | None = None
    split_k: int | None = None
    swap: bool | None = None
    epilogue: str | None = None

    def __post_init__(self):
        for name in _NUMBER.values():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"tile: {name} must be a positive integer, not {value!r}")
        if self.cluster is not None and not re.fullmatch(r"[1-9]\d*x[1-9]\d*", self.cluster):
            raise ValueError(f"tile: cluster is written like 2x1, not {self.cluster!r}")
        for name, words in (
            ("schedule", SCHEDULES),
            ("scheduler", SCHEDULERS),
            ("raster", RASTERS),
        ):
            value = getattr(self, name)
            if value is not None and value not in words:
                raise ValueError(f"tile: {name} is one of {', '.join(words)}, not {value!r}")
        if self.swap not in (None, True):
            # "Not swapped" is the absence of the property, as for every other field.
            raise ValueError(f"tile: swap is True or None, not {self.swap!r}")
        if self.epilogue is not None and not re.fullmatch(r"[a-z][a-z0-9_]*", self.epilogue):
            raise ValueError(f"tile: epilogue is a lower-case word, not {self.epilogue!r}")

    def __str__(self) -> str:
        parts = []
        blocks = [self.block_m, self.block_n, self.block_k]
        if self.block_m and self.block_n:
            parts.append("x".join(str(b) for b in blocks if b))
        else:
            parts += [f"{letter}{b}" for letter, b in zip("mnk", blocks, strict=True) if b]
        parts += [f"s{self.stages}"] if self.stages else []
        parts += [f"w{self.warps}"] if self.warps else []
        parts += [f"c{self.cluster}"] if self.cluster else []
        parts += [word for word in (self.schedule, self.scheduler, self.raster) if word]
        parts += [f"swizzle{self.swizzle}"] if self.swizzle else []
        parts += [f"split{self.split_k}"] if self.split_k else []
        parts += ["swap"] if self.swap else []
        parts += [f"epi_{self.epilogue}"] if self.epilogue else []
        return "-".join(parts)

    @classmethod
    def parse(cls, text: str) -> "Tile":
        """Reads what `str()` writes; any field may be left out.

        Raises:
            ValueError: a token that is not of the vocabulary, or a field given twice.
        """
        found: dict[str, object] = {}

        def put(name, value):
            if name in found:
                raise ValueError(f"tile {text!r}: {name} is given twice")
            found[name] = value

        for token in text.split("-"):
            number = re.fullmatch(r"([a-z]+)(\d+)", token)
            if re.fullmatch(r"\d+x\d+(x\d+)?", token):
                names = ("block_m", "block_n", "block_k")
                for name, value in zip(names, token.split("x"), strict=False):
                    put(name, int(value))
            elif number and number[1] in _NUMBER:
                put(_NUMBER[number[1]], int(number[2]))
            elif re.fullmatch(r"c\d+x\d+", token):
                put("cluster", token[1:])
            elif token in SCHEDULES:
                put("schedule", token)
            elif token in SCHEDULERS:
                put("scheduler", token)
            elif token in RASTERS:
                put("raster", token)
            elif token == "swap":
                put("swap", True)
            elif token.startswith("epi_"):
                put("epilogue", token.removeprefix("epi_"))
            else:
                raise ValueError(
                    f"tile {text!r}: {token!r} is not understood; "
                    "write it like 128x256x64-s4-w8-c2x1-pingpong-along_n-swizzle8"
                )
        return cls(**found)

    def covers(self, other: "Tile") -> bool:
        """Whether every field set here has the same value in `other`."""
        return all(getattr(self, f.name) in (None, getattr(other, f.name)) for f in fields(self))

    def filled(self, other: "Tile") -> "Tile":
        """This tile, with `other`'s values where this one has none."""
        missing = {
            f.name: getattr(other, f.name) for f in fields(self) if getattr(self, f.name) is None
        }
        return replace(self, **missing)


@dataclass(frozen=True)
class Rejection:
    """Why a tile is not worth a build.

    `kind` is invalid where it can't be built or can't run, pruned where it could run but won't
    win.
    """

    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(frozen=True)
class Space:
    """A product of axes and one predicate that says why a tile of it can't be used.

    `axes` maps Tile fields to their values; every tile of their product is a build of its own.
    `launch_axes` are fields that are arguments of a launch; their first values are the defaults.
    `why_not(tile, problem, gpu)` returns a Rejection or None for either; `gpu` is a
    device.Device, None for the one the kernel was written for.
    """

    axes: Mapping[str, Sequence]
    why_not: Callable[[Tile, object, object], Rejection | None]
    launch_axes: Mapping[str, Sequence] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Tile]:
        """The builds, in the product's order: the last axis varies fastest."""
        for values in itertools.product(*self.axes.values()):
            yield Tile(**dict(zip(self.axes, values, strict=True)))

    def tiles(self, problem, gpu=None) -> list[Tile]:
        return [tile for tile in self if self.why_not(tile, problem, gpu) is None]

    def rejected(self, problem, gpu=None) -> list[tuple[Tile, Rejection]]:
        return [(tile, why) for tile in self if (why := self.why_not(tile, problem, gpu))]

    def launches(self, tile: Tile, problem, gpu=None) -> list[Tile]:
        """A build with each of its launch arguments that are worth a try, the defaults first."""
        found = []
        for values in itertools.product(*self.launch_axes.values()):
            launch = replace(tile, **dict(zip(self.launch_axes, values, strict=True)))
            if self.why_not(launch, problem, gpu) is None:
                found.append(launch)
        return found
