"""The two halves of a Flower app: :func:`client_app` for a site, :func:`server_app` for the server.

A program of your own is four lines on each side::

    # at a site                                       # at the server
    def load(context):                                app = server_app(
        return Site("bern", from_array(rows))             FeCA(n_clusters=15, random_state=0),
    app = client_app(load)                                output=Path("model"))

The commands ``fedjigsaw federation ...`` need no program at all.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.flower import records, tasks
from fedjigsaw.flower.engine import VERB, FlowerEngine
from fedjigsaw.flower.logs import bind, told
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import AnySite, Site, TimeLimitedSite
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile

logger = logging.getLogger(__name__)


def client_app(
    load: Callable[[Context], AnySite],
    *,
    keep: Callable[[SummaryFile], object] = lambda file: None,
) -> ClientApp:
    """Make the half of the app that runs at a site.

    A failure is reported to the server as one word; what happened goes to the log of the site.

    Parameters
    ----------
    load : returns the site, given Flower's context; called once per question.
    keep : called with each summary before it leaves. If it raises, nothing leaves.

    Returns
    -------
    flwr.clientapp.ClientApp

    Examples
    --------
    >>> from fedjigsaw.flower.apps import client_app
    >>> from fedjigsaw.flower.site import Site
    >>> from fedjigsaw.io.tables import from_array
    >>> site = Site("bern", from_array([[30.0], [60.0]] * 5, ["age"]))
    >>> app = client_app(lambda context: site)
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> RecordDict:
        question = records.unpack_question(message.content)
        what = f"round {question.broadcast.round} of {question.method[:100]}"
        step = {"method": question.method[:100], "round": question.broadcast.round}
        logger.info("received a question: %s", what, extra=told("question", **step))
        file = load(context).answer(question)
        keep(file)
        size = {"centers": len(file.summary.centers), "bytes": file.summary.nbytes}
        text = "%s: sending %d centers, %d bytes"
        logger.info(text, what, *size.values(), extra=told("answer", **step, **size))
        return records.pack_answer(file)

    def do(verb: str, message: Message, context: Context) -> RecordDict:
        logger.info("received a question: %s", verb, extra=told("question", task=verb))
        task = tasks.unpack_task(verb, message.content)
        site = load(context)
        if not isinstance(site, Site | TimeLimitedSite):
            raise ParameterError("This site answers with summaries only.")
        content = tasks.pack_result(site.do(task))
        logger.info("%s: done", verb, extra=told("answer", task=verb))
        return content

    app.query(VERB)(partial(_reply, answer))
    for verb in tasks.VERBS.values():
        app.query(verb)(partial(_reply, partial(do, verb)))
    return app


def _reply(
    answer: Callable[[Message, Context], RecordDict], message: Message, context: Context
) -> Message:
    """Reply to a question; of an error, the server learns one word."""
    bind(run=context.run_config.get("job", ""))
    try:
        content = answer(message, context)
    except Exception as error:
        word = records.category(error)
        category = told("failure", category=word)
        if isinstance(error, records.LateError):  # nothing is broken: where it was tells nothing
            logger.error("failed; the server learns only %r: %s", word, error, extra=category)
        else:
            logger.exception("failed; the server learns only %r", word, extra=category)
        content = records.pack_failure(word)
    return Message(content, reply_to=message)


def server_app(
    method: FederatedMethod,
    output: Path,
    *,
    min_sites: int | None = None,
    **options: Any,
) -> ServerApp:
    """Make the half of the app that runs at the server, where it writes the model to a file.

    Parameters
    ----------
    method : the method, with its parameters and (`random_state`) its seed.
    output : file for the model.
    min_sites : smallest number of sites that must answer in every round; None is all of them.
    options : `names`, `timeout`, `wait` and `tell` of :class:`FlowerEngine`.

    Returns
    -------
    flwr.serverapp.ServerApp

    Examples
    --------
    >>> from pathlib import Path
    >>> from fedjigsaw import Jigsaw
    >>> from fedjigsaw.flower.apps import server_app
    >>> app = server_app(Jigsaw(5, random_state=0), Path("patients.model"), min_sites=3)
    """
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        try:
            engine = FlowerEngine(grid, method, **options)
            formats.save(federate(engine, min_sites=min_sites)[0], output)
        except FedJigsawError as error:
            logger.error("the run failed: %s", error)
            raise

    app.main()(main)
    return app
