"""Write the file of a new stack with values that match the AWS account."""
