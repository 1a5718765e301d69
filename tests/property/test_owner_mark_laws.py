"""Laws of the mark by which an object names its owner at a member: it binds all names, and no text of its own does."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.group.ownership import Owner, OwnerMark, Propagation, encode_mark, read_mark

names = st.text(max_size=12)
uids = st.text(min_size=1, max_size=36)
clusters = st.builds(ClusterUID, uids)
targets = st.builds(Target, names, names, names, names)
marks = st.builds(
    OwnerMark,
    st.builds(Owner, clusters, names, names, names, names, uids),
    st.sampled_from(get_args(Propagation)),
    names,
)


@given(mark=marks, of=targets, cluster=clusters)
def test_a_mark_is_read_as_it_was_written(mark: OwnerMark, of: Target, cluster: ClusterUID) -> None:
    text = encode_mark(mark, of=of, cluster=cluster)
    assert read_mark({meta.GROUP_OWNER: text}, of=of, cluster=cluster) == mark


@given(mark=marks, of=targets, cluster=clusters, other=targets, elsewhere=clusters)
def test_a_mark_is_valid_on_its_object_alone(
    mark: OwnerMark, of: Target, cluster: ClusterUID, other: Target, elsewhere: ClusterUID
) -> None:
    text = encode_mark(mark, of=of, cluster=cluster)
    found = read_mark({meta.GROUP_OWNER: text}, of=other, cluster=elsewhere)
    assert (found == mark) is ((other, elsewhere) == (of, cluster))


@given(text=st.text(max_size=300))
def test_any_other_text_is_no_mark(text: str) -> None:
    of = Target("batch", "Job", "default", "x")
    assert read_mark({meta.GROUP_OWNER: text}, of=of, cluster=ClusterUID("here")) is None
