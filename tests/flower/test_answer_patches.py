"""A test of what each patch of Flower about answers is for: they fail when Flower changes."""

from importlib import import_module
from time import time
from types import SimpleNamespace

import pytest
from fastapi import HTTPException
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.superlink.federation import NoOpFederationManager

from fedjigsaw.flower import answer_patches, patches
from flower_doubles import numbered_question


def stored_answer(state, question, *contents):
    """Have a site announce an answer to a question; return its objects."""
    record = RecordDict({str(i): ConfigRecord({"x": c}) for i, c in enumerate(contents)})
    answer = Message(record, reply_to=question)
    answer.metadata.__dict__["_message_id"] = number = answer.object_id
    state.message_res_store[number] = answer
    state.message_ins_id_to_message_res_id[question.metadata.message_id] = number
    session = state.start_session(1)
    state.preregister_object_tree(get_object_tree(answer), session)
    return session, get_all_nested_objects(answer)


def test_an_answer_is_delivered_when_all_of_it_has_arrived():
    state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
    asked = []
    state.get_message_res = lambda message_ids, run_id: asked.append(message_ids)
    answer_patches.hold_incomplete_answers(state)
    question, other = numbered_question(7), numbered_question(8)
    numbers = {one.metadata.message_id for one in (question, other)}
    session, parts = stored_answer(state, question, "content")
    while parts:
        state.get_message_res(message_ids=numbers, run_id=1)
        assert asked.pop() == {other.metadata.message_id}  # for Flower to say that there is none
        number, part = parts.popitem()
        assert state.store_object(1, session, number, part.deflate())
    state.get_message_res(message_ids=numbers, run_id=1)
    assert asked.pop() == numbers


def test_an_answer_whose_site_is_gone_is_not_waited_for():
    """It was killed while it sent the answer; as if it had been killed before."""
    state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
    state._check_stored_messages = lambda numbers, run=None: None  # there is no run
    patches.register_node(state, "bern", "a public key")
    node = state.get_node_id_by_public_key(b"a public key")
    state.activate_node(node, 30.0)
    answer_patches.hold_incomplete_answers(state)
    question = numbered_question(node)
    question.metadata.__dict__.update(_run_id=1, _created_at=time())
    question.metadata.__dict__["_message_id"] = number = question.object_id
    state.message_ins_store[number] = question
    stored_answer(state, question, "content")
    assert state.get_message_res(message_ids={number}, run_id=1) == []
    state.deactivate_node(node)  # as after a minute without a sign
    (error,) = state.get_message_res(message_ids={number}, run_id=1)
    assert error.metadata.reply_to_message_id == number
    assert error.error.code == ErrorCode.NODE_UNAVAILABLE


def request_of(sender, **about):
    """A request of node 7 with a message that says this about itself."""
    told = {"src_node_id": sender, "reply_to_message_id": "question", "message_id": "1"} | about
    message = SimpleNamespace(metadata=SimpleNamespace(**told))
    return SimpleNamespace(
        node=SimpleNamespace(node_id=7),
        messages_list=[message],
        message_object_trees=[SimpleNamespace(object_id="1")],
    )


def test_a_site_pushes_answers_in_its_own_name_alone(monkeypatch):
    """What Flower itself would take is in test_doors_real."""
    handlers = import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    taken = []
    monkeypatch.setattr(handlers, "push_messages", lambda request, state: taken.append(request))
    answer_patches.accept_own_answers_only()
    own = request_of(7)
    handlers.push_messages(request=own, state=None)
    assert taken == [own]
    two = request_of(7)
    two.message_object_trees *= 2
    for other in (
        request_of(8),
        request_of(7, reply_to_message_id=""),
        request_of(1, reply_to_message_id=""),
        request_of(7, message_id="2"),
        two,
    ):
        with pytest.raises(HTTPException) as refusal:
            handlers.push_messages(request=other, state=None)
        assert refusal.value.status_code == 400
    assert taken == [own]


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


def test_an_answer_cannot_grow_after_it_was_announced(limited):
    state, question = limited
    answer, _, wanted = announced(state, question, "a")
    assert wanted
    assert not announced(state, question, "another answer")[2]
    tree = get_object_tree(answer)
    assert set(announce(state, answer, tree, state.start_session(1))) == set(wanted)
    other = get_object_tree(Message(RecordDict({"x": ConfigRecord({"x": "b"})}), reply_to=question))
    tree.children.extend(other.children)
    assert announce(state, answer, tree, state.start_session(1)) == []


def test_an_answer_is_not_announced_again_as_that_to_another_question(limited):
    state, question = limited
    answer, _, wanted = announced(state, question, "a")
    assert wanted
    answer.metadata.__dict__["_reply_to_message_id"] = "another"
    tree = get_object_tree(Message(RecordDict({"x": ConfigRecord({"x": "b"})}), reply_to=question))
    tree.object_id = answer.metadata.message_id
    assert announce(state, answer, tree, state.start_session(1)) == []


def test_nobody_can_announce_a_part_that_never_comes_in_the_answers_of_others(limited):
    """An object that all sites send, announced by a liar with a part of its own."""
    state, question = limited
    answer_patches.take_parts_from_contents(state)
    usual = ConfigRecord({"x": "what all sites send"})
    lie = get_object_tree(Message(RecordDict({"x": usual}), reply_to=numbered_question(8)))
    (record,) = (node for node in nodes_of(lie) if node.object_id == usual.object_id)
    never = record.children.add()
    never.object_id = "0" * 64
    state.object_store.preregister(1, lie)
    answer, _, wanted = announced(state, question, "what all sites send", "own")
    assert usual.object_id in wanted
    session = state.start_session(1)  # as after a lost connection
    assert set(announce(state, answer, get_object_tree(answer), session)) == set(wanted)
    for number, part in get_all_nested_objects(answer).items():
        assert state.store_object(1, session, number, part.deflate())
    tree = state.object_store.get_object_tree(answer.object_id)
    assert {one.object_id for one in nodes_of(tree)} == set(get_all_nested_objects(answer))
    state.object_store.delete_objects_in_run(1)
    assert len(state.object_store) == 0


def test_an_object_without_its_parts_is_not_taken(limited):
    """Otherwise it would be there, and incomplete for ever, when an honest site announces it."""
    state, question = limited
    answer_patches.take_parts_from_contents(state)
    record = RecordDict({"x": ConfigRecord({"x": "what all sites send"})})
    whole = Message(record, reply_to=question)
    lie = get_object_tree(whole)
    (bare,) = (node for node in nodes_of(lie) if node.object_id == record.object_id)
    del bare.children[:]
    state.object_store.preregister(1, lie)
    with pytest.raises(ValueError, match="not announced"):
        state.object_store.put(record.object_id, record.deflate())
    assert not state.object_store.get(record.object_id)


def nodes_of(tree):
    yield tree
    for child in tree.children:
        yield from nodes_of(child)
