"""A test of what each patch of Flower about answers is for: they fail when Flower changes."""

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.superlink.federation import NoOpFederationManager

from fedjigsaw.flower import answer_patches
from flower_doubles import numbered_question


def announced(state, question, *contents):
    """Have a site announce an answer; return the message, its session, and what is wanted of it."""
    record = RecordDict({str(i): ConfigRecord({"x": c}) for i, c in enumerate(contents)})
    answer = Message(record, reply_to=question)
    answer.metadata.__dict__["_message_id"] = answer.object_id
    session = state.start_session(1)
    return answer, session, announce(state, answer, get_object_tree(answer), session)


def announce(state, answer, tree, session):
    return state.store_message_and_object_tree(answer, tree, session)[1]


@pytest.fixture
def limited():
    """Flower's own memory, without its checks of runs, and a question."""
    state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
    question = numbered_question(7)

    def store(answer):
        about = answer.metadata
        state.message_res_store[about.message_id] = answer
        number = about.reply_to_message_id
        state.message_ins_id_to_message_res_id.setdefault(number, about.message_id)
        return about.message_id

    state.store_message_res = store
    answer_patches.limit_answers(state, 1000)
    return state, question


def test_many_small_objects_are_no_way_around_the_size_limit(limited):
    state, question = limited
    answer, session, wanted = announced(state, question, *(c * 400 for c in "abc"))
    parts = get_all_nested_objects(answer)
    assert set(wanted) == set(parts)
    assert not state.store_object(1, "", *next((n, p.deflate()) for n, p in parts.items()))
    stored = []
    for number, part in sorted(parts.items()):  # each of them in a session of its own
        stored.append(state.store_object(1, session, number, part.deflate()))
        session = state.start_session(1)
        announce(state, answer, get_object_tree(answer), session)
    assert stored.count(True) >= 2
    assert False in stored
