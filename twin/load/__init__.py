"""`python3 -m twin load`: a load on the twin's Triton, or on its request queue, and what the autoscaler makes of it.

Requests are those of `loadgen`: independent clients at a rate, sent when they are due. They go where a client in the cluster
would send them, to the ready pods of the Service, which come and go while it lasts.
"""
