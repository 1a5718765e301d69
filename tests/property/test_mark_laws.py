"""Laws of marks: they are about the object, and the cluster, that they name, and about nothing else. O11."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.core.decision.marks import Binding, is_at_home, read_marks
from tests.original_marks import last_applied

OWNER = ClusterUID("owner")
CLUSTERS = st.sampled_from([ClusterUID("here"), ClusterUID("there"), ClusterUID("")])
NAMES = st.text("abc-", min_size=1, max_size=4)
TARGETS = st.builds(
    Target,
    st.sampled_from(["", "apps"]),
    st.sampled_from(["ConfigMap", "Deployment", "ReplicaSet"]),
    st.sampled_from(["", "default", "team"]),
    NAMES,
)


def _made(copy: Target, cluster: ClusterUID) -> str:
    kind, key = GVK(copy.group, "v1", copy.kind), ObjectKey(copy.namespace, copy.name)
    return encode(Provenance(OWNER, "rule", OWNER, "Delete", kind, key, "u", "", 1, copy, cluster=cluster))


@given(TARGETS, TARGETS, CLUSTERS, st.booleans())
def test_a_provenance_makes_a_copy_of_the_object_that_it_names_only(
    copy: Target, other: Target, cluster: ClusterUID, has_owner: bool
) -> None:
    """With the owner annotation beside it, or without."""
    owner = {meta.OWNER: OWNER} if has_owner else {}
    marks = read_marks({**owner, meta.PROVENANCE: _made(copy, cluster)}, of=other)
    assert marks.is_copy is (copy == other)
    for where in ("here", "there"):
        is_bound = copy == other and cluster in ("", where)
        assert (marks.is_copy and marks.is_bound_in(ClusterUID(where))) is is_bound
        assert is_at_home(marks, peer=ClusterUID(where), membership=False) is not is_bound


@given(TARGETS, TARGETS, st.sampled_from(["here", "there"]), st.tuples(NAMES, NAMES, st.integers(-1, 3)))
def test_no_replacement_in_the_text_of_a_provenance_makes_a_copy_of_another_object(
    copy: Target, other: Target, cluster: str, replacement: tuple[str, str, int]
) -> None:
    """As sed replaces a name: the first time that it occurs, or everywhere."""
    text = _made(copy, ClusterUID(cluster)).replace(*replacement)
    marks = read_marks({meta.OWNER: OWNER, meta.PROVENANCE: text}, of=other)
    if other != copy:
        assert not (marks.is_copy and marks.is_bound_in(ClusterUID(cluster)))


@given(TARGETS, TARGETS, st.booleans(), st.booleans())
def test_what_the_original_wrote_makes_a_copy_of_the_object_that_it_names_only(
    written: Target, other: Target, has_kind: bool, has_group: bool
) -> None:
    """Of a kind that is missing in it, nothing is known."""
    manifest = {"metadata": {"name": written.name, "namespace": written.namespace}}
    manifest |= {"kind": written.kind} if has_kind else {}  # type: ignore[dict-item]
    manifest |= {"apiVersion": f"{written.group}/v1" if written.group else "v1"} if has_group else {}  # type: ignore[dict-item]
    known = written._replace(
        kind=written.kind if has_kind else other.kind,
        group=written.group if has_group else other.group,
        namespace=written.namespace or other.namespace,
    )
    marks = read_marks({meta.OWNER: OWNER, meta.GO_LAST_APPLIED: last_applied(manifest)}, of=other)
    assert marks.is_copy is (known == other)
    assert marks.binding is (Binding.NAMED if known == other else Binding.PASSED_ON)


@given(st.text(max_size=64), TARGETS)
def test_an_annotation_of_the_original_that_is_garbage_binds_nothing(text: str, of: Target) -> None:
    marks = read_marks({meta.OWNER: OWNER, meta.GO_LAST_APPLIED: text}, of=of)
    assert (marks.owner, marks.binding) == (OWNER, Binding.UNPROVEN)
