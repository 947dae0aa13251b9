"""`make bench`: side by side with the peers, as ratios.

    make bench                         # everything that can be run here
    make bench ARGS="ngram --quick"    # small data, two repetitions
    make bench ARGS=--smoke            # every suite on tiny data, without corpora, weights and peers

Corpora are found through $SEQLOOM_DATA, published weights through $SEQLOOM_WEIGHTS; peers are used
where they are installed (`pip install -e .[peers]`; the KenLM programs lmplz, build_binary through
$KENLM_BIN). What is missing is named and skipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module

# name: module and function, which are imported when they are run
SUITES = {
    "anomalies": "anomalies.run",
    "attention-maps": "attention_maps.run",
    "calls": "calls.run",
    "ngram": "ngram.run",
    "readers": "readers.run",
    "scaling": "scaling.run",
    "series": "series.run",
    "text": "text.run",
    "memory": "memory.run",
    "train-speed": "train_speed.run",
    "softmax-speed": "softmax_speed.run",
    "gpt-speed": "gpt_speed.run",
    "decode-speed": "decode_speed.run",
    "drift": "drift.run",
    "beam-speed": "beam_speed.run",
    "trace-speed": "trace_speed.run",
    "translate-speed": "translate_speed.run",
    "translate-training": "translate_training.run",
    "translate": "translate.run",
    "transformers": "transformers.run",
    "naive-bayes": "naive_bayes.run",
    "hmm": "hmm.run",
    "crf": "crf.run",
    "ptb-ladder": "ptb_ladder.run",
    "wikitext-ladder": "ptb_ladder.run_wikitext",
    "characters": "characters.run",
    "vectors": "vectors.run",
    "vector-training": "vector_training.run",
    "vector-quality": "vector_training.run_quality",
    "glove": "glove.run",
    "text-classifier": "text_classifier.run",
    "classify": "classify.run",
    "classify-quality": "classify.run_quality",
    "fine-tuning": "fine_tuning.run",
    "tagging": "tagging.run",
    "tagging-quality": "tagging.run_quality",
    "published": "published.run",
    "scale": "scale.run",
    "claims": "claims.run",
    "against": "against.run",
    "runtime": "runtime.run",
    "serving": "serving.run",
    "serving-load": "serving_load.run",
    "studio": "studio.run",
    "scale-cluster": "scale_cluster.run",
}
LONG = (
    "drift",
    "ptb-ladder",
    "wikitext-ladder",
    "characters",
    "vector-quality",
    "tagging-quality",
    "classify-quality",
    "series",
    "anomalies",
    "translate",
    "published",
    "fine-tuning",
    "claims",
    "against",
    "runtime",
    "serving",
    "serving-load",
    "studio",
    "scaling",
)  # only when named


def find(name: str) -> Callable[..., None]:
    """Import the function of a suite."""
    module, _, function = SUITES[name].partition(".")
    found: Callable[..., None] = getattr(import_module(f"benchmarks.{module}"), function)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help=f"all that are short by default; of {', '.join(SUITES)}",
    )
    parser.add_argument("--quick", action="store_true", help="small data and two repetitions")
    parser.add_argument(
        "--smoke", action="store_true", help="tiny generated data, no peers; the long suites too"
    )
    parser.add_argument("--only", help="run only the rows whose name contains this")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.suites if name not in SUITES]:
        parser.error(f"there is no suite {unknown[0]!r}; there are {', '.join(SUITES)}")
    if arguments.smoke:
        from benchmarks import smoke

        sys.exit(smoke.run_all(arguments.suites or list(SUITES), arguments.only or ""))
    for name in arguments.suites or [s for s in SUITES if s not in LONG]:
        find(name)(quick=arguments.quick, only=arguments.only or "")


if __name__ == "__main__":
    main()
