"""OpenAI's own client: sync, async and streams; completions, chat, embeddings and models."""

import asyncio

import numpy as np
import pytest

openai = pytest.importorskip("openai")

TALK = [{"role": "user", "content": "the cat?"}]
OPTIONS = {"max_tokens": 12, "seed": 7, "temperature": 0.9}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.address + "/v1", api_key="any", max_retries=0) as client:
        yield client


def test_models_are_listed(client, server):
    listed = {model.id for model in client.models.list()}
    assert listed == set(server.models)
    assert client.models.retrieve("lstm").owned_by == "seqloom"
    with pytest.raises(openai.NotFoundError, match="no model 'nobody'"):
        client.models.retrieve("nobody")


def test_completions(client, server, name):
    expected = server.models[name].generate("the cat", **OPTIONS)
    found = client.completions.create(model=name, prompt="the cat", **OPTIONS)
    assert found.choices[0].text == expected
    assert found.object == "text_completion"
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    stream = client.completions.create(
        model=name,
        prompt="the cat",
        stream=True,
        stream_options={"include_usage": True},
        **OPTIONS,
    )
    *events, last = list(stream)
    assert "".join(event.choices[0].text for event in events) == expected
    assert [event.choices[0].finish_reason for event in events][-1] in ("stop", "length")
    assert last.choices == []
    assert last.usage == found.usage
    assert all(event.usage is None for event in events)


def test_choices_prompts_and_log_probabilities(client, server, name):
    model = server.models[name]
    found = client.completions.create(
        model=name, prompt=["the", "on"], n=2, logprobs=2, stop=["q", "zz"], **OPTIONS
    )
    texts = [text for prompt in ("the", "on") for text in model.generate([prompt] * 2, **OPTIONS)]
    assert [choice.text for choice in found.choices] == texts
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    for choice in found.choices:
        scores = choice.logprobs
        assert len(scores.tokens) == len(scores.token_logprobs) == len(scores.text_offset)
        assert all(score <= 0 for score in scores.token_logprobs)
        assert all(len(top) <= 2 for top in scores.top_logprobs)


def test_chat(client, server, talker):
    options = {"max_tokens": 15, "seed": 3, "temperature": 1.0}
    expected = server.models[talker].chat(TALK, **options)
    found = client.chat.completions.create(model=talker, messages=TALK, **options)
    assert found.choices[0].message.content == expected
    assert found.choices[0].message.role == "assistant"
    stream = client.chat.completions.create(model=talker, messages=TALK, stream=True, **options)
    assert "".join(event.choices[0].delta.content or "" for event in stream) == expected
    scored = client.chat.completions.create(
        model=talker, messages=TALK, logprobs=True, top_logprobs=3, **options
    )
    content = scored.choices[0].logprobs.content
    assert len(content) == scored.usage.completion_tokens
    assert {len(token.top_logprobs) for token in content} == {3}
    with pytest.raises(openai.BadRequestError, match="/v1/completions"):
        client.chat.completions.create(model="lstm", messages=TALK)


@pytest.mark.parametrize("name", ["sentence-encoder", "word2vec", "lstm"])
def test_embeddings(client, server, name):
    texts = ["the cat", "on the log"]
    expected = np.asarray(server.models[name].transform(texts), np.float32)
    for form in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
        found = client.embeddings.create(model=name, input=texts, **form)
        vectors = [one.embedding for one in found.data]
        if form.get("encoding_format") == "base64":  # asked for by name, it stays so
            assert isinstance(vectors[0], str)
        else:
            assert (np.array(vectors, np.float32) == expected).all()


def test_errors_have_their_classes(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="nobody", prompt="x")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="lstm", prompt="x", temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        client.embeddings.create(model="word2vec", input=[1, 2, 3])


def test_sixteen_at_once_from_one_loop(server, name):
    expected = [
        server.models[name].generate("the cat", max_tokens=9, seed=seed) for seed in range(16)
    ]

    async def ask():
        base = server.address + "/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key="any", max_retries=0) as client:

            async def whole(seed):
                found = await client.completions.create(
                    model=name, prompt="the cat", max_tokens=9, seed=seed
                )
                return found.choices[0].text

            async def streamed(seed):
                stream = await client.completions.create(
                    model=name, prompt="the cat", max_tokens=9, seed=seed, stream=True
                )
                return "".join([event.choices[0].text async for event in stream])

            return (
                await asyncio.gather(*map(whole, range(16))),
                await asyncio.gather(*map(streamed, range(16))),
            )

    assert asyncio.run(ask()) == (expected, expected)


def test_a_stream_that_is_left_ends(client, server):
    stream = client.completions.create(model="lstm", prompt="the", max_tokens=8000, stream=True)
    next(iter(stream))
    stream.close()
    engine = next(s.engine for s in server.catalogue if s.name == "lstm")
    for _ in range(3000):
        if engine.running_rows == 0:
            break
        client.models.list()
    assert engine.running_rows == 0
