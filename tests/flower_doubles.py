"""A grid whose nodes live in this process, and apps that misbehave on purpose."""

from types import SimpleNamespace

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

# what Flower's processes set before they run an app
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def context():
    return Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})


class LocalGrid:
    """Name -> app. An app is called with a message; it may be a ClientApp, or any function.

    What a function returns is the reply's content; an int is an error of Flower's, None is silence,
    and an exception is what reading a broken message raises.
    """

    def __init__(self, apps, *, late=()):
        self.apps = apps
        self.late = dict.fromkeys(late, 3)  # who connects only when asked for some times
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
