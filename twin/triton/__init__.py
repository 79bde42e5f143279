"""The real `tritonserver` as a process of this machine."""
