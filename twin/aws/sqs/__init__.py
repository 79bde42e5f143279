"""SQS: queues, and what is set on them by resources of their own."""
