"""Send mirrored live requests to two releases at once, and compare their responses (`modelctl compare`)."""
