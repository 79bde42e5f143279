"""Who somebody is: service accounts' tokens, and the AWS roles that are given for them."""
