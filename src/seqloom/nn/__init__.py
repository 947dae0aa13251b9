"""torch blocks that take numbers, not configs."""

import os

# Before torch is loaded: its threads then sleep while they wait for each other. Spinning, the
# default, gains little on an
# idle machine, and on one where anything else runs it makes a step several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
