"""What a training takes for its data, and what it refuses."""

from itertools import islice
from typing import Any

import chex
import numpy as np
import pytest
from small_models import Told, batch, classifier

from relaxjax.training import fit

DATA = [batch(seed) for seed in range(3)]


def test_data_may_be_a_function_of_the_epoch() -> None:
    asked = []

    def data(epoch: int) -> Any:
        asked.append(epoch)
        return iter(DATA[: epoch + 1])

    reports = classifier().fit(data, 3, reporter=Told())
    assert asked == [0, 1, 2]
    assert [report.steps for report in reports] == [1, 2, 3]
    assert reports[0].accuracy is None


def test_a_part_of_a_batch_may_be_a_mapping_by_name() -> None:
    by_name, in_pairs = classifier(), classifier()
    x, y = batch(0)
    by_name.fit([({"x": x}, y), (x, {"targets": y})], reporter=Told())
    in_pairs.fit([(x, y)] * 2, reporter=Told())
    chex.assert_trees_all_equal(by_name.export_params(), in_pairs.export_params())
    with pytest.raises(ValueError, match="a batch must have `x`, but it has `images`: rename"):
        by_name.fit([({"images": x}, y)], reporter=Told())


def test_batches_may_be_mappings_by_name() -> None:
    """As the rows of many a library's data sets are."""
    plain, other = classifier(), classifier()
    named = [{"targets": labels, "x": x, "id": np.arange(8)} for x, labels in DATA]
    expected = plain.fit(DATA, 1, DATA, Told())
    found = other.fit(named, 1, named, Told())
    assert found[0].loss == expected[0].loss
    assert found[0].metrics == expected[0].metrics


@pytest.mark.parametrize(
    ("batch", "error", "match"),
    [
        ({"x": 0, "label": 1}, ValueError, "must have `targets`, but it has `x`, `label`: rename"),
        (
            (1, 2, 3),
            TypeError,
            r"a pair \(inputs, targets\), or a mapping .* a tuple of 3 was given",
        ),
        (np.zeros(2), TypeError, "but an ndarray was given; relaxjax.datasets.batches cuts"),
        (None, TypeError, "but None was given; relaxjax.datasets.batches cuts"),
        ((np.zeros((8, 4)), None), TypeError, "the targets of a batch are None: give an array, or"),
        ((None, np.zeros(8)), TypeError, "the inputs of a batch are None: give an array, or an em"),
        (
            (np.ma.masked_array(np.zeros((8, 4)), True), np.zeros(8)),
            TypeError,
            "an array of a batch is a masked array, whose mask would be lost",
        ),
    ],
)
def test_other_batches_are_errors(batch: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        classifier().fit([batch], 1, reporter=Told())


@pytest.mark.parametrize("options", [{"steps_per_call": 1}, {"steps_per_call": 2}, {"prefetch": 1}])
def test_what_a_mask_hides_is_not_trained_on(options: Any) -> None:
    x, labels = DATA[0]
    masked = np.ma.masked_array(labels, labels > 0)
    with pytest.raises(TypeError, match="is a masked array"):
        classifier().fit([(x, masked)], reporter=Told(), **options)


@pytest.mark.parametrize("steps_per_call", [1, 2])
def test_what_holds_no_numbers_is_refused_however_many_share_a_call(steps_per_call: int) -> None:
    x, labels = DATA[0]
    data = [(np.array(x, object), labels)] * 2
    with pytest.raises(TypeError, match=r"no numbers of one dtype: .* has dtype object"):
        classifier().fit(data, reporter=Told(), steps_per_call=steps_per_call)


def test_a_loader_of_a_stream_has_no_length_to_tell() -> None:
    class Stream:
        """As torch's DataLoader over an IterableDataset."""

        def __iter__(self) -> Any:
            return iter(DATA)

        def __len__(self) -> int:
            raise TypeError("object of type 'Stream' has no len()")

    told = Told()
    classifier().fit(Stream(), epochs=2, reporter=told)
    assert told.started == [(1, 2, None), (2, 2, 3)]


def test_arrays_by_name_are_no_batches() -> None:
    match = "data is batches, but a mapping of `x`, `targets` was given: relaxjax.datasets.batches"
    with pytest.raises(TypeError, match=match):
        classifier().fit({"x": DATA[0][0], "targets": DATA[0][1]}, reporter=Told())


@pytest.mark.parametrize(
    "data", [(pair for pair in DATA), map(tuple, DATA), iter(DATA), islice(DATA, 2)]
)
def test_data_for_one_epoch_only_is_an_error_before_several(data: Any) -> None:
    match = f"`data` is an? {type(data).__name__}, which is used up after one epoch: give a list"
    with pytest.raises(ValueError, match=match):
        classifier().fit(data, epochs=2, reporter=Told())
    classifier().fit(data, epochs=1, reporter=Told())


class Loader:
    """An iterator over batches; with `begins_anew`, over the same ones in each epoch."""

    def __init__(self, begins_anew: bool) -> None:
        self.begins_anew = begins_anew
        self.rest = iter(DATA)

    def __iter__(self) -> "Loader":
        if self.begins_anew:
            self.rest = iter(DATA)
        return self

    def __next__(self) -> Any:
        return next(self.rest)


def test_a_spent_iterator_is_an_error() -> None:
    """What is written in Python may be a loader that begins anew."""
    classifier().fit(Loader(True), epochs=2, reporter=Told())
    with pytest.raises(ValueError, match=r"epoch 2 had no batches: give `data` as a list"):
        classifier().fit(Loader(False), epochs=2, reporter=Told())


def test_data_that_cannot_be_iterated_over() -> None:
    none: Any = None
    three: Any = 3
    with pytest.raises(TypeError, match="a function from the epoch to that, but None was given"):
        fit(classifier(), none)
    with pytest.raises(TypeError, match="a function from the epoch to that, but it gave None"):
        fit(classifier(), lambda epoch: none)
    with pytest.raises(TypeError, match=r"data is something to iterate over, .* but 3 was given"):
        fit(classifier(), DATA, 1, three, Told())


def test_a_function_that_takes_no_epoch_is_an_error() -> None:
    data: Any = lambda: DATA  # noqa: E731  # what is tested
    match = "takes the number of the epoch, but .* does not: too many .*; write `lambda epoch"
    with pytest.raises(TypeError, match=match):
        classifier().fit(data, reporter=Told())
    with pytest.raises(TypeError, match=match):
        classifier().fit(DATA, 1, data, Told())
