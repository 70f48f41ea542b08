"""Private names of Flower about the answers that sites push: as :mod:`fedjigsaw.flower.patches`."""

from importlib import import_module
from threading import Lock
from time import time
from typing import Any

from fedjigsaw.flower.patches import forget_answer, is_incomplete, wrap

NO_ANSWER = 400  # Flower takes 403 for "this run has ended"


def hold_incomplete_answers(state: Any) -> None:
    """Deliver an answer to the app at the server when all of it has arrived, not when it begins.

    Flower's app waits in between, up to hours, and cannot look at the answers of other sites. The
    rest of an answer whose site is gone never comes: Flower is left to say what has become of it.
    """
    # Upstream: the same, or a deadline for pulling messages.

    def is_gone(question: str) -> bool:
        asked = state.message_ins_store.get(question)
        node = None if asked is None else state.nodes.get(asked.metadata.dst_node_id)
        return node is not None and node.online_until < time()

    def deliver(original: Any, message_ids: set[str], run_id: int) -> Any:
        with state.lock:
            held = {number for number in message_ids if is_incomplete(state, number)}
            gone = set(filter(is_gone, held))
            for number in gone:
                forget_answer(state, number)
            return original(message_ids=message_ids - (held - gone), run_id=run_id)

    wrap(state, "get_message_res", deliver)


def accept_own_answers_only() -> None:
    """Let a site push answers in its own name, and nothing else.

    Flower checks who sends a request, and not what the message in it says: a site could answer for
    another one, ask questions itself, and fill the memory with them.
    """
    # Upstream: the same.
    from fastapi import HTTPException

    handlers: Any = import_module("flwr.superlink.servicer.fleet.fleet_handlers")

    def push(original: Any, request: Any, state: Any) -> Any:
        messages, trees = request.messages_list, request.message_object_trees
        for message in messages:
            about = message.metadata
            own = about.src_node_id == request.node.node_id and about.reply_to_message_id
            if not own or [tree.object_id for tree in trees] != [about.message_id]:
                raise HTTPException(NO_ANSWER)
        return original(request=request, state=state)

    wrap(handlers, "push_messages", push)


def limit_answers(state: Any, most: int) -> None:
    """Accept one answer to each question, of at most this many bytes, in however many objects.

    Flower lets a site announce its answer again, and then push objects that were no part of it.
    """
    # Upstream: the same, as an option.
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

    objects, counting = state.object_store, Lock()
    # both of the messages in the object store, by their numbers
    sizes: dict[str, int] = {}
    told: dict[str, set[str]] = {}  # their parts, as they were announced

    def parts(tree: Any) -> set[str]:
        return {part.object_id for part in iterate_object_tree(tree)}

    def announce(original: Any, message: Any, tree: Any, session: str) -> tuple[bool, list[str]]:
        question, answer = message.metadata.reply_to_message_id, message.metadata.message_id
        with state.lock:
            given = state.message_ins_id_to_message_res_id.get(question)
            known = given or answer in state.message_res_store
            same = given == answer and answer in objects and told.get(answer) == parts(tree)
            if known and not same:  # it may be said again as it was
                return False, []
            found: tuple[bool, list[str]] = original(message, tree, session)
            if answer in objects:
                told[answer] = parts(tree)
        return found

    def store(original: Any, run_id: int, session: str, number: str, content: bytes) -> bool:
        known = state._object_push_sessions.get(session)
        if known is None or not known.root_object_ids:
            return False
        whole = min(known.root_object_ids)  # an answer is alone in its sessions, questions are not
        with counting:
            size = sizes.get(whole, 0) + len(content)
            stored = size <= most and bool(original(run_id, session, number, content))
            if stored:
                sizes[whole] = size
        return stored

    def forget(original: Any, number: str) -> None:
        original(number)
        if number not in objects:
            sizes.pop(number, None)
            told.pop(number, None)

    wrap(objects, "delete", forget)
    wrap(state, "store_message_and_object_tree", announce)
    wrap(state, "store_object", store)


def take_parts_from_contents(state: Any) -> None:
    """Take the parts of an object from its content, whatever was announced.

    Objects of the same content are one object, and Flower believes whoever announces it first. So a
    site could announce one that is in the answers of all sites, with a part that never comes, and
    no answer would be complete.
    """
    # Upstream: the same.
    from flwr.supercore.inflatable.inflatable_object import (
        get_object_children_ids_from_object_content,
        get_object_id,
    )
    from flwr.supercore.inflatable.inflatable_utils import validate_object_content

    objects = state.object_store

    def put(original: Any, object_id: str, object_content: bytes) -> None:
        with objects.lock_store:
            entry = objects.store.get(object_id)
            is_new = entry is not None and not entry.is_available
            if is_new and get_object_id(object_content) == object_id:  # others, Flower refuses
                validate_object_content(content=object_content)
                true = get_object_children_ids_from_object_content(object_content)
                if any(part not in objects for part in true):
                    raise ValueError(f"Object {object_id} has parts that were not announced.")
                for part in true:
                    objects.store[part].ref_count += 1
                for part in entry.child_object_ids:
                    objects.store[part].ref_count -= 1
                entry.child_object_ids = true
            original(object_id, object_content)

    wrap(objects, "put", put)
