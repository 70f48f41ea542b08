"""Images that are not trained on, and their loss."""

import numpy as np
import pytest

from fedjigsaw.deep import server
from fedjigsaw.deep.schedule import Schedule
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Broadcast, Model, Summary


def split_rows(n, share, least=1):
    return Schedule(validation_share=share).split_rows(n, least)


@pytest.mark.parametrize("n", [2, 7, 50, 999])
@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 0.99])
def test_every_image_is_on_one_side(n, share):
    trained, held = split_rows(n, share)
    assert min(len(trained), len(held)) >= 1
    assert sorted([*trained, *held]) == list(range(n))


def test_held_out_images_are_spread_over_sorted_classes():
    classes = np.repeat(np.arange(10), 50)
    assert set(classes[split_rows(500, 0.02)[1]]) == set(range(10))


def test_by_default_all_images_are_trained_on():
    trained, held = split_rows(5, 0.0)
    assert (trained.tolist(), held.tolist()) == ([0, 1, 2, 3, 4], [])
    assert Schedule(local_epochs=1, batch_size=2).n_batches([8]) == 4
    assert Schedule(local_epochs=1, batch_size=2, validation_share=0.25).n_batches([8]) == 3


def test_one_image_serves_for_both():
    assert [rows.tolist() for rows in split_rows(1, 0.5)] == [[0], [0]]


@pytest.mark.parametrize("n", [5, 9, 10, 11, 80])
@pytest.mark.parametrize("share", [1e-9, 0.02, 0.5, 0.999999])
def test_no_part_is_smaller_than_the_guards_number(n, share):
    trained, held = split_rows(n, share, 5)
    assert len(trained) >= 5
    assert len(held) >= 5
    assert len(trained) + len(held) in (n, 2 * n)


def test_held_out_images_change_nothing_but_the_validation(small, few):
    """Other pixels in them lead to the same weights and centers, and to another loss."""
    images, clients = few
    changed = images.copy()
    for name in np.unique(clients):
        own = np.flatnonzero(clients == name)
        changed[own[split_rows(len(own), 0.1)[1]]] ^= 255
    found = [
        small(validation_share=0.1, n_rounds=1, batch_norm="recalibrate").fit(x, clients=clients)
        for x in (images, changed)
    ]
    before, after = (f.model_ for f in found)
    np.testing.assert_array_equal(before.centers, after.centers)
    for name, array in before.tensors.items():
        same = np.array_equal(array, after.tensors[name])
        assert same is (name != "report.validation_loss"), name


def test_the_row_has_the_loss_of_the_clients(small, few):
    images, clients = few
    (state,) = small(validation_share=0.1, n_rounds=1).train(images, clients=clients)
    numbers = state.numbers
    assert numbers["validation_loss"] == float(state.model.tensors["report.validation_loss"])
    sizes = state.model.tensors["report.sizes"]
    assert sizes.sum() == 216  # of 240 images
    (plain,) = small(n_rounds=1).train(images, clients=clients)
    assert "validation_loss" not in plain.numbers


def test_a_client_must_send_its_validation_loss(small):
    method = small(2, validation_share=0.1)
    model = Model([[0.0], [1.0]], tensors={"weights.w": np.float32([1.0])})
    tensors = {
        "weights.w": np.float32([1.0]),
        "report.loss": np.array(1.0),
        "report.sizes": np.array([1, 2]),
        "report.mean_projection": np.array([0.5]),
    }
    train = next(i for i, step in enumerate(method.plan()) if step.kind == "train")
    broadcast = Broadcast(train, 0, model)
    for wrong in ({}, {"report.validation_loss": np.array(np.nan)}):
        summary = Summary(3, np.zeros((0, 1)), tensors=tensors | wrong, client="a")
        with pytest.raises(MessageError, match="Client 'a' .*report.* validation_loss"):
            server.check_answer(method, summary, broadcast)
    tensors["report.validation_loss"] = np.array(2.0)
    server.check_answer(method, Summary(3, np.zeros((0, 1)), tensors=tensors), broadcast)


def test_the_server_weights_losses_by_images():
    def sent(n, loss):
        return Summary(n, np.zeros((0, 1)), tensors={
            "report.loss": np.array(loss), "report.validation_loss": np.array(10 * loss),
            "report.sizes": np.array([n]), "report.mean_projection": np.array([1.0]),
        })  # fmt: skip

    found = server.report([sent(1, 1.0), sent(3, 5.0)])
    assert (float(found["report.loss"]), float(found["report.validation_loss"])) == (4.0, 40.0)
