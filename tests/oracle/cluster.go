package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is what `.Cluster` and `.LocalCluster` are: the contract's fields under the names that Go's templates see.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec,omitempty"`
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is a Cluster's spec.
type ClusterSpec struct {
	ClusterID              types.UID               `json:"clusterID"`
	AuthInfo               AuthInfo                `json:"authInfo,omitempty"`
	KubernetesAPIEndpoints []KubernetesAPIEndpoint `json:"kubernetesApiEndpoints,omitempty"`
}

// AuthInfo says where the kubeconfig is.
type AuthInfo struct {
	SecretRef NamespacedName `json:"secretRef,omitempty"`
}

// NamespacedName names a Secret.
type NamespacedName struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// KubernetesAPIEndpoint is one address of a cluster's API server.
type KubernetesAPIEndpoint struct {
	ClientNetwork string `json:"clientNetwork,omitempty"`
	ServerAddress string `json:"serverAddress,omitempty"`
	CABundle      []byte `json:"caBundle,omitempty"`
}

// The two string types of a status: they print as strings and compare as such.
type (
	ClusterState string
	ClusterType  string
)

// ClusterStatus is a Cluster's status, with the metadata promoted.
type ClusterStatus struct {
	State   ClusterState `json:"state,omitempty"`
	Message string       `json:"message,omitempty"`
	Type    ClusterType  `json:"type,omitempty"`
	Leader  bool         `json:"leader,omitempty"`

	ClusterMetadata `json:",inline"`

	Conditions []ClusterCondition `json:"conditions,omitempty"`
}

// ClusterMetadata is what the cluster was found to be.
type ClusterMetadata struct {
	Provider          string    `json:"provider,omitempty"`
	Distribution      string    `json:"distribution,omitempty"`
	KubeProxyVersions []string  `json:"kubeProxyVersions,omitempty"`
	KubeletVersions   []string  `json:"kubeletVersions,omitempty"`
	Version           string    `json:"version,omitempty"`
	Locality          *Locality `json:"locality,omitempty"`
}

// Locality is where the cluster is.
type Locality struct {
	Region  string   `json:"region,omitempty"`
	Regions []string `json:"regions,omitempty"`
	Zones   []string `json:"zones,omitempty"`
}

// ConditionType names a condition.
type ConditionType string

// ClusterCondition is one condition.
type ClusterCondition struct {
	Type               ConditionType          `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
	LastHeartbeatTime  metav1.Time            `json:"lastHeartbeatTime,omitempty"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
}
