"""Names of other libraries, each beside ours: options, attributes, public names and commands.

None of them works here, since an option, a flag and a key of a file are one word. Whoever types one is
told which word it is. A row reads: our name, and what others call it. Where several rows have a name,
the first that the model at hand has is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

# gensim, fastText, scikit-learn, hmmlearn, NLTK, KenLM, statsmodels, transformers, nanoGPT, PyTorch, Keras
OPTIONS = {
    "dimensions": "vector_size size dim embedding_dim embedding_size vector_dim n_components",
    "states": "n_components n_states num_states hidden_states",
    "seed": "random_state random_seed rng manual_seed rand_seed",
    "lr": "learning_rate alpha eta eta0 learning_rate_init",
    "k": "alpha gamma smoothing_k laplace",
    "epochs": "iter n_epochs num_epochs num_train_epochs max_iter n_iter nb_epoch epoch",
    "iterations": "max_iter n_iter",
    "steps": "max_steps max_iters n_steps num_steps num_iterations max_iter n_iter",
    "tolerance": "tol",
    "restarts": "n_init",
    "order": "ngram_order ngram_range n_gram ngram n",
    "ngrams (2 counts single words and pairs)": "ngram_range wordNgrams word_ngrams n_gram ngram",
    "vocab_size": "max_features max_vocab_size max_vocab num_words n_vocab vocabulary_size",
    "vocab_file": "vocab vocabulary",
    "min_count": "min_df min_freq min_frequency minCount mincount unk_cutoff",
    "normalize (such as 'case=lower')": "lowercase lower do_lower_case stop_words strip_accents preprocessor",
    "tokenizer (such as 'word' or 'char')": "analyzer token_pattern",
    "window": "ws window_size context_size lookback lags input_chunk_length context_length",
    "negatives": "negative neg n_negative",
    "architecture ('skip-gram' or 'cbow')": "sg cbow",
    "loss ('ns', 'hs' or 'softmax')": "hs",
    "sample": "subsample t",
    "min_ngram": "min_n minn",
    "max_ngram": "max_n maxn",
    "buckets": "bucket",
    "x_max": "xmax",
    "pretrained": "pretrained_vectors pretrainedVectors embedding_matrix embeddings weights_matrix",
    "tune": "autotune autotuneValidationFile",
    "prior": "class_prior fit_prior",
    "class_weights": "class_weight",
    "encoder (such as 'bilstm')": "rnn_type cell_type bidirectional backbone",
    "d_hidden": "hidden_size hidden_dim hidden_units n_units units n_hidden d_model n_embd",
    "d_model": "n_embd hidden_size hidden_dim embed_dim embedding_dim embedding_size vector_size",
    "d_embed": "embedding_dim embedding_size embed_dim embed_size input_dim vector_size n_embd",
    "d_mlp": "d_ff ffn_dim intermediate_size dim_feedforward n_inner",
    "n_layers": "n_layer num_layers num_hidden_layers nlayers depth",
    "n_heads": "n_head num_heads num_attention_heads nhead",
    "n_kv_heads": "num_key_value_heads",
    "context": "block_size n_ctx n_positions max_position_embeddings max_seq_length max_seq_len",
    "max_length": "max_seq_length max_seq_len maxlen max_len",
    "dropout": "dropout_rate drop_prob p_dropout hidden_dropout_prob resid_pdrop dropout_p",
    "tied": "tie_weights tie_word_embeddings weight_tying tie_embeddings",
    "pooling": "pool pooling_mode",
    "horizon": (
        "h fh steps periods n_steps n_periods prediction_length pred_len forecast_horizon "
        "output_chunk_length"
    ),
    "season": "seasonal_periods m period sp freq seasonality season_length",
    "ar (with differences and ma)": "order p n_lags",
    "differences": "d n_diffs",
    "ma": "q",
    "seasonal": "seasonal_order",
    "trend": "damped_trend damped",
    "ridge": "l2 reg",
    "batch_size": "batch per_device_train_batch_size",
    "optimizer": "optim",
    "schedule": "lr_scheduler lr_scheduler_type scheduler",
    "warmup": "warmup_steps num_warmup_steps warmup_ratio warmup_iters",
    "clip": "grad_clip max_grad_norm clip_grad gradient_clip_val clipnorm",
    "accumulate": "gradient_accumulation_steps accumulate_grad_batches",
    "patience": "early_stopping early_stopping_patience n_iter_no_change",
    "evaluate_every": "eval_steps eval_interval",
    "truncation": "bptt seq_len sequence_length",
    "precision": "fp16 bf16 dtype torch_dtype",
    "device": "device_map use_cuda gpu gpus cuda",
    "max_tokens": "max_new_tokens max_length length n_predict num_predict",
    "min_tokens": "min_new_tokens min_length",
    "temperature": "temp",
    "top_k": "topk",
    "top_p": "topp nucleus",
    "repetition_penalty": "repeat_penalty",
    "beams": "num_beams beam_size beam_width",
    "number": "num_return_sequences best_of",
    "output": "out output_dir save_dir save_to save_path",
}

# Options without a word of ours, and what to do.
NO_OPTION = {
    "the environment variable SEQLOOM_THREADS says how many threads there are": (
        "workers n_jobs thread threads num_workers n_threads num_threads"
    ),
    "progress is shown where somebody looks": (
        "verbose verbosity disable_tqdm progress_bar show_progress"
    ),
    "a model is made of options, and fit(data) takes the data": (
        "sentences corpus_file corpus documents input train_data train_dataset"
    ),
    "generate(prompt, beams=5) has it as an argument": "num_beams beam_size beam_width",
    "give generate a list of prompts: generate([prompt] * 5)": "num_return_sequences best_of",
    "text is drawn, unless temperature=0, which takes the likeliest token each time": "do_sample greedy",
}

# Options that are not needed beside one of ours, and why.
NEEDLESS = {
    "C": (
        "fit always finds the one optimum for C, the inverse weight of an L2 penalty",
        "penalty solver dual l1_ratio multi_class intercept_scaling tol max_iter n_iter random_state",
    )
}

# Attributes and methods of models.
ATTRIBUTES = {
    "nearest(query, k=10)": (
        "most_similar similar_by_word similar_by_vector similar_by_key get_nearest_neighbors kneighbors "
        "most_similar_to_given"
    ),
    "analogy(a, b, c)": "most_similar_cosmul get_analogies",
    "embed(text)": "get_vector get_word_vector get_sentence_vector word_vec infer_vector encode",
    "vectors, with their words and matrix; nearest, similarity and model[word] are the model's own": (
        "wv index_to_key key_to_index index2word get_words kv"
    ),
    "similarity(a, b)": "n_similarity cosine_similarity wmdistance",
    "dimensions": "vector_size get_dimension get_sentence_embedding_dimension",
    "vectors.dimensions": "vector_size get_dimension",
    "to_device(device)": "to cuda cpu mps",
    "quantised(bits)": "half quantize quantise",
    "hidden(text)": "hidden_states forward extract_features last_hidden_state get_embeddings transform",
    "translate(texts)": "predict generate infer",
    "forecast(...)": "predict get_forecast make_future_dataframe generate",
    "fill(text)": "predict unmask fill_mask",
    "generate(prompt)": "sample make_sentence make_short_sentence predict generate_text",
    "predict(examples)": "tag tag_sents decode classify classify_many viterbi predict_classes",
    "predict_proba(examples)": "predict_log_proba decision_function prob_classify",
    "top_features(...)": "feature_log_prob_ feature_count_ show_most_informative_features coef_",
    "score(text)": "logscore log_prob logprob log_score unmasked_score",
    "token_scores(text)": "full_scores token_logprobs",
    "tokenizer": "vocab vocabulary_ vocabulary id2word get_vocab tokenize get_feature_names_out",
    "evaluate(data)": "evaluate_word_pairs evaluate_word_analogies test entropy accuracy eval",
    "history": "get_latest_training_loss loss_curve_ training_loss losses callbacks",
    "classes": "labels get_labels labels_",
    "fit(data)": "train build_vocab fit_generator learn train_new_from_iterator",
    "save(directory)": "save_pretrained save_model to_disk dump push_to_hub save_weights",
    "get_params()": "hparams hyperparameters",
    "parameters": "num_parameters count_params n_params",
    "arrays()": "state_dict get_weights weights coefs_",
}

# Names that are looked for in `seqloom` itself.
PUBLIC = {
    "load": "load_model from_pretrained AutoModel AutoModelForCausalLM pipeline load_pretrained",
    "Tokenizer": "AutoTokenizer Vocabulary",
    "TrainConfig": "TrainingArguments Trainer",
    "read_labelled": "read_csv read_json read_parquet load_dataset",
    "Logistic": "LogisticRegression LinearSVC SGDClassifier TfidfVectorizer LogisticClassifier",
    "NaiveBayes": "MultinomialNB BernoulliNB ComplementNB",
    "NGram": "KneserNeyInterpolated KneserNey Laplace Lidstone WittenBellInterpolated MLE Ngram",
    "HMMTagger": "HiddenMarkovModelTagger TnT",
    "WordVectors": "KeyedVectors",
    "read_vectors": "load_word2vec_format load_facebook_vectors load_facebook_model",
    "SentenceEncoder": "SentenceTransformer",
    "FastTextClassifier": "train_supervised",
    "FastText": "train_unsupervised Fasttext",
    "Glove": "GloVe",
    "Phrases": "Phraser",
    "Arima": "ARIMA SARIMAX AutoARIMA",
    "ExponentialSmoothing": "HoltWinters Holt ETS",
    "Bert": "BERT BertModel BertForMaskedLM AutoModelForMaskedLM",
}

# Words behind `seqloom`.
COMMANDS = {
    "fit MODEL DATA -o OUT": "train learn lmplz build estimate",
    "fit MODEL DATA -o OUT --start SAVED": "finetune fine-tune fine_tune tune continue adapt",
    "fit fasttext-classifier DATA -o OUT": "supervised",
    "fit word2vec DATA -o OUT": "skipgram cbow word2vec",
    "evaluate SAVED DATA": "eval test validate perplexity ppl accuracy test-label",
    "score SAVED TEXT": "query logprob",
    "predict SAVED DATA": "classify tag infer inference predict-prob label annotate run",
    "generate SAVED PROMPT": "sample continue-text complete-text",
    'generate SAVED --chat "..."': "chat",
    "fill SAVED TEXT": "fill-mask unmask",
    "nearest SAVED WORD": "nn neighbours neighbors similar most-similar",
    "analogy SAVED A B C": "analogies",
    "embed SAVED TEXT": "print-word-vectors print-sentence-vectors encode vectors",
    "compare DATA": "benchmark bench leaderboard ladder",
    "convert SOURCE OUT": "export import download pull build_binary",
    "convert SAVED OUT --bits 8": "quantize quantise",
    "plot RUN": "visualize visualise chart draw",
    "inspect": "attention debug",
    "predict SAVED DATA --explain": "explain",
    "info SAVED": "show summary describe-model",
    "models": "list ls",
    "data": "datasets dataset corpus",
    "tokenize": "tokenise learn-bpe apply-bpe spm_train bpe",
    "--help": "help",
    "--version": "version",
}

# Words without a command of ours, and what to do.
NO_COMMAND = {
    "`seqloom serve MODEL` answers requests over HTTP, and in Python `seqloom.serve(model)`": (
        "server api deploy daemon host"
    ),
}

HOW_TO_CONTINUE = {
    "start": "train on with fit(data, start=model), where model is this one or a saved one",
    "language model": "fit it on the old and the new text together, or mix it with a model of the new text: "
    "Mixture.of([model, new]).fit(held_out)",
    "word vectors": "finished vectors do not learn; word2vec, fasttext, charngram and glove models do",
    "masked language model": "its weights are published ones; NeuralClassifier(encoder=directory) or "
    "NeuralTagger(encoder=directory) trains them for a task",
    "sentence vectors": "its weights are published ones, which are not trained here",
    "": "fit it on the old and the new data together",
}


def candidates(name: str, table: Mapping[str, str]) -> list[str]:
    """Return the rows of a table that have this name.

    >>> candidates("vector_size", OPTIONS)
    ['dimensions', 'd_model', 'd_embed']
    """
    return [ours for ours, theirs in table.items() if name in theirs.split()]


def word_of(row: str) -> str:
    """Return our name alone, without the remarks that follow it in a row.

    >>> word_of("nearest(query, k=10)")
    'nearest'
    """
    return re.split(r"\W", row, maxsplit=1)[0]


def ours_of(name: str, table: Mapping[str, str], exists: Callable[[str], bool]) -> str | None:
    """Return the first row whose own name exists here; None if there is none.

    >>> ours_of("n_components", OPTIONS, {"states", "seed"}.__contains__)
    'states'
    """
    rows = candidates(name, table)
    return next((row for row in rows if exists(word_of(row))), None)


def our_option(name: str, known: Iterable[str]) -> str | None:
    """Return the row of what an option of another library is called among the known ones."""
    return ours_of(name, OPTIONS, set(known).__contains__)


def needless(name: str, known: Iterable[str]) -> str | None:
    """Say why an option of another library is not needed beside the known ones.

    >>> needless("solver", ["C"]), needless("solver", ["k"])
    ('fit always finds the one optimum for C, the inverse weight of an L2 penalty', None)
    """
    rows = (NEEDLESS[option] for option in known if option in NEEDLESS)
    return next((why for why, theirs in rows if name in theirs.split()), None)


def answer_flag(flag: str, known: Mapping[str, str]) -> str | None:
    """Say which of the known flags, by the names of their options, a flag of another program is.

    >>> answer_flag("--vector-size", {"dimensions": "--dimensions"})
    'It is --dimensions here.'
    """
    name = flag.lstrip("-").replace("-", "_")
    if (ours := our_option(name, known)) is not None:
        word = word_of(ours)
        return f"It is {known[word]}{ours.removeprefix(word)} here."
    if (why := needless(name, known)) is not None:
        return f"It is not needed: {why}."
    return next((f"Instead: {advice}." for advice in candidates(name, NO_OPTION)), None)


def answer_attribute(name: str, owner: Any) -> str | None:
    """Say what an attribute or a method of another library is called in models of this class, and
    without `partial_fit` how such a model learns from more data.
    """
    if name == "partial_fit":
        key = "start" if "start" in owner.config_class.fit_arguments else owner.task
        return HOW_TO_CONTINUE.get(key, HOW_TO_CONTINUE[""])
    ours = ours_of(name, ATTRIBUTES, lambda attribute: hasattr(owner, attribute))
    return None if ours is None else f"here it is {ours}"


def refuse_attribute(model: Any, name: str) -> NoReturn:
    """Raise AttributeError; for a name of another library it says what it is called here."""
    answer = answer_attribute(name, type(model))
    if answer is None:
        # Once more, for the message of Python or of a property that raised it.
        object.__getattribute__(model, name)
    raise AttributeError(
        f"{type(model).__name__!r} object has no attribute {name!r}; {answer}", name=name, obj=model
    )


def answer_public(name: str) -> str | None:
    """Say what a name of another library is called in `seqloom`."""
    return next((f"here it is seqloom.{ours}" for ours in candidates(name, PUBLIC)), None)


def answer_command(word: str) -> str | None:
    """Say which command does what one of another program does."""
    ours = next(iter(candidates(word.lower(), COMMANDS)), None)
    if ours is not None:
        return f"here it is seqloom {ours}"
    return next(iter(candidates(word.lower(), NO_COMMAND)), None)
