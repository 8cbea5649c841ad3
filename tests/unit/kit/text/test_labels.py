"""Labels by the rules of Kubernetes."""

from __future__ import annotations

import pytest

from app.kit.text.labels import BadLabels, labels_in, selects, text_of


def test_labels_are_read_and_written_as_a_line() -> None:
    labels = labels_in(" site=berlin,example.com/floor=2 spare=")
    assert labels == {"site": "berlin", "example.com/floor": "2", "spare": ""}
    assert labels_in(text_of(labels)) == labels and labels_in("") == {}


@pytest.mark.parametrize("text", ["site", "=berlin", "-site=berlin", "site=-", f"site={'a' * 64}", "No Domain/a=b"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(BadLabels):
        labels_in(text)


def test_a_selector_is_all_that_it_names() -> None:
    labels = {"site": "berlin", "floor": "2"}
    assert selects({}, labels) and selects({"site": "berlin"}, labels)
    assert not selects({"site": "berlin", "spare": "yes"}, labels) and not selects({"site": "rome"}, labels)
