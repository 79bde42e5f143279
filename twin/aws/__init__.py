"""The fake AWS account's provider side: one table of handlers that speak boto3 to moto."""
