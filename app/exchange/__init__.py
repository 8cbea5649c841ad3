"""Where models live: fetched from hubs, registries, buckets and URLs; what was made of them pushed there, or packed."""
