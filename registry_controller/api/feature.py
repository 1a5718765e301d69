"""ClusterFeature: a feature of a cluster, and the match of a rule on features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from registry_controller.api import meta
from registry_controller.api.fields import Field
from registry_controller.api.selectors import Selector, read_selector


@dataclass(frozen=True, slots=True)
class Feature:
    """A ClusterFeature object."""

    name: str
    feature_name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FeatureMatch:
    """An entry of `clusterFeatureMatch`; an empty feature name matches every feature with these labels."""

    feature_name: str
    selector: Selector

    def matches(self, features: Iterable[Feature]) -> bool:
        """Return whether this entry matches one of a cluster's features."""
        return any(
            (not self.feature_name or self.feature_name == feature.feature_name)
            and self.selector.matches(feature.labels)
            for feature in features
        )


def read_feature(manifest: meta.Manifest) -> Feature:
    """Parse a ClusterFeature object."""
    field = Field(manifest, "")
    return Feature(
        name=field["metadata"]["name"].text(),
        feature_name=field["spec"]["featureName"].text(),
        labels=field["metadata"]["labels"].text_map(),
    )


def read_feature_match(field: Field) -> FeatureMatch:
    """Parse an entry of `clusterFeatureMatch`."""
    return FeatureMatch(field["featureName"].text(), read_selector(field))
