"""Who owns which field, by Kubernetes' rules for server-side apply."""

from __future__ import annotations

from typing import Any

import pytest

from app.joint_inference.errors import FieldConflict
from app.joint_inference.model.field_ownership import APPLY, BEFORE, Manager, fields_of, merge_apply, record_update

ALICE, BOB = Manager("alice", APPLY), Manager("bob", APPLY)
EDITOR = Manager("editor")


def of(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", **({"labels": labels} if labels else {})}, "spec": spec}


def owners(managed: list[Any]) -> dict[str, set[str]]:
    def leaves(tree: dict[str, Any], path: str) -> set[str]:
        return set().union(*(leaves(inner, f"{path}.{key[2:]}") for key, inner in tree.items())) if tree else {path[1:]}

    return {one["manager"]: leaves(one["fieldsV1"], "") for one in managed}


def test_who_makes_it_owns_all_of_it_and_a_list_is_one_field() -> None:
    managed = record_update((), None, of({"a/b.c": "1"}, edge={"name": "x", "list": [1, 2]}), ALICE, "t1")
    assert owners(managed) == {"alice": {"metadata.labels.a/b.c", "spec.edge.name", "spec.edge.list"}}
    (one,) = managed
    assert (one["operation"], one["fieldsType"], one["time"]) == ("Apply", "FieldsV1", "t1")
    assert one["fieldsV1"]["f:metadata"] == {"f:labels": {"f:a/b.c": {}}}


def test_another_managers_field_is_a_conflict_unless_it_has_that_value_or_is_forced() -> None:
    live = of(name="x", node="edge0")
    managed = record_update((), None, live, ALICE, "t1")
    with pytest.raises(FieldConflict, match=r'1 conflict: conflict with "alice": \.spec\.name') as caught:
        merge_apply(managed, live, of(name="y"), BOB, "t2", force=False)
    assert caught.value.detail["conflicts"] == [{"manager": "alice", "field": ".spec.name"}]
    same, shared = merge_apply(managed, live, of(name="x"), BOB, "t2", force=False)
    assert same["spec"] == live["spec"]
    assert owners(shared) == {"alice": {"spec.name", "spec.node"}, "bob": {"spec.name"}}
    forced, taken = merge_apply(managed, live, of(name="y"), BOB, "t2", force=True)
    assert forced["spec"] == {"name": "y", "node": "edge0"}
    assert owners(taken) == {"alice": {"spec.node"}, "bob": {"spec.name"}}


def test_a_field_that_its_only_owner_names_no_more_goes() -> None:
    first, managed = merge_apply((), of(), of({"team": "a", "both": "1"}, name="x"), ALICE, "t1", force=False)
    shared, managed = merge_apply(managed, first, of({"both": "1"}), BOB, "t2", force=False)
    left, managed = merge_apply(managed, shared, of(name="x"), ALICE, "t3", force=False)
    assert left["metadata"]["labels"] == {"both": "1"}, "bob still wants it"
    assert owners(managed) == {"alice": {"spec.name"}, "bob": {"metadata.labels.both"}}
    gone, managed = merge_apply(managed, left, of(), BOB, "t4", force=False)
    assert "labels" not in gone["metadata"]
    assert owners(managed) == {"alice": {"spec.name"}}


def test_who_changes_a_field_by_another_way_owns_it_and_is_in_the_way_of_the_next_apply() -> None:
    live = of(name="x", node="edge0")
    managed = record_update((), None, live, ALICE, "t1")
    changed = of(name="y")
    managed = record_update(managed, live, changed, EDITOR, "t2")
    assert owners(managed) == {"editor": {"spec.name"}}, "and what was taken out is nobody's"
    with pytest.raises(FieldConflict, match="editor"):
        merge_apply(managed, changed, live, ALICE, "t3", force=False)


def test_the_same_again_changes_no_time() -> None:
    live = of(name="x")
    managed = record_update((), None, live, ALICE, "t1")
    assert merge_apply(managed, live, of(name="x"), ALICE, "t2", force=False) == (live, managed)
    assert record_update(managed, live, live, EDITOR, "t3") == managed


def test_what_is_older_than_owners_is_that_of_who_was_there_before() -> None:
    live = of(name="x")
    with pytest.raises(FieldConflict, match=BEFORE):
        merge_apply((), live, of(name="y"), BOB, "t2", force=False)
    assert owners(merge_apply((), live, of(name="x"), BOB, "t2", force=False)[1]) == {
        BEFORE: {"spec.name"},
        "bob": {"spec.name"},
    }


@pytest.mark.parametrize("resource", [{}, {"metadata": None, "spec": None}, {"metadata": [], "spec": 7}])
def test_fields_of_what_is_no_service_are_found_without_an_error(resource: dict[str, Any]) -> None:
    assert set(fields_of(resource)) <= {("spec",)}
