"""The process of one transfer: the libraries of hubs and registries are heavy, and may hang."""
