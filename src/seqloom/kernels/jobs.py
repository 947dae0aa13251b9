"""What a helper does when it is awake: the jobs that kernels share (`team`)."""

from __future__ import annotations

import numpy as np
from numba import njit

from seqloom.kernels.attention import HEADS, HeadsJob
from seqloom.kernels.matmul import PANELS, Panels, PanelsJob
from seqloom.kernels.parallel import KIND, TEAM, new_team
from seqloom.kernels.quantised import OF_4_BITS, OF_8_BITS, Tiles, TilesJob
from seqloom.kernels.recurrent import WALK, Direction, WalkJob
from seqloom.kernels.team import be_ready, get_job, next_job, take_chunks, wake_up
from seqloom.kernels.transformer import Heads, Tokens

PATIENCE = 30_000  # looks for a job, some 0.5 ms, after which a helper sleeps


def _empty(dtype, dimensions):
    return np.empty((0,) * dimensions, dtype)


def _tiles(dtype):
    halves = _empty(np.uint16, 3)
    matrix = Tiles(_empty(dtype, 4), halves, halves, _empty(np.float32, 1), 0, False)
    return TilesJob(matrix, _empty(np.int8, 2), _NUMBERS, _empty(np.int32, 2), _NUMBERS)


def _walk(matrix):
    direction = Direction(_NUMBERS, matrix, _empty(np.float32, 1), _NUMBERS, _NUMBERS)
    return WalkJob(0, False, _PLACES, _PLACES, direction, direction, _NUMBERS)


_NUMBERS, _PLACES = _empty(np.float32, 2), _empty(np.int64, 1)
LIKE = (  # a job of each kind, by which its words are read
    PanelsJob(_empty(np.float32, 3), _empty(np.float32, 1), _NUMBERS, _NUMBERS),
    _tiles(np.int8), _tiles(np.uint8),
    HeadsJob(_NUMBERS, Heads(0, 0, 0, np.float32(0), 0), 0,
             Tokens(_empty(np.int64, 2), _PLACES, _PLACES, _PLACES), False, _NUMBERS, _NUMBERS, _NUMBERS,
             _empty(np.float32, 3)),
    _walk(Panels(_empty(np.float32, 3), _empty(np.float32, 1), 0)),
)


@njit(nogil=True, cache=True)
def _serve(team, me, patience, panels, of_8_bits, of_4_bits, heads, walk):
    awake = wake_up(team, me)
    while awake and next_job(team, me, patience):
        kind = team[KIND]
        if kind == PANELS:
            take_chunks(team, me, get_job(team, panels))
        elif kind == OF_8_BITS:
            take_chunks(team, me, get_job(team, of_8_bits))
        elif kind == OF_4_BITS:
            take_chunks(team, me, get_job(team, of_4_bits))
        elif kind == HEADS:
            take_chunks(team, me, get_job(team, heads))
        elif kind == WALK:
            take_chunks(team, me, get_job(team, walk))
        be_ready(team, me)


def serve(number: int) -> None:
    """Do jobs until there have been none for a while."""
    _serve(TEAM, number, PATIENCE, *LIKE)


_serve(new_team(), 1, 0, *LIKE)  # compiled before there are threads
