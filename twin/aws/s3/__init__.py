"""S3 types: the bucket and the resources that configure it."""
