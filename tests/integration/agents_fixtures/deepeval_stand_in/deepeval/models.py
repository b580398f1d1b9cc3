from __future__ import annotations


class DeepEvalBaseLLM:
    def __init__(self, model: str) -> None:
        self.name = model


class LocalModel(DeepEvalBaseLLM):
    def __init__(self, model: str, base_url: str, api_key: str) -> None:
        super().__init__(model)
        self.shown = f"{model} at {base_url} with {api_key}"
