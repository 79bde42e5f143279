"""Build TensorRT plans from a release with a Job on the GPUs that will run them."""
