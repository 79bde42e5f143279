"""The kubelet of the pods that run as processes of this machine."""
