"""Do what the commands of the command line promise, a module for each."""
