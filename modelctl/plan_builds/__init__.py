"""TensorRT plans, built of a release by a Job on the GPUs that are to run them."""
