"""langchain-openai: completions with a list of prompts and nulls, chat, embeddings."""

import asyncio

import numpy as np
import pytest

langchain = pytest.importorskip("langchain_openai")

OPTIONS = {"max_tokens": 10, "temperature": 0.7, "seed": 5}


@pytest.fixture
def access(server):
    return {"base_url": server.address + "/v1", "api_key": "any", "max_retries": 0}


def test_completions(access, server, name):
    model, llm = server.models[name], langchain.OpenAI(model=name, **OPTIONS, **access)
    prompts = ["the cat", "on the", "the dog"]
    expected = [model.generate(prompt, **OPTIONS) for prompt in prompts]
    assert llm.invoke("the cat") == expected[0]
    assert [choice[0].text for choice in llm.generate(prompts).generations] == expected
    assert "".join(llm.stream("the cat")) == expected[0]
    assert asyncio.run(llm.ainvoke("on the")) == expected[1]


def test_what_it_sends_by_itself_is_taken(access):
    """max_tokens 256, temperature 0.7, and null for the rest."""
    assert isinstance(langchain.OpenAI(model="lstm", **access).invoke("the cat"), str)


def test_chat(access, server, talker):
    llm = langchain.ChatOpenAI(model=talker, **OPTIONS, **access)
    expected = server.models[talker].chat("the cat", **OPTIONS)
    assert llm.invoke("the cat").content == expected
    assert "".join(part.content for part in llm.stream("the cat")) == expected


@pytest.mark.parametrize("name", ["sentence-encoder", "word2vec"])
def test_embeddings(access, server, name):
    embedder = langchain.OpenAIEmbeddings(model=name, check_embedding_ctx_length=False, **access)
    texts = ["the cat", "on the log"]
    expected = np.asarray(server.models[name].transform(texts), np.float32)
    assert (np.array(embedder.embed_documents(texts), np.float32) == expected).all()
    assert (np.array(embedder.embed_query("the cat"), np.float32) == expected[0]).all()
