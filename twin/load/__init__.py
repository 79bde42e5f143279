"""`python3 -m twin load`: send a load to the twin's Triton, or its request queue, and show the autoscaler's reaction.

`loadgen` creates the requests: independent clients at a rate, sent when they are due. They go to the ready pods of the
Service, as from a client in the cluster, while pods come and go.
"""
