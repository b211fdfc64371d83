import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tile import RASTERS, SCHEDULERS, SCHEDULES, Rejection, Space, Tile

sizes = st.none() | st.integers(1, 4096)
tiles = st.builds(
    Tile,
    block_m=sizes,
    block_n=sizes,
    block_k=sizes,
    stages=sizes,
    warps=sizes,
    cluster=st.none() | st.builds("{}x{}".format, st.integers(1, 8), st.integers(1, 8)),
    schedule=st.sampled_from((None, *SCHEDULES)),
    scheduler=st.sampled_from((None, *SCHEDULERS)),
    raster=st.sampled_from((None, *RASTERS)),
    swizzle=sizes,
    split_k=sizes,
    swap=st.sampled_from((None, True)),
    epilogue=st.none() | st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
)


@given(tiles.filter(lambda t: t != Tile()))
def test_round_trip(tile):
    assert Tile.parse(str(tile)) == tile


def test_written_form():
    tile = Tile(128, 256, 64, 4, 8, "2x1", "pingpong", "persistent", "along_n", 8, 2, True, "tma")
    assert str(tile) == (
        "128x256x64-s4-w8-c2x1-pingpong-persistent-along_n-swizzle8-split2-swap-epi_tma"
    )
    assert str(Tile(block_n=1024, warps=4)) == "n1024-w4"
    assert str(Tile(block_m=1, block_n=4096)) == "1x4096"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not understood"),
        ("128x", "not understood"),
        ("128x256x64-pingpang", "not understood"),
        ("128x256-64x64", "given twice"),
        ("0x128x64", "positive"),
        ("c0x1", "2x1"),
        ("epi_Loud", "lower-case"),
    ],
)
def test_malformed(text, says):
    with pytest.raises(ValueError, match=says):
        Tile.parse(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"block_m": -1},
        {"stages": 2.0},
        {"warps": True},
        {"cluster": "two"},
        {"schedule": "fast"},
        {"scheduler": "fifo"},
        {"raster": "diagonal"},
        {"swap": False},
    ],
)
def test_bad_fields(fields):
    with pytest.raises(ValueError, match="tile: "):
        Tile(**fields)


def test_covers_and_filled():
    asked, declared = Tile(128, 256), Tile(128, 256, 64, cluster="2x1")
    assert asked.covers(declared) and not declared.covers(asked)
    assert asked.filled(declared) == declared
    assert Tile(64).filled(declared) == dataclasses.replace(declared, block_m=64)


def test_space_gives_each_rejection_its_reason():
    def why_not(tile, limit, gpu):
        if tile.block_m * tile.block_n > limit:
            return Rejection("invalid", f"more than {limit}")
        return Rejection("pruned", "slow") if tile.swizzle == 8 else None

    axes = {"block_m": (64, 128), "block_n": (64, 256)}
    space = Space(axes, why_not, {"raster": ("along_m", "along_n"), "swizzle": (1, 8)})
    assert len(list(space)) == 4
    assert space.tiles(10_000) == [Tile(64, 64), Tile(128, 64)]
    assert [str(why) for _, why in space.rejected(10_000)] == ["invalid: more than 10000"] * 2
    assert space.launches(Tile(64, 64), 10_000) == [
        Tile(64, 64, raster="along_m", swizzle=1),
        Tile(64, 64, raster="along_n", swizzle=1),
    ]
    assert Space(axes, why_not).launches(Tile(64, 64), 10_000) == [Tile(64, 64)]
