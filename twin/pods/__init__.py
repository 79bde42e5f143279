"""The kubelet for pods that run as processes of this machine."""
