"""The server's process: ``python -m fedjigsaw.flower.superlink FOLDER PRIVATE_PORT LISTEN``.

This is Flower's SuperLink behind a :class:`~fedjigsaw.flower.gate.Gate`. It knows the public keys
of all sites before the first of them can connect.
"""

import socket
import sys
from pathlib import Path

import uvicorn

from fedjigsaw.flower import patches
from fedjigsaw.flower.folders import CA, CERTIFICATE, KEY, ServerSettings
from fedjigsaw.flower.gate import Gate
from fedjigsaw.flower.processes import end_with_parent


def main(folder: Path, private_port: int, listen: str) -> None:
    """Serve until the parent process ends or a signal arrives."""
    end_with_parent()
    settings = ServerSettings.load(folder)
    patches.keep_in_process_group()
    app = patches.make_superlink(arguments(folder, private_port))
    state = patches.link_state(app)
    patches.accept_reconnection(state)
    patches.redeliver_unconfirmed(state)
    for name, key in settings.sites.items():
        patches.register_node(state, name, key)
    server = uvicorn.Server(
        uvicorn.Config(
            Gate(app, private_port),
            ssl_certfile=folder / CERTIFICATE,
            ssl_keyfile=folder / KEY,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
    )
    server.run(sockets=[_listen("127.0.0.1", private_port), _listen(listen, settings.port)])


def arguments(folder: Path, private_port: int) -> list[str]:
    """Return the arguments of ``flower-superlink`` for a server's folder."""
    words = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    words += ["--host", "127.0.0.1", "--port", str(private_port)]
    words += ["--ssl-ca-certfile", str(folder / CA)]
    return [*words, "--ssl-certfile", str(folder / CERTIFICATE), "--ssl-keyfile", str(folder / KEY)]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
