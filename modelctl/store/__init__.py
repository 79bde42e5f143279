"""Store releases in a bucket: objects under `releases/<id>/` with a manifest, and the repository `live/`."""
