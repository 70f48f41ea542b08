"""Python imports this first, in every process of a test's federation: parts that misbehave.

A file, named by FEDJIGSAW_TEST_MODE, says how the site behaves now; a test may change it any time.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

SECRET = "patient 4711 in /home/ada"


def mode():
    return Path(os.environ["FEDJIGSAW_TEST_MODE"]).read_text()


def misbehave():
    from flwr.clientapp import ClientApp
    from flwr.supernode.runtime import run_clientapp

    from fedjigsaw.flower import records, site

    answer, pack, call = site.Site.answer, records.pack_answer, ClientApp.__call__
    pull = run_clientapp.pull_task_input

    def bad_answer(self, question):
        if mode() == "raise":
            raise RuntimeError(SECRET)
        if mode() == "hang":
            time.sleep(600)
        while mode() == "pause":
            time.sleep(0.1)
        if mode() == "die":
            Path(os.environ["FEDJIGSAW_TEST_MODE"]).write_text(f"died {time.time()}")
            os._exit(9)
        return answer(self, question)

    def bad_pack(file):
        record = pack(file)
        if mode() == "garbage":
            record["fedjigsaw"]["body"] = record["fedjigsaw"]["body"][:-1]
        return record

    def bad_call(self, message, context):
        if mode() == "raise outside":
            raise RuntimeError(SECRET)
        return call(self, message, context)

    def bad_pull(client):
        pulled = pull(client)
        if mode() == "mute":
            Path(os.environ["FEDJIGSAW_TEST_MODE"]).write_text("was mute")
            raise RuntimeError(SECRET)  # before there is a question to reply to
        return pulled

    site.Site.answer, records.pack_answer, ClientApp.__call__ = bad_answer, bad_pack, bad_call
    run_clientapp.pull_task_input = bad_pull


def listen():
    """At the server: write down the text of every error that arrives."""
    from flwr.superlink.grid import HttpGrid

    pull = HttpGrid.pull_messages

    def overheard(self, numbers):
        messages = pull(self, numbers)
        for message in messages:
            if message.has_error():
                with Path(os.environ["FEDJIGSAW_TEST_MODE"]).open("a") as file:
                    file.write(f"heard {message.error.code} {message.error.reason!r}\n")
        return messages

    HttpGrid.pull_messages = overheard


def compute_forever():
    """At the server: do not come to an end once all sites have answered."""
    from fedjigsaw.flower import work

    federate = work.federate

    def endless(*args, **options):
        made = federate(*args, **options)
        if mode() == "endless":
            Path(os.environ["FEDJIGSAW_TEST_MODE"]).write_text("computes")
            mutex, lock = ctypes.create_string_buffer(256), ctypes.CDLL(None).pthread_mutex_lock
            while True:  # as compiled code that never returns, whatever the signal
                lock(mutex)
        return made

    work.federate = endless


def dawdle():
    """At a site: take the content of a question only when the file says something else."""
    from flwr.supernode import start_client_internal as loop

    pull = loop.pull_objects

    def slow_pull(*args, **options):
        if mode() == "dawdle":
            Path(os.environ["FEDJIGSAW_TEST_MODE"]).write_text("dawdles")
        while mode() == "dawdles":
            time.sleep(0.1)
        return pull(*args, **options)

    loop.pull_objects = slow_pull


def stop_sending():
    """At a site: announce the answer, and send none of it as long as the file says so."""
    from flwr.supernode import start_client_internal as loop

    push = loop.push_object_contents_from_iterable

    def slow_push(*args, **options):
        if mode() == "send nothing":
            Path(os.environ["FEDJIGSAW_TEST_MODE"]).write_text("sends nothing")
        while mode() == "sends nothing":
            time.sleep(0.1)
        return push(*args, **options)

    loop.push_object_contents_from_iterable = slow_push


words = " ".join(sys.orig_argv[:4])  # the apps are forked from these processes
if "FEDJIGSAW_TEST_MODE" in os.environ and "fedjigsaw.flower.warm" in words:
    misbehave()
if "FEDJIGSAW_TEST_MODE" in os.environ and "fedjigsaw.flower.launcher" in words:
    listen()
    compute_forever()
if "FEDJIGSAW_TEST_MODE" in os.environ and "fedjigsaw.flower.supernode" in words:
    dawdle()
    stop_sending()
