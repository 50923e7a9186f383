"""A splice changes one value and leaves every other byte alone."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.format.splice import with_parent, with_value
from tests.session.build import line, user

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(st.text(), json_values, max_size=5)
layouts = st.sampled_from([{"separators": (",", ":")}, {}, {"ensure_ascii": False}, {"separators": (" , ", "\t: ")}])


def written(fields: dict[str, Any], layout: dict[str, Any], tail: bytes) -> bytes:
    return json.dumps(fields, **layout).encode("utf-8", "surrogatepass") + tail


@given(before=objects, value=json_values, after=objects, layout=layouts, tail=st.sampled_from([b"", b"\r", b" \r"]))
def test_a_new_parent_changes_the_bytes_of_the_parent_only(
    before: dict[str, Any], value: Any, after: dict[str, Any], layout: dict[str, Any], tail: bytes
) -> None:
    fields = {k: v for k, v in before.items() if k != "parentId"}
    fields |= {"parentId": value} | {k: v for k, v in after.items() if k not in fields and k != "parentId"}
    old = written(fields, layout, tail)
    new = with_parent(old, "cccccccc")
    assert new == written(fields | {"parentId": "cccccccc"}, layout, tail)
    assert written({"parentId": value}, layout, b"")[1:-1] in old


@given(fields=objects, new=scalars.filter(lambda value: not isinstance(value, float)), layout=layouts)
def test_a_value_deep_inside_is_replaced_in_its_place(fields: dict[str, Any], new: Any, layout: dict[str, Any]) -> None:
    whole = {"a": 1, "deep": [fields, {"x": "old", "y": fields}], "z": 2}
    changed = {"a": 1, "deep": [fields, {"x": new, "y": fields}], "z": 2}
    found = with_value(written(whole, layout, b""), ("deep", 1, "x"), new)
    assert json.loads(found) == json.loads(json.dumps(changed))
    before, after = written(whole, layout, b"").split(b'"old"')[0], written({"y": fields, "z": 2}, layout, b"")
    assert found.startswith(before)
    assert found.endswith(after[-5:])


def test_a_parent_in_pis_order_of_keys_is_found_after_the_data() -> None:
    old = b'{"type":"custom","customType":"x","data":{"parentId":"inner"},"id":"a","parentId":"b","timestamp":"t"}'
    assert with_parent(old, None) == old.replace(b'"parentId":"b"', b'"parentId":null')


def test_of_two_parents_the_one_that_readers_take_is_replaced() -> None:
    old = b'{"id":"a","parentId":"first","parentId":"second"}'
    assert json.loads(with_parent(old, "new"))["parentId"] == "new"


def test_a_missing_parent_is_added_at_the_end() -> None:
    assert with_parent(b'{"type":"x","id":"a"}\r', "b") == b'{"type":"x","id":"a","parentId":"b"}\r'
    assert with_parent(b"{}", "b") == b'{"parentId":"b"}'


def test_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    old = b'{"type":"x","text":"\xff\xfe","id":"a","parentId":"b"}'
    assert with_parent(old, "c") == old.replace(b'"b"', b'"c"')


@pytest.mark.parametrize("cut", [70, 90, 100])
def test_a_torn_line_gets_its_parent_where_its_first_bytes_give_it(cut: int) -> None:
    old = line(user("aaaaaaaa", "bbbbbbbb"))[:cut]
    assert with_parent(old, "cccccccc") == old.replace(b"bbbbbbbb", b"cccccccc")


def test_what_is_no_object_is_given_back() -> None:
    assert with_parent(b"not json", "c") == b"not json"
    with pytest.raises(ValueError):
        with_value(b"[1]", ("a", "b"), 1)
    with pytest.raises(ValueError):
        with_value(b'{"a":{}}', ("a", "b"), 1)
