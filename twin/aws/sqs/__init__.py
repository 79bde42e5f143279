"""SQS: queues and their separate configuration resources."""
