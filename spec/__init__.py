"""What a stack is, for everybody who reads or writes one: no Pulumi, no cloud SDK."""
