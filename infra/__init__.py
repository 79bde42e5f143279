"""The Pulumi program: VPC, EKS, GPU nodes, model bucket, identity and Triton, from one typed stack config."""
