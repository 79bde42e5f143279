"""The local stand-in for AWS and EKS. Nothing in it is deployed; `infra/` never imports it."""
