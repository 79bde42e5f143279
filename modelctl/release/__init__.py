"""The life cycle of model releases: publish, verify, pin, promote, roll back, retire."""
