"""Table of the resource handlers that send the provider's calls to moto, the fake AWS account."""
