// The modules whose definitions and names this project uses. Only their files are read; nothing is built.

module registry-controller.invalid/tests/oracle/sources

go 1.26.0

require (
	sigs.k8s.io/cluster-api v1.14.2
	sigs.k8s.io/cluster-api/api v1.14.2
	sigs.k8s.io/cluster-inventory-api v0.1.0
	sigs.k8s.io/multicluster-runtime v0.23.3
)
