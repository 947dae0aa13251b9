"""Every compiled kernel that others call is checked against something slow.

A test names it, or `AGREEMENT` says which tests hold the kernels of its file equal to brute force, a formula
or another program, through the functions that call them.
"""

import ast
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "src/seqloom/kernels"
AGREEMENT = {
    "alignment": [
        "metrics/test_text_scores.py::test_edits_and_subsequences_are_those_of_the_whole_table",
        "models/test_dictionary.py::test_em_is_that_of_the_book",
    ],
    "attention": [
        "kernels/test_attention.py::test_lengths_around_pages_and_vectors",
        "nn/test_memory.py::test_the_kernel_is_torchs_arithmetic",
    ],
    "bag_classifier": [
        "models/test_fasttext_classifier.py::test_codes_are_scored_as_the_rows_that_they_stand_for"
    ],
    "beam": [
        "decoding/test_beam_options.py::test_the_kernel_in_batches_finds_what_its_twin_finds_for_each"
    ],
    "decimals": ["models/test_word_vectors.py::test_subset"],
    "features": [
        "interop/test_vectors.py::test_character_ngrams_without_fasttext",
        "models/test_naive_bayes.py::test_posterior_equals_scikit_learn",
    ],
    "glove": [
        "models/test_cooccurrence.py::test_against_a_double_loop",
        "models/test_cooccurrence.py::test_any_memory_and_any_number_of_threads",
        "models/test_glove.py::test_every_cell_is_visited_once_and_the_loss_is_the_formula",
    ],
    "hmm": [
        "nn/test_crf.py::test_equal_to_all_paths_written_out",
        "models/test_hidden.py::test_everything_against_all_paths",
        "models/test_hidden.py::test_far_outliers_and_tiny_probabilities_are_still_exact",
    ],
    "hmm_paths": ["models/test_hmm_tagger.py::test_the_best_tagging_of_all"],
    "maths": [
        "kernels/test_maths.py::test_norms",
        "kernels/test_maths.py::test_activation_functions",
    ],
    "matmul": ["kernels/test_matmul.py::test_panels_of_any_layout"],
    "ngram_count": [
        "models/test_cache.py::test_window_counts",
        "kernels/test_ngram_count.py::test_levels_equal_dictionaries",
        "kernels/test_ngram_count.py::test_blocks_and_threads_do_not_change_the_result",
    ],
    "ngram_estimate": [
        "models/test_ngram.py::test_smoothing_equals_the_formulas",
        "models/test_pruning.py::test_change_of_one_bigram_by_definition",
    ],
    "ngram_query": [
        "models/test_ngram.py::test_every_token_equals_kenlm",
        "models/test_ngram.py::test_long_texts_are_scored_by_an_index_to_the_same_bits",
    ],
    "phrases": ["text/test_phrases.py::test_equal_to_plain_python"],
    "quantised": [
        "kernels/test_quantised.py::test_rounding",
        "kernels/test_quantised.py::test_16_bits_are_hardly_rounded",
    ],
    "recurrent": [
        "kernels/test_recurrent.py::test_lstm",
        "kernels/test_recurrent.py::test_gru",
        "kernels/test_recurrent.py::test_rnn",
    ],
    "sampling": [
        "kernels/test_word2vec.py::test_noise_is_drawn_by_count_to_the_power",
        "kernels/test_word2vec.py::test_the_tree_is_huffmans",
    ],
    "team": ["kernels/test_team.py::test_parts_are_done_once_each"],
    "tokens": ["kernels/test_tokens.py::test_count_and_encode_equal_twin"],
    "vector_search": ["models/test_word_vectors.py::test_nearest_is_exact"],
}


def kernel_names(tree: ast.AST) -> set[tuple[str, str]]:
    """Return the (file, function) of kernels that a module imports, or reaches through their file."""
    found, files = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seqloom.kernels"):
            file = (node.module or "").removeprefix("seqloom.kernels").strip(".")
            for alias in node.names:
                if file:
                    found.add((file, alias.name))
                else:
                    files[alias.asname or alias.name] = alias.name
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in files
        ):
            found.add((files[node.value.id], node.attr))
    return found


def trees(folder: Path, word: str = "") -> dict[Path, ast.Module]:
    """Parse the files below a folder that have the word in them; the others would only take time."""
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    return {path: ast.parse(text) for path, text in texts.items() if word in text}


@pytest.fixture(scope="module")
def uncovered():
    """Kernels that others may call and no test names, by file."""
    called = set().union(*map(kernel_names, trees(ROOT / "src", "seqloom.kernels").values()))
    named = set().union(*map(kernel_names, trees(ROOT / "tests", "seqloom.kernels").values()))
    found: dict[str, list[str]] = {}
    for path, tree in trees(KERNELS).items():
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or (path.stem, node.name) in named:
                continue
            if not any("njit" in ast.unparse(decorator) for decorator in node.decorator_list):
                continue
            if not node.name.startswith("_") or (path.stem, node.name) in called:
                found.setdefault(path.stem, []).append(node.name)
    return found


def test_a_test_names_every_kernel_or_the_table_its_file(uncovered):
    assert {name: kernels for name, kernels in uncovered.items() if name not in AGREEMENT} == {}
    assert not AGREEMENT.keys() - uncovered.keys(), "no longer needed in the table"


def test_the_tests_of_the_table_exist():
    for test in chain.from_iterable(AGREEMENT.values()):
        path, _, function = test.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert function in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }, test
