"""The adapter to pydantic-ai: the only room that imports it, and imported itself only when a model is resolved.

`anthropic` and `openai` each make a `Model`; `model` streams for both; `request` and `reply` translate the two ways,
`replay` says what a provider needs back byte for byte, `errors` and `prices` do what their names say. No type of
pydantic-ai leaves this room.
"""
