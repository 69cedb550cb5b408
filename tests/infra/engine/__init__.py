"""The real engine: Pulumi, its Kubernetes provider and a control plane, without a cloud account.

What is real: the Pulumi engine, pulumi-kubernetes, etcd, kube-apiserver, kube-controller-manager
and kube-scheduler, all built from their Go modules. What is played: the nodes (kwok), the Linode
account and its provider, the charts, load balancers, volumes, and the `spin` command.
"""
