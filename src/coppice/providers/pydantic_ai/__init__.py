"""The adapter to pydantic-ai: the only room that imports it, and imported itself only when a model is resolved.

`anthropic` and `openai` each make a `Model`; `model` streams for both; `request` and `reply` translate the two ways,
`replay` says what a provider needs back byte for byte, `errors` and `prices` do what their names say. A provider's own
compaction is `compaction` with one file for each provider; `opaque` puts its items back into later requests, and
`exchange` is the HTTP client where both happen. No type of pydantic-ai leaves this room.
"""
