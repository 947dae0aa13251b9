"""fastText's classifier: the mean of the vectors of a text's words and word n-grams, and a linear
layer on it (Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification"). Nearly as good
as networks on topics and sentiment, in seconds.

    p(class | text) = softmax(Y h),  h = mean of the rows of its features

n-grams of words (and of the characters of words, with `max_ngram`) are hashed into `buckets`; only
buckets that the training texts use have a row. The texts are learnt in an order that changes with
every epoch, since files are often sorted by class. `tune` looks for good settings (`tuning.py`),
`quantise` makes the saved model about eight times smaller.

    >>> model = FastTextClassifier().fit([("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")])
    >>> model.predict("a good day")
    '+'
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from seqloom import progress, registry
from seqloom.arrays import Length, Spec
from seqloom.contracts.classification import Classifier
from seqloom.contracts.fitting import FitOptions
from seqloom.data.classification import Labelled
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.classification.bag_explanation import feature_shares
from seqloom.models.classification.bags import BagReader, Bags, FeatureRows, Learning, Tree, tree_of
from seqloom.models.classification.configs import FastTextClassifierConfig
from seqloom.models.classification.explanation import (
    BY_WORDS,
    Explanation,
    chosen_method,
    explain_by_features,
    explain_by_words,
)
from seqloom.models.classification.tuning import Tuning
from seqloom.text.coding import from_spelling
from seqloom.text.tokenizer import Tokenizer

CENTROIDS = 256
CODES = "codes", "centroids", "norm_codes", "norms"
_SAMPLE = 1 << 14  # rows that the centroids are learnt from
_ITERATIONS = 15
_ROWS = 1 << 16  # rows that are coded together


@dataclass(frozen=True)
class Codes:
    """Rows after product quantisation (Joulin et al. 2016, "FastText.zip", section 3).

    A row is its norm times a direction. The direction is divided into pairs of dimensions, and each
    pair is coded in 8 bits as the nearest of 256 centroids, found by k-means for this pair; norms
    have 256 centroids as well. So a row of D numbers takes D / 2 + 1 bytes instead of 4 D. Row r is
    norms[norm_codes[r]] times the concatenated centroids of its codes.
    """

    codes: np.ndarray  # uint8 (R, S)
    centroids: np.ndarray  # float32 (S, 256, 2)
    norm_codes: np.ndarray  # uint8 (R,)
    norms: np.ndarray  # float32 (256,)

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, row_indices: np.ndarray) -> np.ndarray:
        """Decode these rows, float32 (n, 2 S)."""
        pairs = self.centroids[np.arange(self.codes.shape[1]), self.codes[row_indices]]  # (n, S, 2)
        return (
            pairs.reshape(len(row_indices), -1) * self.norms[self.norm_codes[row_indices]][:, None]
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in CODES}


def code_specs(rows: int, dimensions: int) -> dict[str, Spec]:
    """Return types and shapes of the arrays of saved codes."""
    n_pairs = -(-dimensions // 2)
    return {
        "codes": Spec("uint8", (rows, n_pairs)),
        "centroids": Spec("float32", (n_pairs, CENTROIDS, 2)),
        "norm_codes": Spec("uint8", (rows,)),
        "norms": Spec("float32", (CENTROIDS,)),
    }


def quantise(matrix: np.ndarray, seed: int = 0) -> Codes:
    """Quantise a matrix (R, D), float32; an odd D gets a dimension of zeros."""
    from seqloom.kernels.parallel import chunk_bounds, parallel_map, parallel_run
    from seqloom.kernels.vector_search import nearest

    n, width = matrix.shape
    n_pairs = -(-width // 2)
    draw = np.random.default_rng(seed)
    sample = np.sort(draw.choice(n, min(n, _SAMPLE), replace=False))
    lengths = np.sqrt(np.einsum("rd,rd->r", matrix, matrix))  # (R,)
    norms = _learn(
        np.stack([lengths[sample], np.zeros_like(lengths[sample])], axis=1),
        np.random.default_rng([seed, n_pairs]),
    )
    sample_directions = _directions(matrix[sample], lengths[sample], n_pairs)
    codes, norm_codes = np.empty((n, n_pairs), np.uint8), np.empty(n, np.uint8)

    def centroids_of(pair: int) -> np.ndarray:
        return _learn(
            np.ascontiguousarray(sample_directions[:, pair]), np.random.default_rng([seed, pair])
        )

    with progress.task("quantising", n_pairs + n, "rows") as bar:
        by_pair = []
        for pair_centroids in parallel_map(centroids_of, range(n_pairs)):
            by_pair.append(pair_centroids)
            bar.advance()
        centroids = np.stack(by_pair)  # (S, 256, 2)

        def code(bounds: tuple[int, int]) -> None:
            low, high = bounds
            points = _directions(matrix[low:high], lengths[low:high], n_pairs)
            column = np.empty(high - low, np.uint8)
            for pair in range(n_pairs):
                nearest(np.ascontiguousarray(points[:, pair]), centroids[pair], column)
                codes[low:high, pair] = column
            nearest(
                np.stack([lengths[low:high], np.zeros(high - low, np.float32)], axis=1),
                norms,
                column,
            )
            norm_codes[low:high] = column
            bar.advance(high - low)

        parallel_run(code, chunk_bounds(n, _ROWS))
    return Codes(codes, centroids, norm_codes, np.ascontiguousarray(norms[:, 0]))


def _directions(rows: np.ndarray, lengths: np.ndarray, n_pairs: int) -> np.ndarray:
    """Return rows of length 1 as pairs of dimensions, (n, S, 2)."""
    directions = np.zeros((len(rows), 2 * n_pairs), np.float32)
    np.divide(
        rows, lengths[:, None], out=directions[:, : rows.shape[1]], where=lengths[:, None] > 0
    )
    return directions.reshape(len(rows), n_pairs, 2)


def _learn(points: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Learn 256 centroids of points (n, 2)."""
    from seqloom.kernels.vector_search import improve, nearest

    centroids = points[draw.choice(len(points), CENTROIDS, replace=len(points) < CENTROIDS)].copy()
    codes = np.empty(len(points), np.uint8)
    for _ in range(_ITERATIONS):
        nearest(points, centroids, codes)
        improve(points, codes, centroids)
    return centroids


# ---- fasttext classifier


class FastTextClassifier(Classifier):
    name = "fasttext-classifier"
    public_names = "explain quantised"
    config_class = FastTextClassifierConfig
    features: FeatureRows
    input: np.ndarray | Codes  # (R, D) of the features
    output: np.ndarray  # float32 (C, D), or (C - 1, D) of the nodes of a tree
    counts: np.ndarray  # int64 (C,): texts of each class
    _reader: BagReader
    _tree: Tree

    # ---- fitting

    def fit_examples(self, data: Labelled, options: FitOptions) -> None:
        self._check_ngrams()
        if self.config.tune:
            if options.valid is None:
                raise ConfigError(
                    "tune needs held-out texts to judge settings by; give valid=...", ("tune",)
                )
            tuning = Tuning(self, data, options.valid)
            self._take(tuning.run())
            self.fit_info["tuning"] = tuning.summary()
        else:
            self.learn(data, options.run)
        if self.config.quantise:
            self._quantise()

    def _check_ngrams(self) -> None:
        """Refuse options of n-grams if there are none, unless tune may add some."""
        c, defaults = self.config, FastTextClassifierConfig()
        if c.tune or c.max_ngram:
            return
        if c.min_ngram != defaults.min_ngram:
            raise ConfigError(
                "min_ngram has no effect without max_ngram; give max_ngram as well, or leave min_ngram out"
            )
        if c.buckets != defaults.buckets and c.ngrams == 1:
            raise ConfigError(
                "buckets has no effect on words alone; give ngrams or max_ngram as well, or leave "
                "buckets out",
                ("buckets", "ngrams"),
            )

    def learn(self, data: Labelled, run: Path | None = None, deadline: float = math.inf) -> bool:
        """Learn with these settings; return whether training was completed (see `Learning.run`)."""
        c = self.config
        tokenizer = self._make_tokenizer(Corpus.from_texts(data.texts))
        vectors = None if c.pretrained is None else self._pretrained(c.pretrained)
        if vectors is not None:
            tokenizer = tokenizer.extended([vectors.words.spelling(i) for i in range(len(vectors))])
        self.tokenizer, self._reader = tokenizer, BagReader(c, tokenizer)
        pretrained = None if vectors is None else _tokens_with_vector(tokenizer, vectors)
        self.features, bags = self._reader.learn(
            data.texts, None if pretrained is None else pretrained[0]
        )
        if not (self._reader.ids >= 0).any():
            raise DataError(f"no word occurs {c.min_count} times or more; lower min_count")
        class_index = {name: i for i, name in enumerate(self.classes)}
        labels = np.fromiter(map(class_index.__getitem__, data.labels), np.int32, len(data))
        learning = Learning(c, bags, len(self.features), labels, len(class_index))
        if vectors is not None and pretrained is not None:
            rows = np.searchsorted(self.features.numbers, pretrained[0])
            learning.X[rows, : c.dimensions] = vectors.matrix[pretrained[1]]
        facts = {"model": self.name, "config": c.to_dict(), "data": self.fit_info["data_hash"]}
        losses, completed = learning.run(run, facts, deadline)
        self.input, self.output = learning.matrices()
        self.counts, self._tree = np.bincount(labels, minlength=len(class_index)), learning.tree
        self.fit_info |= {
            "features": len(self.features),
            "epochs": learning.epochs,
            "losses": losses,
        }
        return completed

    def _pretrained(self, path: str) -> Any:
        vectors = registry.open_vectors(path).vectors
        if vectors.dimensions != self.config.dimensions:
            raise ConfigError(
                f"{path} has vectors of {vectors.dimensions} dimensions, the model {self.config.dimensions}; "
                f"give dimensions {vectors.dimensions}"
            )
        return vectors

    def _take(self, other: Self) -> None:
        """Take over the state of another model of this kind."""
        self.config, self.tokenizer, self.learnt, self.fitted = (
            other.config,
            other.tokenizer,
            other.learnt,
            other.fitted,
        )
        self.fit_info = dict(other.fit_info)
        progress.resume(other.log)
        self.features, self.input, self.output, self.counts = (
            other.features,
            other.input,
            other.output,
            other.counts,
        )
        self._reader, self._tree = other._reader, other._tree

    # ---- smaller

    def quantised(self, cutoff: int | None = None) -> Self:
        """Return this model with vectors in 8-bit codes; `cutoff`: keep only this many features, those
        with the longest vectors.
        """
        self.check_fitted()
        model = type(self)(replace(self.config, quantise=True, cutoff=cutoff))
        config = model.config
        model._take(self)
        model.config = config
        if self.config.quantise:
            raise ConfigError(
                "this model is quantised already; quantise the one that it was made from"
            )
        model._quantise()
        return model

    def _quantise(self) -> None:
        assert isinstance(self.input, np.ndarray)
        matrix, cutoff = self.input, self.config.cutoff
        if cutoff is not None and cutoff < len(matrix):
            lengths = np.einsum("rd,rd->r", matrix, matrix)
            # The end of the text always stays: it is the only feature of an empty text.
            lengths[self.features.numbers == self.tokenizer.eos_id] = np.inf
            rows = np.sort(np.argsort(-lengths, kind="stable")[:cutoff])
            self.features, matrix = (
                FeatureRows(self.features.numbers[rows], self._reader.max_features),
                matrix[rows],
            )
        self.input = quantise(matrix, self.config.seed)
        self.fit_info["features"] = len(self.features)

    # ---- answers

    def class_log_probs(self, texts: list[str]) -> np.ndarray:
        self.check_fitted()
        batches = list(self._reader.scored(texts, self.features, self._scores))
        unknown = np.flatnonzero(np.concatenate([wordless for _, wordless in batches])).tolist()
        so = "only the end of the text counts there"
        progress.remark(unknown, len(texts), "texts", "no known word", so)
        scores = np.concatenate(
            [batch_scores for batch_scores, _ in batches]
        )  # (n, C) or (n, C - 1)
        if self.config.loss == "hs":
            from seqloom.kernels.bag_classifier import tree_log_probs

            out = np.empty((len(texts), len(self.classes)))
            tree_log_probs(scores, *self._tree, out)
            return out
        above = scores - scores.max(axis=1, keepdims=True)
        return above - np.log(np.exp(above).sum(axis=1, keepdims=True))

    @property
    def explanations(self) -> tuple[str, ...]:
        """Return the methods by which it explains its answers, the best first."""
        return BY_WORDS[1:] if self.config.loss == "hs" else BY_WORDS

    def explain(
        self,
        text: str,
        n: int = 10,
        *,
        label: Any = None,
        against: Any = None,
        method: str | None = None,
    ) -> Explanation:
        """Return the features that decided for a class (the likeliest) against another, in nats;
        `method`: weights, or occlusion, which a model with a tree of classes has alone.
        """
        self.check_fitted()
        if chosen_method(self, method, self.explanations) == "occlusion":
            return explain_by_words(self, text, (n, label, against))
        times, added = feature_shares(self._reader, self.features, text, self._rows, self.output)
        nothing = np.zeros(len(self.classes))
        return explain_by_features(self, text, times, added, nothing, nothing, (n, label, against))

    def _rows(self, rows: np.ndarray) -> np.ndarray:
        codes = self.input
        return (
            codes.rows(rows)[:, : self.output.shape[1]] if isinstance(codes, Codes) else codes[rows]
        )

    def _scores(self, bags: Bags) -> np.ndarray:
        """Compute the scores Y h, float64 (n, C); those of the nodes where there is a tree."""
        from seqloom.kernels.bag_classifier import score, score_codes

        out, codes = np.empty((len(bags), len(self.output))), self.input
        if isinstance(codes, Codes):
            width = 2 * codes.codes.shape[1]
            wide = (
                self.output
                if self.output.shape[1] == width
                else np.pad(self.output, ((0, 0), (0, 1)))
            )
            score_codes(
                bags.rows,
                bags.row_offsets,
                codes.codes,
                codes.centroids,
                codes.norm_codes,
                codes.norms,
                wide,
                out,
            )
        else:
            score(bags.rows, bags.row_offsets, codes, self.output, out)
        return out

    @property
    def parameters(self) -> int:
        return len(self.features) * self.config.dimensions + self.output.size if self.fitted else 0

    def label(self) -> str:
        c = self.config
        parts = [
            "fasttext-classifier",
            f"{c.ngrams}grams" if c.ngrams > 1 else "",
            f"chars{c.max_ngram}" * (c.max_ngram > 0),
            "hs" * (c.loss == "hs"),
            f"d{c.dimensions}",
            "quantised" * c.quantise,
        ]
        return "-".join(filter(None, parts))

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        rows = self.input.arrays() if isinstance(self.input, Codes) else {"input": self.input}
        return {
            "features": self.features.numbers,
            "output": self.output,
            "counts": self.counts,
            **rows,
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        c, classes, rows = self.config, len(self.classes), length("features")
        self._reader = BagReader(c, self.tokenizer)
        outputs = max(classes - 1, 1) if c.loss == "hs" else classes
        return {
            "features": Spec("uint32", (rows,), high=self._reader.max_features - 1),
            "counts": Spec("int64", (classes,), 0, 2**53),
            "output": Spec("float32", (outputs, c.dimensions)),
            **(
                code_specs(rows, c.dimensions)
                if c.quantise
                else {"input": Spec("float32", (rows, c.dimensions))}
            ),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        numbers, self.output, self.counts = arrays["features"], arrays["output"], arrays["counts"]
        if not len(numbers) or not (numbers[1:] > numbers[:-1]).all():
            raise ModelError("its feature ids do not increase: the file is damaged")
        self.features = FeatureRows(numbers, self._reader.max_features)
        self.input = (
            Codes(**{name: arrays[name] for name in CODES})
            if self.config.quantise
            else arrays["input"]
        )
        self._tree = tree_of(self.config, self.counts)


def _tokens_with_vector(tokenizer: Tokenizer, vectors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens that have a pretrained vector, and the indices of the vectors."""
    indices = vectors.words.find(
        [from_spelling(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)]
    )
    tokens = np.flatnonzero(indices >= 0)
    return tokens.astype(np.uint32), indices[tokens]
