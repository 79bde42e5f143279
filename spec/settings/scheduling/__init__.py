"""What the pods of a stack ask for, and whether its nodes have room for them."""
