"""The server's process: ``python -m fedjigsaw.flower.superlink FOLDER PRIVATE_PORT LISTEN``.

This is Flower's SuperLink behind a :class:`~fedjigsaw.flower.gate.Gate`. It knows the public keys
of all sites before the first of them can connect, and learns of changes while it runs. Requests for
the control of runs must show the secret that is in the environment of this process.
"""

import os
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import uvicorn

from fedjigsaw.flower import answer_patches, patches
from fedjigsaw.flower.doors import PrivateDoor, SiteDoor
from fedjigsaw.flower.folders import (
    CA,
    CERTIFICATE,
    KEY,
    SERVER_LOG,
    TASK_SECRET,
    ServerSettings,
)
from fedjigsaw.flower.gate import MAX_LARGE, Door, Gate, Listener
from fedjigsaw.flower.keys import Keys, logger
from fedjigsaw.flower.logs import told
from fedjigsaw.flower.processes import SECRET, end_with_parent, log_to
from fedjigsaw.flower.renewal import ending

KEYS_SECONDS = 1.0


def main(folder: Path, private_port: int, listen: str, secret: str) -> None:
    """Serve until the parent process ends or a signal arrives."""
    end_with_parent()
    log_to(folder / SERVER_LOG)
    settings = ServerSettings.load(folder)
    for text in ending(folder):
        logger.warning("%s", text, extra=told("certificate_ends_soon"))
    patches.keep_in_process_group()
    answer_patches.accept_own_answers_only()
    app = patches.make_superlink(arguments(folder, private_port), folder / TASK_SECRET, log_restart)
    state = patches.link_state(app)
    patches.allow_slow_starts(state)
    patches.accept_reconnection(state)
    patches.answer_forgotten_questions(state)
    patches.redeliver_unconfirmed(state)
    answer_patches.hold_incomplete_answers(state)
    answer_patches.limit_answers(state, MAX_LARGE)
    answer_patches.take_parts_from_contents(state)
    for name, key in settings.sites.items():
        patches.register_node(state, name, key)
    keys = Keys(folder, settings.sites)
    threading.Thread(target=watch_keys, args=(keys, state), daemon=True).start()
    private, public = _listen("127.0.0.1", private_port), _listen(listen, settings.port)
    is_task = partial(patches.is_task_token, state)
    doors: dict[int, Door] = {
        private_port: PrivateDoor(is_task, secret, private.welcome),
        settings.port: SiteDoor(keys, public.welcome),
    }
    config = uvicorn.Config(
        Gate(app, doors),
        ssl_certfile=folder / CERTIFICATE,
        ssl_keyfile=folder / KEY,
        loop="asyncio",  # a Listener needs it
        access_log=False,
        server_header=False,
        proxy_headers=False,  # where a request comes from is not for its sender to say
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[private, public])


def log_restart() -> None:
    logger.error("the process that starts the apps has ended; it is started again")


def watch_keys(keys: Keys, state: Any) -> None:
    """Look every second which keys are accepted; as long as nobody knows, the old ones are."""
    last = ""
    while True:
        try:
            refresh(keys, state)
            last = ""
        except Exception as error:  # whatever it is, later changes must be noticed
            if str(error) != last:
                last = str(error)
                logger.error("keys are not read: %s", error, extra=told("keys_are_not_read"))
        sleep(KEYS_SECONDS)


def refresh(keys: Keys, state: Any) -> None:
    """Let Flower know the sites that were added, and end the connections of those that left."""
    keys.refresh(
        lambda name, key: patches.register_node(state, name, key.decode()),
        lambda name, key: patches.remove_node(state, key),
    )


def arguments(folder: Path, private_port: int) -> list[str]:
    """Return the arguments of ``flower-superlink`` for a server's folder."""
    words = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    words += ["--host", "127.0.0.1", "--port", str(private_port)]
    words += ["--ssl-ca-certfile", str(folder / CA)]
    return [*words, "--ssl-certfile", str(folder / CERTIFICATE), "--ssl-keyfile", str(folder / KEY)]


def _listen(host: str, port: int) -> Listener:
    listener = Listener(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


if __name__ == "__main__":
    # out of the environment, which the apps inherit
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], os.environ.pop(SECRET))
