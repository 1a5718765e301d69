"""Objects as bytes: what is read of them, and what is refused."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import orjson
import pytest

from registry_controller.api.errors import ProtocolError
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.kube.object import decode_manifest, decode_object

SECRET = GVK("", "v1", "Secret")


def test_metadata_is_read_and_the_rest_kept() -> None:
    info = {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "12",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"l": "1"},
        "annotations": {"a": "ä"},
        "generation": 3,
    }
    raw = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": info, "type": "t", "data": {"x": "eA=="}})
    obj = decode_object(raw.encode(), kind=SECRET)
    assert obj.key == ObjectKey("n", "a")
    assert (obj.uid, obj.revision, obj.created, obj.deleting) == ("u", 12, "2026-01-01T00:00:00Z", True)
    assert (obj.labels, obj.annotations, obj.generation) == ({"l": "1"}, {"a": "ä"}, 3)
    assert obj.kind_type == "t"
    assert obj.raw == raw.encode()


def test_an_item_of_a_list_gets_the_kind_that_it_lacks() -> None:
    obj = decode_object(b'{"metadata":{"name":"a"},"type":{"x":1}}', kind=SECRET)
    found = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": {"x": 1}}
    assert json.loads(obj.raw) == found
    assert obj.kind_type == ""
    assert obj.labels == {}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"metadata":{}}',
        b'{"metadata":{"name":5}}',
        b'{"metadata":{"name":"a/b"}}',
        b'{"metadata":{"name":".."}}',
        b'{"metadata":{"name":"a%2fb"}}',
        b'{"metadata":{"name":"a\\nb"}}',
        b'{"metadata":{"name":"a","namespace":"../x"}}',
        b'{"metadata":{"name":"' + b"a" * 254 + b'"}}',
        b'{"metadata":{"name":"a","labels":{"x":1}}}',
        b'{"metadata":{"name":"a"},"x":"\xff"}',
        b'{"metadata":{"name":"a"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"metadata":{"name":"a"}} {}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',
        b'{"apiVersion":"v2","kind":"Secret","metadata":{"name":"a"}}',
        b'{"kind":"Secret","metadata":{"name":"a"}}',
        b'{"apiVersion":"","kind":"","metadata":{"name":"a"}}',
        b'{"metadata":{"name":"a","namespace":"' + b"n" * 64 + b'"}}',
        '{"metadata":{"name":"é"}}'.replace("é", "é" * 127).encode(),
        b'{"metadata":{"name":"a","uid":"' + b"u" * 65 + b'"}}',
        '{"metadata":{"name":"a","uid":"é"}}'.encode(),
        b'{"metadata":{"name":"a","uid":"a\\nb"}}',
        b'{"metadata":{"name":"a","creationTimestamp":"' + b"2" * 41 + b'"}}',
    ],
)
def test_nonsense_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_object(raw, kind=SECRET)


@pytest.mark.parametrize("raw", [b'{"x":1e999}', b"[]", b"null", b"", b'{"x":' + b"9" * 400 + b"}"])
def test_a_body_that_cannot_be_read_is_the_servers_fault(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_manifest(raw)


@pytest.mark.parametrize("depth", [249, 253, 254, 300, 1000])
def test_what_is_nested_so_deeply_that_it_could_not_be_written_is_refused(depth: int) -> None:
    """A copy of it ended the daemon: it was read, and could not be spelled again. 254 is as deep as orjson spells."""
    raw = b'{"x":' + b"[" * depth + b"]" * depth + b"}"
    if depth <= 253:  # and the mapping around them
        assert orjson.dumps(decode_manifest(raw)) == raw
        return
    with pytest.raises(ProtocolError, match="too many levels"):
        decode_manifest(raw)


def test_many_brackets_side_by_side_are_no_depth() -> None:
    assert len(decode_manifest(b'{"x":[' + b"[]," * 1000 + b"[]]}")["x"]) == 1001


@pytest.mark.parametrize("version", ["abc", "", None, "1" * 30, str(2**63)])
def test_a_version_that_is_no_number_is_zero(version: Any) -> None:
    raw = json.dumps({"metadata": {"name": "a"} | ({"resourceVersion": version} if version is not None else {})})
    assert decode_object(raw.encode()).revision == 0


def _many(*parts: bytes, of: int) -> bytes:
    return b",".join(parts * (of // len(parts)))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"x":[' + _many(b"{}", of=60_000) + b"]}",
        b'{"x":[' + _many(b"[]", of=60_000) + b"]}",
        b'{"x":[' + _many(b"0", of=160_000) + b"]}",
        b'{"x":[' + _many(b'"\\\\"', b'"\\",\\""', of=160_000) + b"]}",
        b'{"x":"' + b"x" * 5 * 1024 * 1024 + b'"}',
    ],
    ids=["mappings", "lists", "numbers", "texts that end in escapes", "size"],
)
def test_what_would_take_more_memory_than_any_object_is_not_decoded(raw: bytes) -> None:
    """P5: 16 MiB of empty mappings cost half a gigabyte."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="too large"):
            decode_manifest(raw)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "manifest",
    [
        {"data": {f"key-{number}": "," for number in range(10_000)}, "f": {f"f:{n}": {} for n in range(10_000)}},
        {"schema": [{"type": "string", "description": "a, b"} for _ in range(15_000)]},
        {"data": {"table": "1,2,3\n" * 250_000}},
        {"data": {"dashboard": json.dumps([{"a": '"'}, {}] * 60_000)}},
    ],
    ids=["keys", "a definition", "a table", "JSON in a text"],
)
def test_what_clusters_hold_is_decoded_however_large(manifest: dict[str, Any]) -> None:
    assert decode_manifest(json.dumps(manifest).encode()) == manifest


@pytest.mark.parametrize("field", ["labels", "annotations", "managedFields"])
def test_metadata_that_would_take_more_memory_than_any_is_not_decoded(field: str) -> None:
    entries = b",".join(b'"%x":""' % number for number in range(160_000))
    with pytest.raises(ProtocolError, match="more metadata than is accepted"):
        decode_object(b'{"metadata":{"name":"a","' + field.encode() + b'":{' + entries + b"}}}")


def test_the_metadata_of_large_objects_is_read() -> None:
    info = {"name": "a", "annotations": {"x": "," * 250_000}, "managedFields": [{f"f:{n}": {} for n in range(10_000)}]}
    raw = json.dumps({"metadata": info, "data": {"x": "," * 1_000_000}}).encode()
    assert decode_object(raw).annotations == info["annotations"]


def test_the_last_version_that_etcd_can_have_is_one() -> None:
    raw = json.dumps({"metadata": {"name": "a", "resourceVersion": str(2**63 - 1)}})
    assert decode_object(raw.encode()).revision == 2**63 - 1


def test_metadata_alone_stands_for_an_object_only_where_it_was_asked_for() -> None:
    raw = json.dumps({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}})
    assert decode_object(raw.encode(), kind=SECRET, metadata_only=True).key == ObjectKey("", "a")
    whole = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
    assert decode_object(whole.encode(), kind=SECRET, metadata_only=True).key == ObjectKey("", "a")
    with pytest.raises(ProtocolError, match="is not of the kind"):
        decode_object(raw.encode(), kind=SECRET)
    with pytest.raises(ProtocolError, match="is not of the kind"):
        decode_object(whole.replace("Secret", "Pod").encode(), kind=SECRET, metadata_only=True)
