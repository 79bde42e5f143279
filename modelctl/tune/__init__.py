"""Which batch size, delay and number of instances serve a model best under its SLO: measured, not guessed."""
