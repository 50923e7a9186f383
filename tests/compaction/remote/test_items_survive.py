"""Property: whatever JSON a provider's item holds, it is replayed byte for byte, also after the session was reopened."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.format.messages import JsonValue, OpaqueMessage, UserMessage
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup
from coppice.tree.pairing import Reader
from coppice.tree.replacement import opaque_item
from tests.property import profile

profile.load()

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
HALVES = st.text(st.characters(categories=["Cs"]), max_size=2)
VALUES = st.recursive(
    SCALARS | HALVES, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3)
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_an_item_is_replayed_as_it_came(fields: dict[str, JsonValue]) -> None:
    item = {"type": "compaction", **fields}
    with tempfile.TemporaryDirectory() as place:
        setup = Setup(Path(place))
        session = SessionManager.create(place, setup=setup)
        said = session.append_message(UserMessage("hello"))
        details = {"replacement": [{"entry": said}, opaque_item(item)], "binding": {"provider": "p", "api": "a"}}
        session.append_compaction(CompactionDraft("…", None, 1, details), expect=said)
        path = session.session_file
        session.close()
        assert path is not None
        again = SessionManager.open(path, mode="read", setup=setup)
        sent = again.request_messages(Reader("p", "a", "m"))
        again.close()
    opaque = sent[1]
    assert isinstance(opaque, OpaqueMessage)
    assert json.dumps(opaque.item) == json.dumps(item)
