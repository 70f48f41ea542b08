"""Sites that misbehave on purpose: they speak Flower's protocol, with the real keys of a folder."""

import threading
import time
from contextlib import contextmanager
from functools import partial

from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree as parts_of
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_objects,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.fleet_http_connection import http_request_response
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedjigsaw.flower.folders import SiteSettings
from fedjigsaw.flower.node_patches import Connection


def key_of(folder):
    private = load_ssh_private_key((folder / "site.key").read_bytes(), None)
    return private, private.public_key()


def place_of(folder):
    settings = SiteSettings.load(folder)
    return f"{settings.host}:{settings.port}", False, (folder / "ca.crt").read_bytes()


@contextmanager
def rogue(folder):
    """Connect with the key of a site's folder; stay connected during the block."""
    failures = []
    with http_request_response(*place_of(folder), key_of(folder), max_retries=0) as line:
        try:
            yield Connection(*line)
        except Exception as error:
            failures.append(error)  # Flower's context would swallow it
    for failure in failures:
        raise failure


def die(folder):
    """Connect, and never be heard of again. The server takes it for connected for ten minutes."""
    keys = key_of(folder)
    with FleetHttpClient.from_server_address(
        *place_of(folder), [NodeAuthHttpInterceptor(*keys)]
    ) as client:
        public = public_key_to_bytes(keys[1])
        client.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=300))


def wait_for_question(line, seconds=60):
    """The question to a site, with its content."""
    deadline = time.monotonic() + seconds
    while (found := line.receive()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    message, tree = found
    run = message.metadata.run_id
    # a question is announced before its parts arrive: Flower's function tries until they are there
    parts = [part.object_id for part in parts_of(tree)]
    contents = pull_objects(parts, partial(line.pull_object, run))
    line.confirm_message_received(run, tree.object_id)
    question = inflate_object_from_contents(tree.object_id, contents)
    question.metadata.__dict__["_message_id"] = tree.object_id
    return question


def reply(line, question, content, *, pause=0.0):
    """Answer a question with a record; wait before each object of it."""
    answer = Message(content, reply_to=question)
    answer.metadata.__dict__["_message_id"] = answer.object_id
    answer.metadata.__dict__["_src_node_id"] = question.metadata.dst_node_id
    objects = get_all_nested_objects(answer)
    _, session = line.send(answer, get_object_tree(answer), 0.1)
    for number, part in objects.items():
        time.sleep(pause)
        line.push_object(question.metadata.run_id, session, number, part.deflate())


@contextmanager
def in_background(function, *args):
    """Call a function in a thread while the block runs; what fails in it, fails the test."""
    failures = []

    def call():
        try:
            function(*args)
        except RunNotRunningException:
            pass  # a run that has ended takes no more answers
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    yield
    thread.join(60)
    for failure in failures:
        raise failure
