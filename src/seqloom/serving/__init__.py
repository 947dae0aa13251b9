"""A server of saved models: continuous batching, OpenAI's requests, and one request for each of our verbs."""
