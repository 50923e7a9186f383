"""What only one provider and account can read: servers without compaction, other accounts, failures, mixed strategies."""

import json
from pathlib import Path

import pytest

from coppice.app.commands import Ask, ReadableSummaryUsed, find_command
from coppice.app.extensions.hooks import BeforeCompact, Summary
from coppice.compaction.prompts import prompt
from coppice.compaction.remote import NotOffered
from coppice.compaction.strategy import CompactionFailed, OpaqueContext
from coppice.errors import CoppiceError, ProviderError, UsageError
from coppice.format.events import CompactionEnd, CompactionStart
from coppice.format.messages import CompactionSummaryMessage
from coppice.providers.scripted import say
from coppice.tree.pairing import COMPACTION_OPENING, SUMMARY_CLOSING
from tests.app.house import House, leaf
from tests.compaction.remote.stage import (
    BLOB,
    Talk,
    blob,
    going_on,
    openai_at,
    remote,
    returned,
    said,
    talking,
    user_item,
)
from tests.compaction.stage import compactions, file_bytes, kinds, model_with
from tests.fakes.openai_server import Compaction, Message, Response, error_body

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


S1 = Response(content=(Message(("S1 of what was said",)),))

NOT_THERE = [
    Compaction(status=404, error="404 page not found"),
    Compaction(status=400, error=error_body("Unknown parameter: compaction")),
    Response(status=400, error=error_body("Invalid value: 'compaction_trigger'. Supported values are: 'message'")),
]


@pytest.mark.case("C30")
@pytest.mark.parametrize("refusal", NOT_THERE)
async def test_a_server_without_compaction_is_asked_once_and_it_is_told(
    house: House, refusal: Compaction | Response
) -> None:
    forms = ("openai-v2",) if isinstance(refusal, Response) else ("openai-v1",)
    async with talking(house, said("A1"), refusal, forms=forms) as talk:
        await talk.session.prompt("U1")
        before = file_bytes(talk.session)
        for why in ("is not offered at this address", "is not offered by its server"):
            with pytest.raises(NotOffered, match=why):
                await talk.session.compact()
        assert (len(talk.server.requests), file_bytes(talk.session)) == (2, before)


@pytest.mark.case("C30")
async def test_a_model_that_is_not_there_says_nothing_of_compaction(house: House) -> None:
    body = error_body("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found")
    async with talking(house, said("A1"), Response(status=404, error=body), blob()) as talk:
        await talk.session.prompt("U1")
        with pytest.raises(ProviderError, match="does not exist"):
            await talk.session.compact()
        await talk.session.compact()
        assert len(compactions(talk.session)) == 1


@pytest.mark.case("C30")
async def test_the_next_form_is_asked_for_where_the_first_is_not_there(house: House) -> None:
    forms = ("openai-v1", "openai-v2")
    async with talking(house, said("A1"), NOT_THERE[0], blob(), said("A2"), blob(), forms=forms) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        await talk.session.prompt("U2")
        await talk.session.compact()
        paths = [request.path.removeprefix("/v1") for request in talk.server.requests]
        assert paths == ["/responses", "/responses/compact", "/responses", "/responses", "/responses"]
        assert talk.details["form"] == "openai-v2"


@pytest.mark.case("C30")
async def test_inline_is_used_instead_where_that_is_set(house: House) -> None:
    settings = remote(inline_fallback=True)
    async with talking(house, said("A1"), NOT_THERE[0], S1, forms=("openai-v1",), settings=settings) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        assert talk.details["strategy"] == "codex-inline"
        assert any("codex-inline is used instead" in notice for notice in house.notices())
        ends = [event.strategy for event in house.heard if isinstance(event, CompactionEnd)]
        assert ends == ["codex-inline"]


@pytest.mark.case("C30")
async def test_auto_goes_on_with_a_summary_where_the_server_turns_out_to_have_none(house: House) -> None:
    settings = remote(strategy="auto", keep_recent_tokens=100)
    replies = (said("A1"), said("A2"), NOT_THERE[0], S1)
    async with talking(house, *replies, forms=("openai-v1",), settings=settings) as talk:
        await talk.session.prompt("U1")
        await talk.session.prompt("U2")
        await talk.session.compact()
        assert [entry.summary.split()[0] for entry in compactions(talk.session)] == ["S1"]
        assert any("summary is used instead" in notice for notice in house.notices())


@pytest.mark.case("C30", "C32")
async def test_inline_is_never_used_instead_where_only_the_provider_can_read_the_context(house: House) -> None:
    settings = remote(inline_fallback=True)
    replies = (said("A1"), returned(user_item("U1")), said("A2"), NOT_THERE[0])
    async with talking(house, *replies, forms=("openai-v1",), settings=settings) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        await talk.session.prompt("U2")
        before = file_bytes(talk.session)
        with pytest.raises(NotOffered):
            await talk.session.compact()
        assert (len(talk.server.requests), file_bytes(talk.session)) == (4, before)


@pytest.mark.case("C32")
async def test_after_a_failure_the_leaf_is_where_it_was_and_the_blob_is_sent_next_turn(house: House) -> None:
    failed = Response(status=400, error=error_body("the model is not available"))
    async with talking(house, said("A1"), blob(), said("A2"), failed, said("A3", 10)) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        await talk.session.prompt("U2")
        before = leaf(talk.session)
        with pytest.raises(CoppiceError, match="not available"):
            await talk.session.compact()
        assert leaf(talk.session) == before
        await talk.session.prompt("U3")
        assert talk.sent() == ["U1", "C", "U2", "A2", "U3"]
        assert json.dumps(talk.server.bodies[-1]["input"][1]) == json.dumps(BLOB)


# --- another account -----------------------------------------------------------------------------

OTHER_KEY = "sk-another-key-9876543210"


async def condensed(talk: Talk) -> None:
    await talk.session.prompt("U1")
    await talk.session.compact()
    await talk.session.prompt("U2")


REFUSED = r"cannot read this context.*/model.*/compact undo.*/compact readable"


@pytest.mark.case("C31")
async def test_another_account_is_sent_nothing_and_the_user_is_told_the_ways_out(house: House) -> None:
    async with talking(house, said("A1"), blob(), said("A2")) as talk:
        await condensed(talk)
        async with going_on(house, talk, key=OTHER_KEY) as other:
            before = file_bytes(other.session)
            for attempt in (other.session.prompt("U3"), other.session.compact(), other.session.continue_()):
                with pytest.raises(OpaqueContext, match=REFUSED) as caught:
                    await attempt
                assert OTHER_KEY not in str(caught.value)
            with pytest.raises(OpaqueContext):
                other.session.preview_compaction()
            assert (len(talk.server.requests), file_bytes(other.session)) == (3, before)


@pytest.mark.case("C31")
async def test_the_first_way_out_is_back_to_the_account(house: House) -> None:
    async with talking(house, said("A1"), blob(), said("A2"), said("A3", 10)) as talk:
        await condensed(talk)
        async with going_on(house, talk, key=OTHER_KEY) as other:
            with pytest.raises(OpaqueContext):
                await other.session.prompt("U3")
            other.session.set_model(openai_at(talk.server.base_url, "openai-v2"))
            await other.session.prompt("U3")
            assert other.sent() == ["U1", "C", "U2", "A2", "U3"]


@pytest.mark.case("C31")
async def test_the_second_way_out_is_the_messages_before_the_compaction(house: House) -> None:
    async with talking(house, said("A1"), blob(), said("A2"), said("A3", 10)) as talk:
        await condensed(talk)
        async with going_on(house, talk, key=OTHER_KEY) as other:
            other.session.undo_compaction()
            await other.session.prompt("U3")
            assert other.sent() == ["U1", "A1", "U3"]


@pytest.mark.case("C31")
async def test_the_third_way_out_is_the_readable_summary(house: House) -> None:
    async with talking(house, said("A1"), blob(), said("A2"), said("A3", 10)) as talk:
        await condensed(talk)
        async with going_on(house, talk, key=OTHER_KEY) as other:
            before = leaf(other.session)
            used = other.session.use_readable_summary()
            assert used == compactions(other.session)[0].id
            assert other.session.use_readable_summary() is None
            await other.session.prompt("U3")
            assert other.sent() == ["U1", "S", "U2", "A2", "U3"]
            assert "can be read by openai only" in json.dumps(other.server.bodies[-1]["input"])
            assert "gAAAA" not in json.dumps(other.server.bodies[-1]["input"])
            assert before is not None
            await other.session.navigate_tree(before)  # before the edit: as it was
            with pytest.raises(OpaqueContext):
                await other.session.prompt("U4")


@pytest.mark.case("C31")
async def test_another_provider_is_not_sent_the_blob_either(house: House) -> None:
    scripted = model_with(200_000, say("A3"))
    async with talking(house, said("A1"), blob(), said("A2")) as talk:
        await condensed(talk)
        talk.session.set_model(scripted)
        for strategy in (None, "summary", "codex-inline", "auto"):
            with pytest.raises(OpaqueContext):
                await talk.session.compact(strategy=strategy)
        with pytest.raises(OpaqueContext):
            await talk.session.prompt("U3")
        assert scripted.requests == []


# --- mixed strategies ----------------------------------------------------------------------------


@pytest.mark.case("C59")
async def test_inline_then_remote_then_a_summary_of_another_kind(house: House) -> None:
    """The remote request holds the inline summary; what is stored has one blob and no second summary. A summary is
    refused then: its text would lose what only the blob holds. Codex has no such check."""
    replies = (said("A1"), S1, said("A2"), blob(), said("A3"), S1)
    async with talking(house, *replies) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact(strategy="codex-inline")
        await talk.session.prompt("U2")
        await talk.session.compact()
        assert talk.sent() == ["U1", "S", "U2", "A2", "trigger"]
        held = [message for message in talk.session.messages if isinstance(message, CompactionSummaryMessage)]
        assert (held, [list(item) for item in talk.replacement]) == ([], [["entry"], ["entry"], ["item"]])
        await talk.session.prompt("U3")
        before = file_bytes(talk.session)
        with pytest.raises(OpaqueContext, match="codex-remote"):
            await talk.session.compact(strategy="summary")
        assert file_bytes(talk.session) == before


@pytest.mark.case("C59")
async def test_the_endpoint_keeps_an_earlier_summary_marked_as_one(house: House) -> None:
    sent = f"{COMPACTION_OPENING}{prompt('inline_opening')}\n\nS1 of what was said{SUMMARY_CLOSING}"
    answer = returned(user_item("U1"), user_item(sent), user_item("U2"))
    async with talking(house, said("A1"), S1, said("A2"), answer, said("A3", 10), forms=("openai-v1",)) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact(strategy="codex-inline")
        await talk.session.prompt("U2")
        await talk.session.compact()
        roles = [item.get("message", {}).get("role") for item in talk.replacement]
        assert roles == [None, "compactionSummary", None, None]
        await talk.session.prompt("U3")
        assert talk.sent() == ["U1", "S", "U2", "C", "U3"]


@pytest.mark.case("C59")
async def test_the_models_own_provider_can_hand_over_in_words(house: House) -> None:
    """The blob is in the request as in any turn, so the provider reads it; another provider's model is refused."""
    async with talking(house, said("A1"), blob(), said("A2"), S1, said("A3", 10)) as talk:
        await condensed(talk)
        await talk.session.compact(strategy="codex-inline")
        assert talk.sent()[:4] == ["U1", "C", "U2", "A2"]
        await talk.session.prompt("U3")
        assert talk.sent() == ["U1", "U2", "S", "U3"]


@pytest.mark.case("C32", "C59")
async def test_an_automatic_compaction_of_what_only_the_provider_reads_is_the_providers(house: House) -> None:
    """Also under another setting: a summary would lose what is in the blob."""
    settings = remote(20_000, strategy="summary")
    full = Response(content=said("A2").content, input_tokens=18_000)
    second = blob(BLOB | {"id": "cmp_2"})
    async with talking(house, said("A1"), blob(), full, second, said("A3", 10), settings=settings) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact(strategy="codex-remote")
        await talk.session.prompt("U2")
        await talk.session.prompt("U3")
        assert [event.strategy for event in house.heard if isinstance(event, CompactionStart)] == ["codex-remote"] * 2
        assert kinds(talk.session)[-3:] == ["compaction", "user", "assistant"]


async def test_a_hooks_summary_does_not_replace_what_only_the_provider_reads(house: House) -> None:
    async def give(_: BeforeCompact) -> Summary:
        return Summary("S of a hook")

    async with talking(house, said("A1"), blob(), said("A2")) as talk:
        await condensed(talk)
        talk.session.hooks.before_compact.append(give)
        with pytest.raises(CompactionFailed):
            await talk.session.compact()


@pytest.mark.case("C31")
async def test_the_third_way_out_has_a_command(house: House) -> None:
    async with talking(house, said("A1"), blob(), said("A2")) as talk:
        await condensed(talk)
        found = find_command("/compact readable")
        assert found is not None
        command, asked = found
        outcome = await command.run(Ask(talk.session, asked))
        assert outcome == ReadableSummaryUsed(compactions(talk.session)[0].id)
        with pytest.raises(UsageError):
            await command.run(Ask(talk.session, asked))
