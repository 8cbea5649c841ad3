"""Transfers of models: fetched from hubs, registries, buckets and URLs; results pushed there, or packed."""
