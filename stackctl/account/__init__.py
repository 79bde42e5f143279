"""Read an AWS account: whose it is, what in it belongs to a stack, with clients that cannot change anything."""
