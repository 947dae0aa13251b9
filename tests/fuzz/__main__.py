"""`make fuzz`: attack everything with a seed, and count.

    make fuzz                               # every attack, minutes to an hour
    make fuzz ARGS="damage --count 2000"    # one attack
    make fuzz ARGS="kills --seed 7"

It exits with 1 when anything went wrong, and says how to repeat it.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

# attack: how many attempts by default; each is a module here with `run(count, seed) -> Counts`
ATTACKS = {
    "damage": 2000,
    "published": 1000,
    "kills": 200,
    "ranks": 50,
    "files": 2000,
    "options": 2000,
    "requests": 2000,
    "cluster": 40,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("attacks", nargs="*", help=f"which of {', '.join(ATTACKS)}; all by default")
    parser.add_argument("--count", type=int, help="attempts of each attack")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    unknown = set(arguments.attacks) - ATTACKS.keys()
    if unknown:
        parser.error(f"unknown attack {', '.join(sorted(unknown))}; known: {', '.join(ATTACKS)}")
    print(
        "| attack | tried | refused in one line | worked | wrong |\n|---|---|---|---|---|",
        flush=True,
    )
    wrong = []
    for name in arguments.attacks or ATTACKS:
        counts = import_module(f"tests.fuzz.{name}").run(
            arguments.count or ATTACKS[name], arguments.seed
        )
        print(counts.row(name), flush=True)
        wrong += [f"{name}, seed {arguments.seed}: {what}" for what in counts.wrong]
    for what in wrong:
        print(what, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
