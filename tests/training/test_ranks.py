"""Several real processes that train one network, and the launcher that starts them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

from .several import NETWORKS, hashes, in_processes

ALL = {
    "steps": 3,
    "shards": 4,
    "accumulate": 2,
    "clip_at": 0.1,
    "average": "tail",
    "gradient_noise": 0.01,
    "batch_size": 6,
}


def test_networks_of_every_task_have_the_same_bytes(tmp_path):
    """Four shards in one process and in two: dropout, accumulation, clipping, averages, carried states."""
    names = list(NETWORKS)
    done = in_processes(2, tmp_path, {"names": names, "train": ALL})
    assert [code for code, _, _ in done] == [0, 0], [err for _, _, err in done]
    first, second = (json.loads(out) for _, out, _ in done)
    assert first == second == hashes(names, ALL)
