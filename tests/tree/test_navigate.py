"""Where going to an entry leads."""

import pytest

from coppice.tree.navigate import Target, navigation_target
from tests.session.build import Fields, assistant, compaction, entry, label, message, result, user
from tests.tree.world import World

IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("target", "leaf", "text"),
    [
        (user("x", "u0", "hello"), "u0", "hello"),
        (user("x", "u0", [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]), "u0", "a\nb"),
        (entry("custom_message", "x", "u0", customType="k", content="said", display=True), "u0", "said"),
        (message("x", "u0", role="custom", customType="k", content="said"), "u0", "said"),
        (assistant("x", "u0"), "x", ""),
        (result("x", "u0", "c"), "x", ""),
        (message("x", "u0", role="bashExecution", command="ls", output=""), "x", ""),
        (compaction("x", "u0", "u0"), "x", ""),
        (entry("branch_summary", "x", "u0", fromId="root", summary="s"), "x", ""),
        (label("x", "u0", "u0", "l"), "x", ""),
        (entry("future", "x", "u0"), "x", ""),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_message_somebody_wrote_comes_back_into_the_editor_and_anything_else_is_gone_to(
    target: Fields, leaf: str, text: str
) -> None:
    world = World([user("u0", None), target])
    assert navigation_target(world.entry(1), world.index.parent_id(1)) == Target(leaf, text)  # type: ignore[arg-type]


def test_going_to_the_first_message_is_going_before_it() -> None:
    world = World([user("u0", None, "first")])
    assert navigation_target(world.entry(0), world.index.parent_id(0)) == Target(None, "first")


def test_a_bridged_message_leads_to_its_parent_in_the_tree() -> None:
    world = World([user("u0", None), user("x", "lost", "text")])
    assert navigation_target(world.entry(1), world.index.parent_id(1)).leaf_id == "u0"
