"""Run federated methods over a network with Flower.

Needs ``pip install 'fedjigsaw[flower]'``. The modules by subject::

    founding folders certificates keys members     who takes part: files, keys, certificates
    renewal                                        ... and new certificates for old ones
    checks serving processes logs metrics counts   a server or site as a service
    superlink gate doors                           the server's process and its ports
    supernode warm launcher forking                the site's process; how apps are started
    bundle apps records tasks scaler_values        the app, and what travels
    plain_records                                  ... and what of it is read at all
    engine agreement retries rounds task_rounds    the server's half: ask, ask again, make a model
    progress resuming                              checkpoints of a run, and how another takes one
    site site_tasks                                the site's half: what it computes
    desk task_desk earlier derived                 ... and whether it answers: policy, journal
    jobs job_tasks work status stopping            runs, as `run`, `status` and `stop` see them
    patches answer_patches                         every private name of Flower: at the server,
    node_patches app_patches                       in a site's process, and in apps
"""

from importlib.util import find_spec

from fedjigsaw.errors import ExtraError, requires_extra

if find_spec("flwr") is None:
    raise ExtraError(requires_extra("fedjigsaw.flower", "flwr", "flower"))
