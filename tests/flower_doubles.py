"""A grid whose nodes live in this process, and apps that misbehave on purpose."""

from copy import copy
from types import SimpleNamespace

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedjigsaw.flower import jobs
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.engine import FlowerEngine
from fedjigsaw.flower.site import Site
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.journal import Journal
from fedjigsaw.records.policy import Policy

NAMES = ("bern", "lyon", "oslo")
OFF = Guard(min_cluster_size=1)
# a site that answers everything, as often as it is asked
OPEN = Policy(
    methods=("jigsaw", "feca", "kfed", "match", "fuzzy", "lloyd", "dc", "mufc"),
    rounds=1000,
    later_models="any",
)

# Flower's processes set these before they run an app
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


GROUPS = np.array([[25.0, 1.0], [45.0, 3.5], [65.0, 1.5], [80.0, 4.0]])


def patients(n=200, seed=0):
    """Rows of age and dose, in four groups."""
    rng = np.random.default_rng(seed)
    return GROUPS[rng.integers(4, size=n)] + rng.normal(size=(n, 2)) * [2.0, 0.3]


def records_of(home):
    """The journal of a site."""
    return list(Journal(home / "journal.jsonl").records())


def context():
    return Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})


def numbered_question(node):
    """A message as it is under way: with its number."""
    question = Message(RecordDict(), dst_node_id=node, message_type="query.summary")
    question.metadata.__dict__["_message_id"] = question.object_id
    return question


def unchecked(thing, **changes):
    """A copy of a frozen object with other values, which nothing has checked: as a liar has it."""
    changed = copy(thing)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed


def site_app(name, rows, *, order=None, **options):
    """A site's half of the app, open and with its guard off; `order` names the columns."""
    options = {"guard": OFF, "policy": OPEN} | options
    return client_app(lambda context: Site(name, from_array(rows, order), **options))


def grid_of(shards, **replaced):
    """A grid of sites with these rows; some may be replaced by other apps."""
    return LocalGrid({name: site_app(name, rows) for name, rows in shards.items()} | replaced)


def engine_of(grid, method, **options):
    return FlowerEngine(grid, method, **{"names": NAMES, "timeout": 60, "wait": 0.0} | options)


class LocalGrid:
    """Name -> app. An app is called with a message; it may be a ClientApp or any function.

    A function returns the content of its reply, an int for an error of Flower, or None for no
    reply at all. If it raises, so does reading its message.
    """

    def __init__(self, apps, *, late=()):
        self.apps = apps
        self.late = dict.fromkeys(late, 3)  # connect only after some calls
        self.asked = {}
        self.sent = []

    def get_nodes(self):
        nodes = []
        for number, name in enumerate(self.apps, start=1):
            if self.late.get(name, 0) > 0:
                self.late[name] -= 1
            else:
                nodes.append(SimpleNamespace(node_id=number, name=name))
        return nodes

    def push_messages(self, messages):
        names = list(self.apps)
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.asked)}"
            self.asked[message.metadata.message_id] = (
                names[message.metadata.dst_node_id - 1],
                message,
            )
            self.sent.append(message)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, numbers):
        replies = []
        for number in numbers:
            name, message = self.asked[number]
            reply = self.apps[name](message, context())
            if isinstance(reply, int):
                reply = Message(Error(reply, "secret: /home/ada/patients.csv"), reply_to=message)
            elif isinstance(reply, RecordDict):
                reply = Message(reply, reply_to=message)
            if reply is not None:
                replies.append(reply)
        return replies


class Control:
    """The control of a server whose half does `work` with a job's folder, at once.

    `alive` holds the runs that go on: number -> job.
    """

    def __init__(self, home):
        self.home, self.alive = home, {}
        self.work = lambda folder: jobs.write_result(folder, transcript={"rounds": []})

    def start_run(self, app, config):
        self.work(jobs.job_folder(self.home, config["job"]))
        return 7

    def runs_of(self, job):
        return [number for number, name in self.alive.items() if name == job]

    def status(self, run):
        return "running" if run in self.alive else "finished"

    def stop_run(self, run):
        self.alive.pop(run, None)

    def close(self):
        pass
