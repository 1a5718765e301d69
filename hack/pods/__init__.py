"""Clusters with real nodes on one machine: kubelet, containerd and runc, each node in namespaces of its own.

needs     the programs that must be there, and the Debian packages that have them
cleanup   control groups and the folder of a run: all that outlives the processes of a run
watcher   a process that removes these as soon as the process of the run has ended
node      namespaces, mounts and network of one node, and of the test process
configs   configuration files of containerd, its network plugins and kubelet
archive   a container image of one static program, for the sandbox of each Pod
counters  memory and CPU time of a control group
cluster   control plane, kubelet, scheduler and containerd of one cluster

`python -m hack.pods` runs `tests/pods`. Not to be confused with the stand-in kubelet of `hack.controlplane`.

Law: a node is a process ID, mount and network namespace below the one of the run. When the run ends, also by SIGKILL,
the kernel ends all processes in it, and with them mounts, interfaces, packet filters and files (a tmpfs). The watcher
removes the control groups. No traffic leaves the namespaces of the run.
"""
